//! Options of a new session, in an embedded sandbox or in a daemon.

use std::collections::BTreeMap;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use vivarium_api_types::{
    ApprovalRule, ApprovalSpec, CheckpointMode, Cores, HomeKind, LimitsSpec, SessionSpec,
    VolumeMount,
};
use vivarium_protocol::policy::Network;
use vivarium_protocol::units::Limit;

use crate::exit::{Exit, Failure};

const NETWORKS: [Network; 4] = [Network::None, Network::Loopback, Network::Trusted, Network::Full];
const RULES: [ApprovalRule; 3] = [ApprovalRule::Allow, ApprovalRule::Ask, ApprovalRule::Deny];
const CHECKPOINTS: [CheckpointMode; 3] =
    [CheckpointMode::Off, CheckpointMode::Named, CheckpointMode::Each];
const HOMES: [HomeKind; 3] = [HomeKind::Off, HomeKind::Session, HomeKind::Tenant];

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "New session")]
pub(crate) struct SessionOptions {
    /// What the code can reach [default: sandbox.network of the configuration]
    #[arg(long, value_name = "NETWORK", value_parser = named(NETWORKS))]
    network: Option<Network>,
    /// Where it may connect to with --network trusted, within what its tenant may: HOST, *.HOST or
    /// HOST:PORT; repeatable [default: all that its tenant may]
    #[arg(long, value_name = "HOST")]
    egress_allow: Vec<String>,
    /// Whether somebody has to allow first what runs, no less than its tenant's rule says
    #[arg(long, value_name = "RULE", value_parser = named(RULES))]
    approval_executions: Option<ApprovalRule>,
    /// The same of destinations on no list, with --network trusted
    #[arg(long, value_name = "RULE", value_parser = named(RULES))]
    approval_egress: Option<ApprovalRule>,
    /// Name of a configured environment [default: default]
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    #[command(flatten)]
    limits: LimitOptions,
}

/// What a new session can go back to.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "New session")]
pub(crate) struct CheckpointOptions {
    /// Which checkpoints it has: `named` ones, or also one after `each` execution [default: images.checkpoint]
    #[arg(long, value_name = "MODE", value_parser = named(CHECKPOINTS))]
    checkpoint: Option<CheckpointMode>,
    /// Rolls the session back to its last checkpoint where code loses its kernel
    #[arg(long)]
    auto_rollback: bool,
}

impl CheckpointOptions {
    pub(crate) const fn mode(&self) -> Option<CheckpointMode> {
        self.checkpoint
    }

    pub(crate) const fn rolls_back(&self) -> Option<bool> {
        if self.auto_rollback { Some(true) } else { None }
    }
}

/// What of a daemon's files a new session has.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "New session")]
pub(crate) struct HomeOptions {
    /// Files that outlive it, at /home/sandbox: of the sessions of its id, or of the tenant [default: off]
    #[arg(long, value_name = "KIND", value_parser = named(HOMES))]
    home: Option<HomeKind>,
    /// A volume, and where it appears beneath /mnt; `:ro` to only read it; repeatable
    #[arg(long = "volume", value_name = "NAME[:PATH][:ro]")]
    volumes: Vec<String>,
}

impl HomeOptions {
    pub(crate) const fn home(&self) -> Option<HomeKind> {
        self.home
    }

    pub(crate) fn volumes(&self) -> Vec<VolumeMount> {
        self.volumes.iter().map(|volume| volume_mount(volume)).collect()
    }
}

fn volume_mount(text: &str) -> VolumeMount {
    let (rest, read_only) = match text.strip_suffix(":ro") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (name, path) = match rest.split_once(':') {
        Some((name, path)) => (name, Some(path.to_owned())),
        None => (rest, None),
    };
    VolumeMount { name: name.to_owned(), path, read_only }
}

impl SessionOptions {
    pub(crate) const fn approval_executions(&self) -> Option<ApprovalRule> {
        self.approval_executions
    }

    pub(crate) fn spec(&self) -> SessionSpec {
        let approval =
            ApprovalSpec { executions: self.approval_executions, egress: self.approval_egress };
        SessionSpec {
            environment: self.environment.clone(),
            network: self.network,
            egress_allow: (!self.egress_allow.is_empty()).then(|| self.egress_allow.clone()),
            approval: (approval != ApprovalSpec::default()).then_some(approval),
            limits: self.limits.spec(),
            ..SessionSpec::default()
        }
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct EnvOption {
    /// Sets an environment variable for what runs; repeatable
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
}

impl EnvOption {
    pub(crate) fn read(&self) -> Result<BTreeMap<String, String>, Failure> {
        pairs("--env", &self.env)
    }
}

/// The `NAME=VALUE` of an option that can be repeated.
pub(crate) fn pairs(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pairs = given.iter().map(|pair| {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::says(Exit::Usage, format!("{flag} {pair}: give NAME=VALUE")))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// One of these, by its name in the API.
pub(crate) fn named<T, const N: usize>(all: [T; N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
    &'static str: From<T>,
{
    let find = move |name: String| all.into_iter().find(|&one| <&str>::from(one) == name);
    PossibleValuesParser::new(all.map(<&str>::from))
        .try_map(move |name| find(name).ok_or("none of these"))
}

macro_rules! limits {
    ($($doc:literal $name:ident: $type:ident, $unit:literal;)+) => {
        /// The limits of the API, each a flag of the same name.
        #[derive(Debug, Default, Args)]
        #[command(next_help_heading = "Limits of a new session: a number, or `unlimited` [default: sandbox.* of the configuration]")]
        struct LimitOptions {
            $(
                #[doc = $doc]
                #[arg(long, value_name = $unit)]
                $name: Option<$type>,
            )+
        }

        impl LimitOptions {
            fn spec(&self) -> Option<LimitsSpec> {
                let spec = LimitsSpec { $($name: self.$name,)+ };
                (spec != LimitsSpec::default()).then_some(spec)
            }
        }
    };
}

limits! {
    "Memory of the session, its files included, in MiB" max_memory_mb: Limit, "MIB";
    "CPU time of one execution, in seconds" max_cpu_secs: Limit, "SECONDS";
    "Processes and threads" max_procs: Limit, "COUNT";
    "Open files per process" max_open_fds: Limit, "COUNT";
    "Largest file, in MiB" max_file_size_mb: Limit, "MIB";
    "All files together, in MiB" max_disk_mb: Limit, "MIB";
    "Files, folders and links together" max_inodes: Limit, "COUNT";
    "CPU cores, such as 0.5" cpu_cores: Cores, "CORES";
    "Kept of each of stdout and stderr, per execution, in bytes" max_output_bytes: Limit, "BYTES";
    "Results, displays and files of one execution, in bytes" max_result_bytes: Limit, "BYTES";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_a_name_and_may_have_a_place() {
        let of = |name: &str, path: Option<&str>, read_only| VolumeMount {
            name: name.to_owned(),
            path: path.map(str::to_owned),
            read_only,
        };
        assert_eq!(volume_mount("v"), of("v", None, false));
        assert_eq!(volume_mount("v:ro"), of("v", None, true));
        assert_eq!(volume_mount("v:/mnt/a"), of("v", Some("/mnt/a"), false));
        assert_eq!(volume_mount("v:/mnt/a:ro"), of("v", Some("/mnt/a"), true));
    }
}
