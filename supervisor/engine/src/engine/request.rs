//! From what a client asked for to what a session is told: every value checked, every error
//! naming its field. A request may tighten what is configured, and never widen it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use vivarium_api_types::{
    ApprovalRule, ApprovalSpec, CheckpointMode, LimitsSpec, MAX_METADATA_BYTES,
};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::policy::{Limits, Network};
use vivarium_protocol::units::Limit;

use super::EngineError;
use crate::session::Deadline;
use crate::settings::{Approval, Settings};

mod floor;
mod patch;
mod tools;
mod valid_id;
mod work;

pub use floor::too_low;
pub(super) use patch::patched;
pub(super) use tools::{may_have_tools, server, tool_set, tools};
use valid_id::MAX_NAME_BYTES;
pub use valid_id::is_valid_id;
pub(super) use work::{code, command, considered, roots, run};

/// The most variables of a request, and the most they may take together, in bytes. The kernel
/// allows one string 128 KiB (`MAX_ARG_STRLEN`).
const MAX_ENV: usize = 256;
const MAX_ENV_BYTES: usize = 96 << 10;

pub(super) fn id(asked: Option<String>) -> Result<String, EngineError> {
    match asked {
        Some(id) if is_valid_id(&id) => Ok(id),
        Some(_) => Err(EngineError::invalid(
            "id",
            format!("an id is 1 to {MAX_NAME_BYTES} of A-Z, a-z, 0-9, '_' and '-'"),
        )),
        // Version 4: 122 random bits, not to be guessed.
        None => Ok(uuid::Uuid::new_v4().to_string()),
    }
}

pub(super) fn limits(
    configured: &Limits,
    asked: Option<LimitsSpec>,
) -> Result<Limits, EngineError> {
    let invalid =
        |(name, reason): (&str, String)| EngineError::invalid(format!("limits.{name}"), reason);
    let mut limits =
        asked.unwrap_or_default().tighten(configured, "is configured").map_err(invalid)?;
    limits.max_disk_mb = disk_within(limits.max_memory_mb, limits.max_disk_mb);
    match too_low(&limits) {
        Some(low) => Err(invalid(low)),
        None => Ok(limits),
    }
}

/// Files are kept in memory, and stay when a kernel dies: they may take half of the session's, so
/// that there is always enough left for a fresh kernel.
fn disk_within(memory_mb: Limit, disk_mb: Limit) -> Limit {
    let half = memory_mb.get().and_then(|memory_mb| Limit::new((memory_mb / 2).max(1)).ok());
    half.filter(|half| !disk_mb.is_within(*half)).unwrap_or(disk_mb)
}

/// `full_is_own`: sessions of network `full` have the network layer too.
pub(super) fn network(
    settings: &Settings,
    full_is_own: bool,
    asked: Option<Network>,
) -> Result<Network, EngineError> {
    let own = settings.sandbox.network;
    match asked {
        Some(asked) if asked != own && !settings.sandbox.allowed_networks.contains(&asked) => {
            Err(EngineError::invalid("network", "the operator does not allow this network"))
        }
        Some(Network::Full)
            if !full_is_own && settings.sandbox.required().contains(&Layer::Network) =>
        {
            let reason = "the operator requires the network layer, which \"full\" is without here";
            Err(EngineError::invalid("network", reason))
        }
        asked => Ok(asked.unwrap_or(own)),
    }
}

/// Refuses a rule that is wider than the one that holds.
pub(super) fn tightened(
    field: &str,
    held: ApprovalRule,
    asked: Option<ApprovalRule>,
) -> Result<(), EngineError> {
    match asked {
        Some(asked) if asked < held => {
            let (asked, held): (&str, &str) = (asked.into(), held.into());
            let reason =
                format!("{asked:?}: the rule is {held:?}, which a request may only tighten");
            Err(EngineError::invalid(field, reason))
        }
        _ => Ok(()),
    }
}

