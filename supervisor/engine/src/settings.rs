//! What the configuration means here: checked, with every default filled in.
//!
//! The server reads the file, the variables and the flags; this is what the engine reads.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use vivarium_api_types::CheckpointMode;
use vivarium_api_types::{CodePolicySpec, ListenAddr, PolicySource};
pub use vivarium_audit::{Fsync, OnFull, Settings as Audit};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::policy::{Limits, Network};
pub use vivarium_protocol::runtime::Runtime;
use vivarium_protocol::units::Limit;

mod approval;
mod builds;
mod calls;
mod egress;
mod overrides;
mod packages;
mod quotas;
mod tenants;
mod tokens;
mod tool_servers;

pub use approval::{Approval, ApprovalRule, Webhook};
pub use builds::{Builds, TenantBuilds};
pub use calls::CallBounds;
pub use egress::{Egress, GateSource, PasstSource, SecretSource, TenantSecret};
pub use overrides::{
    Overrides, overridable_of_approval, overridable_of_sandbox, overridable_of_session,
};
pub use packages::{PackageIndex, PackageSource, Packages, TenantPackages};
pub use quotas::{DEFAULT_RESULTS_MB, Quotas, Rate};
pub use tenants::{Ceilings, DEFAULT_TENANT, Quota, Tenant, TenantSources};
pub use tokens::TenantToken;
pub use tool_servers::ToolServer;

#[derive(Debug, Clone)]
pub struct Settings {
    pub server: Server,
    pub sandbox: Sandbox,
    pub session: Session,
    pub preview: Preview,
    pub dialects: Dialects,
    pub e2b: E2b,
    pub audit: Audit,
    pub homes: Homes,
    pub images: Images,
    pub builds: Builds,
    pub egress: Egress,
    pub packages: Packages,
    pub approval: Approval,
    pub usage: Usage,
    /// Servers of tools, by name.
    pub tool_servers: BTreeMap<String, ToolServer>,
    /// Interpreters by name; `default` is always there.
    pub environments: BTreeMap<String, Environment>,
    pub tenant_sources: TenantSources,
    /// Tenants by name. None: whoever connects is the one tenant `default`.
    pub tenants: BTreeMap<String, Tenant>,
    /// Where the values of keys came from, by the path of the key; that of one which is not there
    /// is the default.
    pub sources: Arc<BTreeMap<String, PolicySource>>,
    /// The agent to start sessions with. Not configured: found beside this program.
    pub agent_binary: AgentBinary,
}

impl Settings {
    /// Has no sessions started before they are asked for: for an engine that serves nobody else.
    pub fn keep_none_ready(&mut self) {
        for environment in self.environments.values_mut() {
            (environment.pool_size, environment.pool_low) = (0, None);
        }
    }

    /// Why only this host may reach the API; `None` where others may too.
    pub fn why_local_only(&self) -> Option<&'static str> {
        if self.sandbox.mode == Mode::Off {
            Some("there is no sandbox (sandbox.mode is \"off\")")
        } else if self.tenants.is_empty() && !self.tenant_sources.is_configured() {
            Some("there are no tenants, so anybody who can connect can run code")
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct AgentBinary {
    /// Where it was found; for messages.
    pub path: PathBuf,
    /// It, opened (`O_PATH`) before privileges were dropped, so that a build directory which
    /// the daemon's id can not search still serves, and a later upgrade of the file does not
    /// mix two versions.
    pub file: Option<Arc<OwnedFd>>,
    /// Its library, which templates load, opened likewise.
    pub library: Option<Arc<OwnedFd>>,
}

impl AgentBinary {
    /// The path to execute: the open file where there is one (`proc_pid_fd(5)`), else the
    /// path.
    pub fn exec_path(&self) -> PathBuf {
        self.file.as_ref().map_or_else(
            || self.path.clone(),
            |file| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        )
    }
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where the API listens: as configured, or where systemd has it listen.
    pub listen: Vec<ListenAddr>,
    pub state_dir: PathBuf,
    pub runtime_dir: PathBuf,
    /// The user to switch to when started as root.
    pub user: String,
    pub max_body_bytes: u64,
    pub max_connections: u64,
    /// What the daemon may hold of requests, executions and results, in MiB.
    pub max_buffered_mb: u64,
    pub max_tenant_buffered_mb: u64,
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// journald fields where standard error is the journal, text elsewhere.
    Auto,
    Json,
    Text,
}

/// `[usage]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub flush_interval: Duration,
    pub keep: Duration,
}

/// `[preview]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Where the ports of sessions are shown to browsers, if anywhere.
    pub url: Option<PreviewUrl>,
    /// How long the URL of a preview can be used.
    pub lifetime: Duration,
}

