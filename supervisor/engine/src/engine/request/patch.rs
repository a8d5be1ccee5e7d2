//! What a session is after a patch: every change checked before any is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use vivarium_api_types::{Change, LimitsSpec, SessionPatch};
use vivarium_protocol::policy::Limits;
use vivarium_protocol::units::Limit;

use super::floor::{self, too_low};
use crate::engine::EngineError;
use crate::session::Adjustable;
use crate::settings::Settings;

/// Limits that the daemon itself holds, each execution anew.
const HELD_BY_DAEMON: [&str; 2] = ["max_output_bytes", "max_result_bytes"];

/// What the kernel can be told while processes live, through the session's cgroup.
const HELD_BY_CGROUP: [&str; 3] = ["max_memory_mb", "max_procs", "cpu_cores"];

/// `held` are the limits that the session's cgroup holds.
pub(in crate::engine) fn patched(
    settings: &Settings,
    created_at: Timestamp,
    old: Adjustable,
    held: &[&str],
    patch: SessionPatch,
) -> Result<Adjustable, EngineError> {
    let SessionPatch { metadata, idle_timeout_ms, deadline, limits } = patch;
    Ok(Adjustable {
        metadata: match metadata {
            Change::Keep => old.metadata,
            Change::Remove => BTreeMap::new(),
            Change::Set(changes) => super::metadata(merged(old.metadata, changes))?,
        },
        idle_timeout: match idle_timeout_ms {
            Change::Keep => old.idle_timeout,
            Change::Remove => super::idle_timeout(settings, None)?,
            Change::Set(asked) => super::idle_timeout(settings, Some(asked))?,
        },
        deadline: match deadline {
            Change::Keep => old.deadline,
            Change::Remove => super::deadline(settings, created_at, None)?,
            Change::Set(asked) => super::deadline(settings, created_at, Some(asked))?,
        },
        limits: match limits {
            None => old.limits,
            Some(asked) => Arc::new(lowered(&old.limits, asked, held)?),
        },
    })
}

fn merged(
    mut metadata: BTreeMap<String, String>,
    changes: BTreeMap<String, Option<String>>,
) -> BTreeMap<String, String> {
    for (key, change) in changes {
        match change {
            Some(value) => metadata.insert(key, value),
            None => metadata.remove(&key),
        };
    }
    metadata
}

fn lowered(old: &Limits, asked: LimitsSpec, held: &[&str]) -> Result<Limits, EngineError> {
    let invalid =
        |(name, reason): (&str, String)| EngineError::invalid(format!("limits.{name}"), reason);
    let new = asked.tighten(old, "the session has").map_err(invalid)?;
    for name in LimitsSpec::differing(old, &new) {
        if HELD_BY_DAEMON.contains(&name) || held.contains(&name) {
            continue;
        }
        let reason = if HELD_BY_CGROUP.contains(&name) {
            "it is lowered through a cgroup, and this session has none for it"
        } else {
            "it holds as long as the session lives: create another session"
        };
        return Err(invalid((name, reason.to_owned())));
    }
    if let Some(low) = too_low(&new) {
        return Err(invalid(low));
    }
    if new.max_memory_mb != old.max_memory_mb {
        leaves_room_for_a_kernel(&new).map_err(|why| invalid(("max_memory_mb", why)))?;
    }
    Ok(new)
}

