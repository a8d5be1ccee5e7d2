//! `vivarium sessions update`.

use std::collections::BTreeMap;

use clap::Args;
use jiff::Timestamp;
use vivarium_api_types::{Change, Cores, LimitsSpec, SessionPatch};
use vivarium_config::duration;
use vivarium_protocol::units::Limit;

use super::One;
use crate::exit::{Exit, Failure};
use crate::inputs::milliseconds;
use crate::options::pairs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium sessions update demo --metadata ticket=42 --remove-metadata user
  vivarium sessions update demo --idle-timeout 10m --deadline 2h --max-procs 20")]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(super) one: One,
    /// Sets a string of its metadata; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<String>,
    /// Removes a string of its metadata; repeatable
    #[arg(long, value_name = "NAME")]
    remove_metadata: Vec<String>,
    /// Ends the session after this time without use, such as 10m, or `default`
    #[arg(long, value_name = "TIME", value_parser = idle_timeout)]
    idle_timeout: Option<Change<u64>>,
    /// Ends the session then: after a time from now, such as 2h, at 2026-01-01T12:00:00Z, or `default`
    #[arg(long, value_name = "TIME", value_parser = changed_deadline)]
    deadline: Option<Change<Timestamp>>,
    #[command(flatten)]
    limits: LowerLimits,
}

/// The limits that can change, each downwards alone.
#[derive(Debug, Args)]
#[command(next_help_heading = "Lower limits")]
struct LowerLimits {
    /// Memory of the session, its files included, in MiB
    #[arg(long, value_name = "MIB")]
    max_memory_mb: Option<Limit>,
    /// Processes and threads
    #[arg(long, value_name = "COUNT")]
    max_procs: Option<Limit>,
    /// CPU cores, such as 0.5
    #[arg(long, value_name = "CORES")]
    cpu_cores: Option<Cores>,
    /// Kept of each of stdout and stderr, per later execution, in bytes
    #[arg(long, value_name = "BYTES")]
    max_output_bytes: Option<Limit>,
    /// Results, displays and files of one later execution, in bytes
    #[arg(long, value_name = "BYTES")]
    max_result_bytes: Option<Limit>,
}

impl UpdateArgs {
    pub(super) fn patch(&self) -> Result<SessionPatch, Failure> {
        let set = pairs("--metadata", &self.metadata)?;
        let mut metadata: BTreeMap<_, _> =
            set.into_iter().map(|(name, value)| (name, Some(value))).collect();
        metadata.extend(self.remove_metadata.iter().map(|name| (name.clone(), None)));
        let LowerLimits { max_memory_mb, max_procs, cpu_cores, .. } = self.limits;
        let limits = LimitsSpec {
            max_memory_mb,
            max_procs,
            cpu_cores,
            max_output_bytes: self.limits.max_output_bytes,
            max_result_bytes: self.limits.max_result_bytes,
            ..LimitsSpec::default()
        };
        let patch = SessionPatch {
            metadata: if metadata.is_empty() { Change::Keep } else { Change::Set(metadata) },
            idle_timeout_ms: self.idle_timeout.unwrap_or_default(),
            deadline: self.deadline.unwrap_or_default(),
            limits: (limits != LimitsSpec::default()).then_some(limits),
        };
        if patch == SessionPatch::default() {
            return Err(Failure::says(Exit::Usage, "what is to be changed? See --help"));
        }
        Ok(patch)
    }
}

/// A time to come: from now, or in the form of RFC 3339.
pub(super) fn deadline(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let after = duration::parse(text)
        .map_err(|error| format!("{error}, or a time such as \"2026-01-01T12:00:00Z\""))?;
    Timestamp::now().checked_add(after).map_err(|error| error.to_string())
}

fn changed_deadline(text: &str) -> Result<Change<Timestamp>, String> {
    if text == "default" { Ok(Change::Remove) } else { deadline(text).map(Change::Set) }
}

fn idle_timeout(text: &str) -> Result<Change<u64>, duration::DurationError> {
    if text == "default" {
        return Ok(Change::Remove);
    }
    duration::parse(text).map(|time| Change::Set(milliseconds(time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_time_from_now_or_a_moment() {
        let moment = "2099-01-01T12:00:00Z";
        assert_eq!(deadline(moment).unwrap().to_string(), moment);
        let soon = deadline("2h").unwrap().as_second() - Timestamp::now().as_second();
        assert!((7190..=7200).contains(&soon), "{soon}");
        assert_eq!(changed_deadline("default").unwrap(), Change::Remove);
        assert!(deadline("tomorrow").unwrap_err().contains("2026-01-01T12:00:00Z"));
    }
}