/// `[dialects]`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialects {
    /// Whether there is MCP.
    pub mcp: bool,
    /// Whether there is the older transport of MCP, with one tool.
    pub mcp_legacy_sse: bool,
    /// Whether there is a Jupyter kernel gateway.
    pub jupyter: bool,
    /// Whether the tools can be called one by one.
    pub tools: bool,
    /// Whether there is the code API of LibreChat.
    pub librechat: bool,
    /// Whether there is E2B, on listeners of its own.
    pub e2b: bool,
}

/// `[e2b]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct E2b {
    /// Where E2B is served, if it is.
    pub listen: Vec<ListenAddr>,
}

/// `[homes]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homes {
    /// What requests may ask for.
    pub session: bool,
    pub tenant: bool,
    pub volumes: bool,
    /// Of each home and volume, in MiB.
    pub max_mb: Limit,
    pub max_inodes: Limit,
    pub max_per_tenant: Limit,
    /// Time without a session after which a home is removed.
    pub expire_after: Option<Duration>,
}

/// `[images]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// What seals them, if it is not to be made and kept beside them.
    pub key_file: Option<PathBuf>,
    /// Whether the library and kernel program that images were taken under are kept and used for them.
    pub keep_programs: bool,
    /// Time without use after which a session is suspended.
    pub suspend_after: Option<Duration>,
    /// The same, where there is no memory for another.
    pub suspend_for_room: Option<Duration>,
    /// Whether a session whose idle timeout has passed is suspended and not ended.
    pub suspend_expired: bool,
    /// Of each tenant's images together, in MiB.
    pub max_mb: Limit,
    pub max_per_tenant: Limit,
    /// Which checkpoints a session has that does not say.
    pub checkpoint: CheckpointMode,
    /// How many a session keeps of those that are made by themselves.
    pub checkpoints_kept: Limit,
    /// Time after which a suspended session is deleted.
    pub expire_after: Option<Duration>,
}

impl Homes {
    /// Whether there is any of it.
    pub const fn are_offered(&self) -> bool {
        self.session || self.tenant || self.volumes
    }
}

/// The origins of previews: each has one label more than `host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewUrl {
    /// `http` or `https`.
    pub scheme: String,
    /// A DNS name in lower case.
    pub host: String,
    pub port: Option<u16>,
}

/// How much sandbox there has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every layer the host offers, and the truth about the others.
    Auto,
    /// Every layer, or no start.
    On,
    Off,
}

impl Mode {
    /// As it is configured.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// `[sandbox]`
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// How much sandbox there has to be.
    pub mode: Mode,
    /// Layers switched off one by one; for diagnosis, refused in mode `on`.
    pub disable_layers: Vec<Layer>,
    /// Layers without which nothing starts; not said: see [`Sandbox::required`].
    pub require: Option<Vec<Layer>>,
    /// What a session may use unless its request says less.
    pub limits: Limits,
    /// What code is held to, unless its environment, session or request says more.
    pub code_policy: CodePolicySpec,
    /// What a session can reach unless its request says otherwise.
    pub network: Network,
    pub allowed_networks: Vec<Network>,
    /// What stands in for [`Network::Loopback`] where there is no network namespace. In the place of
    /// [`Network::Trusted`] there is none.
    pub network_fallback: Network,
    /// Where the workdir appears inside a session.
    pub workdir: PathBuf,
    /// The delegated cgroup v2 directory; found by itself if not given.
    pub cgroup_root: Option<PathBuf>,
}