/// Files are kept in memory, and how many there may be holds as long as the session lives: together
/// with them a fresh kernel has to fit.
fn leaves_room_for_a_kernel(limits: &Limits) -> Result<(), String> {
    let (Some(memory_mb), Some(disk_mb)) = (limits.max_memory_mb.get(), limits.max_disk_mb.get())
    else {
        return Ok(());
    };
    let least = disk_mb.saturating_add(floor::MIN_MEMORY_MB);
    if memory_mb >= least {
        return Ok(());
    }
    let at = Limit::new(memory_mb).map(|at| at.to_string()).unwrap_or_default();
    Err(format!("{at} is too low: files may take {disk_mb} (max_disk_mb), and {least} are needed"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::request::tests::field;
    use crate::engine::testing::settings;

    fn adjustable() -> Adjustable {
        let metadata = [("a", "1"), ("b", "2")].map(|(key, value)| (key.into(), value.into()));
        Adjustable {
            limits: Arc::new(settings().sandbox.limits),
            metadata: metadata.into_iter().collect(),
            idle_timeout: Duration::from_secs(60),
            deadline: None,
        }
    }

    fn patch(json: &str, held: &[&str]) -> Result<Adjustable, EngineError> {
        let patch = serde_json::from_str(json).unwrap();
        patched(&settings(), Timestamp::now(), adjustable(), held, patch)
    }

    #[test]
    fn what_is_not_named_stays_and_null_removes() {
        assert_eq!(patch("{}", &[]).unwrap(), adjustable());
        let changed = patch(r#"{"metadata": {"a": null, "ü": "3"}}"#, &[]).unwrap();
        let left: Vec<_> = changed.metadata.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(left, [("b", "2"), ("ü", "3")]);
        assert!(patch(r#"{"metadata": null}"#, &[]).unwrap().metadata.is_empty());
        let usual = settings().session.idle_timeout;
        assert_eq!(patch(r#"{"idle_timeout_ms": null}"#, &[]).unwrap().idle_timeout, usual);
        let long = format!(r#"{{"metadata": {{"c": "{}"}}}}"#, "x".repeat(4096));
        assert_eq!(field(patch(&long, &[])), "metadata");
        assert_eq!(field(patch(r#"{"idle_timeout_ms": 3600001}"#, &[])), "idle_timeout_ms");
    }

    #[test]
    fn deadlines_are_to_come_and_within_the_longest_life() {
        let at = |secs: i64| {
            let time = Timestamp::now() + jiff::SignedDuration::from_secs(secs);
            format!(r#"{{"deadline": "{time}"}}"#)
        };
        assert!(patch(&at(10), &[]).unwrap().deadline.is_some());
        assert_eq!(field(patch(&at(-10), &[])), "deadline");
        let mut settings = settings();
        settings.session.max_lifetime = Some(Duration::from_secs(60));
        let bounded = |json: &str| {
            let patch = serde_json::from_str(json).unwrap();
            patched(&settings, Timestamp::now(), adjustable(), &[], patch)
        };
        assert_eq!(field(bounded(&at(70))), "deadline");
        assert!(bounded(&at(50)).unwrap().deadline.is_some());
        assert!(bounded(r#"{"deadline": null}"#).unwrap().deadline.is_some(), "the longest life");
    }

    #[test]
    fn limits_are_lowered_where_something_holds_them() {
        let all = HELD_BY_CGROUP.as_slice();
        let lower = patch(r#"{"limits": {"max_procs": 8, "max_output_bytes": 10}}"#, all).unwrap();
        assert_eq!(lower.limits.max_procs, Limit::new(8).unwrap());
        assert!(patch(r#"{"limits": {"max_open_fds": 1024}}"#, &[]).is_ok(), "no change");
        for (json, held, name) in [
            (r#"{"limits": {"max_procs": 65}}"#, all, "limits.max_procs"),
            (r#"{"limits": {"max_procs": 8}}"#, &[], "limits.max_procs"),
            (r#"{"limits": {"max_open_fds": 100}}"#, all, "limits.max_open_fds"),
            (r#"{"limits": {"max_memory_mb": 31}}"#, all, "limits.max_memory_mb"),
            (r#"{"limits": {"max_memory_mb": 543}}"#, all, "limits.max_memory_mb"),
        ] {
            assert_eq!(field(patch(json, held)), name, "{json}");
        }
        assert!(patch(r#"{"limits": {"max_memory_mb": 544}}"#, all).is_ok());
    }
}