/// What a session is to have at least, within its tenant's rule.
pub(super) fn approval(
    held: &Approval,
    network: Network,
    asked: Option<ApprovalSpec>,
) -> Result<ApprovalSpec, EngineError> {
    let asked = asked.unwrap_or_default();
    tightened("approval.executions", held.executions, asked.executions)?;
    if asked.egress.is_some() && network != Network::Trusted {
        let reason = "it goes with the network \"trusted\"";
        return Err(EngineError::invalid("approval.egress", reason));
    }
    tightened("approval.egress", held.egress, asked.egress)?;
    Ok(asked)
}

pub(super) fn timeout(settings: &Settings, asked: Option<u64>) -> Result<Duration, EngineError> {
    let max = settings.session.max_exec_timeout;
    match asked.map(Duration::from_millis) {
        Some(Duration::ZERO) => Err(EngineError::invalid("timeout_ms", "0 is no time at all")),
        Some(asked) if asked > max => {
            Err(EngineError::invalid("timeout_ms", over("session.max_exec_timeout", asked, max)))
        }
        asked => Ok(asked.unwrap_or(settings.session.exec_timeout)),
    }
}

/// Says which key is the maximum of a time, and what it is.
fn over(key: &str, asked: Duration, max: Duration) -> String {
    format!("{} is more than the {} allowed ({key})", asked.as_millis(), max.as_millis())
}

pub(super) fn idle_timeout(
    settings: &Settings,
    asked: Option<u64>,
) -> Result<Duration, EngineError> {
    let max = settings.session.idle_timeout;
    match asked.map(Duration::from_millis) {
        Some(Duration::ZERO) => Err(EngineError::invalid("idle_timeout_ms", "0 is no time at all")),
        Some(asked) if asked > max => {
            Err(EngineError::invalid("idle_timeout_ms", over("session.idle_timeout", asked, max)))
        }
        asked => Ok(asked.unwrap_or(max)),
    }
}

/// When a session ends whatever it does: as asked, but no later than is configured.
pub(super) fn deadline(
    settings: &Settings,
    created_at: Timestamp,
    asked: Option<Timestamp>,
) -> Result<Option<Deadline>, EngineError> {
    let max = settings.session.max_lifetime;
    let latest = max.and_then(|max| created_at.checked_add(max).ok());
    let Some(asked) = asked else {
        return Ok(latest
            .and_then(|latest| Deadline::at(latest).or_else(|| Deadline::after(Duration::ZERO))));
    };
    if latest.is_some_and(|latest| asked > latest) {
        let max = max.unwrap_or_default().as_secs();
        let reason = format!("a session lives for {max} s at most (session.max_lifetime)");
        return Err(EngineError::invalid("deadline", reason));
    }
    let is_over = || EngineError::invalid("deadline", format!("{asked} has passed"));
    Deadline::at(asked).map(Some).ok_or_else(is_over)
}

/// Nobody is to count on checkpoints that are never made.
pub(super) fn checkpoints(
    has_images: bool,
    asked: Option<CheckpointMode>,
    auto_rollback: Option<bool>,
) -> Result<(), EngineError> {
    let reason = "its environment has no images (environments.NAME.images)";
    match (asked, auto_rollback) {
        (Some(CheckpointMode::Each), _) if !has_images => {
            Err(EngineError::invalid("checkpoint", reason))
        }
        (_, Some(true)) if !has_images => Err(EngineError::invalid("auto_rollback", reason)),
        _ => Ok(()),
    }
}