impl Sandbox {
    /// The layers without which nothing starts. Mode `off` says that there are to be none, and only
    /// a floor that was asked for contradicts it.
    pub fn required(&self) -> &[Layer] {
        match (&self.require, self.mode) {
            (Some(layers), _) => layers,
            (None, Mode::Off) => &[],
            (None, Mode::Auto | Mode::On) => &[Layer::Mounts],
        }
    }

    /// The key that switches a layer off, by itself or with what it is built on.
    pub fn disabled_by(&self, layer: Layer) -> Option<&'static str> {
        let is_listed = |layer: &Layer| self.disable_layers.contains(layer);
        if layer == Layer::Wasm {
            None // It is the kernel.
        } else if self.mode == Mode::Off {
            Some("sandbox.mode")
        } else if is_listed(&layer) || layer.needs().iter().any(is_listed) {
            Some("sandbox.disable_layers")
        } else {
            None
        }
    }
}

/// `[session]`
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Time of one execution, unless the request says otherwise.
    pub exec_timeout: Duration,
    pub max_exec_timeout: Duration,
    /// Time between SIGINT and SIGKILL.
    pub interrupt_grace: Duration,
    pub start_timeout: Duration,
    /// Time without an execution or keepalive after which a session is reaped.
    pub idle_timeout: Duration,
    pub reap_interval: Duration,
    /// Time after which a session is reaped whatever it does.
    pub max_lifetime: Option<Duration>,
    pub max_sessions: Limit,
    /// Executions waiting in one session, the running one not counted.
    pub queue_depth: usize,
    /// Time for which the result of an execution can be asked for afterwards.
    pub results_kept: Duration,
    /// Bytes of each execution's events that are kept for those who follow it.
    pub event_buffer_bytes: usize,
    /// Whether code may call functions of its client's.
    pub tools: bool,
    /// The bounds of such calls.
    pub calls: CallBounds,
    /// The servers of tools that sessions may have.
    pub tool_servers: Vec<String>,
    /// Memory of the host that sessions are not to take, in MiB.
    pub memory_reserve_mb: u64,
    /// The part of the time, in percent, in which processes may wait for memory while sessions
    /// are made; 100 is no bound.
    pub max_memory_pressure_percent: u8,
    /// The part of all CPUs that starting sessions for pools may take.
    pub pool_cpu_share: f64,
    /// The part of the time, in percent, in which processes may wait for memory while sessions
    /// are started for pools.
    pub pool_memory_pressure_percent: u8,
}

/// Whether this can be the name of a distribution, in any of its forms.
pub fn is_distribution_name(name: &str) -> bool {
    vivarium_packages::name::normalized(name).is_some()
}

/// `[environments.<name>]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// What its kernels are.
    pub runtime: Runtime,
    /// The interpreter, or the engine's program; the first `python3` on PATH that sessions can read if not given.
    pub interpreter: Option<PathBuf>,
    /// Further host directories bound read-only at the same path.
    pub read_paths: Vec<PathBuf>,
    /// Names of variables of the daemon's environment that kernels get too.
    pub extra_env: Vec<String>,
    pub template: bool,
    /// Whether its sessions can be suspended.
    pub images: bool,
    /// Whether its code may not call functions of its client's.
    pub refuses_tools: bool,
    /// What its code is held to, with what `[sandbox]` says.
    pub code_policy: CodePolicySpec,
    /// Distributions that its sessions do not have.
    pub hidden: Vec<String>,
    pub preimport: Vec<String>,
    /// Code that the template runs after that.
    pub warmup: String,
    /// Sessions that are kept ready, for each tenant.
    pub pool_size: usize,
    /// How many have to be left of them; half of them if not given.
    pub pool_low: Option<usize>,
}