pub(super) fn metadata(
    asked: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, EngineError> {
    let bytes: usize = asked.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
    if bytes > MAX_METADATA_BYTES {
        let reason = format!("{bytes} bytes are over the maximum of {MAX_METADATA_BYTES}");
        return Err(EngineError::invalid("metadata", reason));
    }
    Ok(asked)
}

pub(super) fn env(
    asked: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, EngineError> {
    let bytes: usize = asked.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if asked.len() > MAX_ENV || bytes > MAX_ENV_BYTES {
        let reason = format!("over the maximum of {MAX_ENV} variables and {MAX_ENV_BYTES} bytes");
        return Err(EngineError::invalid("env", reason));
    }
    for (name, value) in &asked {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let reason = "a variable has a name without '=' and NUL, and a value without NUL";
            return Err(EngineError::invalid(format!("env.{}", name.escape_default()), reason));
        }
    }
    Ok(asked)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::testing::settings;

    pub(in crate::engine) fn field<T: std::fmt::Debug>(result: Result<T, EngineError>) -> String {
        match result.unwrap_err() {
            EngineError::Invalid { field, .. } => field,
            EngineError::Missing { field, .. } => field.to_owned(),
            other => other.to_string(),
        }
    }

    #[test]
    fn ids_are_plain_names_or_random() {
        for good in ["a", "A-Z_09", &"x".repeat(64)] {
            assert_eq!(id(Some(good.to_owned())).unwrap(), good);
        }
        for bad in ["", ".", "..", "a/b", "../x", "a b", "é", "a\0", "a%2f", &"x".repeat(65)] {
            assert_eq!(field(id(Some(bad.to_owned()))), "id", "{bad:?}");
        }
        assert!(is_valid_id(&id(None).unwrap()));
        assert_ne!(id(None).unwrap(), id(None).unwrap());
    }

    #[test]
    fn limits_tighten_and_never_widen() {
        let own = settings().sandbox.limits.clone();
        assert_eq!(limits(&own, None).unwrap(), own);
        let asked = |json: &str| limits(&own, Some(serde_json::from_str(json).unwrap()));
        assert_eq!(asked(r#"{"max_procs": 1}"#).unwrap().max_procs, Limit::new(1).unwrap());
        assert_eq!(asked(r#"{"cpu_cores": 0.5}"#).unwrap().cpu_cores.milli, Some(500));
        for (json, name) in [
            (r#"{"max_procs": 1000000}"#, "limits.max_procs"),
            (r#"{"max_memory_mb": "unlimited"}"#, "limits.max_memory_mb"),
            (r#"{"cpu_cores": 1.5}"#, "limits.cpu_cores"),
            (r#"{"cpu_cores": "unlimited"}"#, "limits.cpu_cores"),
        ] {
            assert_eq!(field(asked(json)), name);
        }
    }

    #[test]
    fn files_leave_half_of_the_memory_to_the_kernel() {
        let at = |n| Limit::new(n).unwrap();
        assert_eq!(disk_within(at(128), at(512)), at(64));
        assert_eq!(disk_within(at(128), at(64)), at(64));
        assert_eq!(disk_within(at(128), at(10)), at(10));
        assert_eq!(disk_within(at(1), Limit::Unlimited), at(1));
        assert_eq!(disk_within(Limit::Unlimited, at(512)), at(512));
    }

    #[test]
    fn times_are_within_what_is_configured() {
        let settings = settings();
        assert_eq!(timeout(&settings, None).unwrap(), settings.session.exec_timeout);
        assert_eq!(timeout(&settings, Some(5)).unwrap(), Duration::from_millis(5));
        assert_eq!(field(timeout(&settings, Some(0))), "timeout_ms");
        assert_eq!(field(timeout(&settings, Some(u64::MAX))), "timeout_ms");
        assert_eq!(field(idle_timeout(&settings, Some(u64::MAX))), "idle_timeout_ms");
    }

    #[test]
    fn networks_are_those_the_operator_allows() {
        let mut settings = settings();
        assert_eq!(network(&settings, false, None).unwrap(), Network::Loopback);
        assert_eq!(network(&settings, false, Some(Network::None)).unwrap(), Network::None);
        assert_eq!(field(network(&settings, true, Some(Network::Full))), "network");
        settings.sandbox.allowed_networks.push(Network::Full);
        settings.sandbox.require = Some(vec![Layer::Network]);
        assert_eq!(field(network(&settings, false, Some(Network::Full))), "network");
        assert_eq!(network(&settings, true, Some(Network::Full)).unwrap(), Network::Full);
    }

    #[test]
    fn variables_are_what_the_system_can_carry() {
        let one = |name: &str, value: &str| {
            env([(name.to_owned(), value.to_owned())].into_iter().collect())
        };
        assert!(one("A", "b=c").is_ok());
        assert_eq!(field(one("A=B", "")), "env.A=B");
        assert_eq!(field(one("", "")), "env.");
        assert_eq!(field(one("A", "\0")), "env.A");
        assert_eq!(field(one("A", &"x".repeat(MAX_ENV_BYTES))), "env");
    }
}
