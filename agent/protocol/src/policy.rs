//! What a session may use. Plain data: how each part is applied is one file per layer in the
//! agent. Validated by the supervisor when built and again at the agent's door.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use strum::{IntoStaticStr, VariantNames};

use crate::layer::Plan;
use crate::passt::Passt;
use crate::places;
use crate::runtime::{Runtime, WasmEngine};
use crate::units::Limit;

/// The limits of one session. Units are in the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of the whole session, swap included (there is none), in MiB.
    pub max_memory_mb: Limit,
    /// CPU time of one execution, all its processes together, in seconds.
    pub max_cpu_secs: Limit,
    /// Processes and threads of the tenant's code.
    pub max_procs: Limit,
    /// Open file descriptors per process.
    pub max_open_fds: Limit,
    /// Largest file, in MiB.
    pub max_file_size_mb: Limit,
    /// Workdir, /tmp and /dev/shm together, in MiB.
    pub max_disk_mb: Limit,
    /// Files, directories and links in workdir, /tmp and /dev/shm together.
    pub max_inodes: Limit,
    /// CPU cores; 0.5 is half of one.
    pub cpu_cores: CpuCores,
    /// Bytes kept of each of stdout and stderr, per execution.
    pub max_output_bytes: Limit,
    /// Bytes of results, displays and files, per execution.
    pub max_result_bytes: Limit,
}

/// A share of the host's cores, in thousandths, so that it is exact and comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuCores {
    /// Thousandths of a core; `None` is unlimited.
    pub milli: Option<u32>,
}

impl CpuCores {
    /// One core.
    pub const ONE: Self = Self { milli: Some(1000) };
    /// As many as the host has.
    pub const UNLIMITED: Self = Self { milli: None };

    /// Whole cores, rounded up, or `fallback` when unlimited: how many threads are worth
    /// starting.
    #[must_use]
    pub fn threads(self, fallback: u32) -> u32 {
        self.milli.map_or(fallback, |milli| milli.div_ceil(1000)).max(1)
    }
}

/// What the session can reach.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Network {
    /// No sockets but `AF_UNIX` inside the session.
    None,
    /// A network namespace of its own with `lo` up.
    Loopback,
    /// The same, and the egress gate listens at [`crate::egress::PORT`] of `lo`: the only way out.
    Trusted,
    /// The internet: through [`Policy::passt`] where there is that, else the host's network, unrestricted.
    Full,
}

impl Network {
    /// Whether the session has a loopback interface of its own, which is up, however the host is.
    #[must_use]
    pub const fn has_own_loopback(self) -> bool {
        matches!(self, Self::Loopback | Self::Trusted)
    }
}

/// The Python a kernel runs, as found out by `vivarium-agent inspect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// Absolute path of the executable to run, as the operator named it.
    pub path: PathBuf,
    /// Directories outside the system paths it needs to read (its prefix, and a virtual
    /// environment's base prefix).
    pub prefixes: Vec<PathBuf>,
    /// Of the system's paths and the prefixes: those that hold sockets or FIFOs of the host, or
    /// could not be searched whole. Sessions see them through overlayfs, as they do `read_paths`.
    pub isolate: Vec<PathBuf>,
    /// The kernel program, compiled by this very interpreter (`marshal`). Empty in a session's
    /// policy: there it comes in a file, which all sessions share.
    pub program: Arc<ByteBuf>,
    /// `sys.version_info`, such as `3.11.2`.
    pub version: String,
    /// The engine, where the kernel is CPython in WebAssembly: `path` is then the engine's program, and
    /// `program` its compiled component, of which there is only the file.
    pub wasm: Option<WasmEngine>,
}

impl Interpreter {
    /// What kind of program the kernel is.
    #[must_use]
    pub const fn runtime(&self) -> Runtime {
        if self.wasm.is_some() { Runtime::Wasm } else { Runtime::Cpython }
    }
}

/// Host ids from `/etc/subuid` and `/etc/subgid` given to one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubordinateIds {
    /// Host user and group id of the agent.
    pub agent: u32,
    /// Host user and group id of the kernel.
    pub kernel: u32,
}

/// The cgroups that the session's processes start in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlacement {
    /// Absolute path of the agent's leaf on the host.
    pub agent: PathBuf,
    /// Absolute path on the host of the cgroup whose leaves kernels and commands start in:
    /// [`crate::leaf::Leaf`].
    pub kernel: PathBuf,
    /// What of the limits the supervisor could not write or read back; empty when all held.
    pub missing: String,
    /// What an operator can do about it.
    pub fix: String,
    /// Whether memory.max of this placement limits memory, so that RLIMIT_AS need not.
    pub limits_memory: bool,
    /// Whether pids.max of this placement limits processes, and counts what it refuses.
    pub limits_pids: bool,
}

/// A home, volume or built environment: a directory of the host, ours, that outlives the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreMount {
    /// Its path on the host.
    pub source: PathBuf,
    /// Where it appears inside: [`places::HOME`], [`places::ENVIRONMENT`], or beneath
    /// [`places::VOLUMES`].
    pub target: PathBuf,
    /// Whether it can only be read.
    pub read_only: bool,
}

/// Everything the agent needs to know to make one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Which layers to apply.
    pub plan: Plan,
    /// How much of everything.
    pub limits: Limits,
    /// What can be reached.
    pub network: Network,
    /// How, if the network is `full` and not the host's own.
    pub passt: Option<Passt>,
    /// What runs.
    pub interpreter: Interpreter,
    /// A certificate authority (PEM) that the session's programs trust beside the system's: it ends TLS
    /// at the egress gate for the hosts of the tenant's secrets. Network `trusted` and the mounts layer
    /// only.
    pub ca_certificate: Option<String>,
    /// Variables for the kernel, already filtered by the supervisor; see the `env_scrub` layer.
    pub env: Vec<(String, String)>,
    /// Further host directories bound read-only at the same path.
    pub read_paths: Vec<PathBuf>,
    /// Where the workdir appears inside. Without the mounts layer it is a directory of the
    /// host instead, see [`Policy::host_workdir`].
    pub workdir: PathBuf,
    /// A host directory, empty and ours, that serves as the workdir where there is no mounts
    /// layer to make one. Removed with the session.
    pub host_workdir: Option<PathBuf>,
    /// The scope's leaves, where there is a cgroup layer.
    pub cgroup: Option<CgroupPlacement>,
    /// Subordinate ids, where the host grants them.
    pub ids: Option<SubordinateIds>,
    /// Its home, volumes and built environment. They need the mounts layer.
    pub stores: Vec<StoreMount>,
    /// Files and directories of distributions that are hidden: whiteouts are in their places. They
    /// need the mounts layer.
    pub hidden_paths: Vec<PathBuf>,
}

/// Why a [`Policy`] is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A path that is relative, or climbs.
    #[error("{field}: {path:?} is not an absolute path without \"..\"")]
    Path {
        /// Which field.
        field: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A path that would open far more than it names.
    #[error("{field}: {path:?} is too wide to bind into a sandbox")]
    TooWide {
        /// Which field.
        field: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A variable name or value the system can not carry.
    #[error("env: {0:?} is not a variable the system can carry (empty name, '=' or NUL)")]
    Env(String),
    /// A home or volume that would appear elsewhere than where they do, or in another.
    #[error("stores: {0:?} is not the home, nor a place of its own beneath /mnt")]
    Store(PathBuf),
    /// Ids that are the host's own.
    #[error("ids: host id 0 and equal ids are never mapped into a session")]
    Ids,
    /// A layer is planned without what it needs.
    #[error("{0}")]
    Missing(&'static str),
}

/// Directories that must never be bound whole: each holds what sessions must not see, and more than any
/// Python installation.
const TOO_WIDE: [&str; 13] = [
    "/", "/home", "/root", "/proc", "/sys", "/dev", "/run", "/var", "/var/lib", "/var/run", "/tmp",
    "/boot", "/etc",
];

impl Policy {
    /// Whether the session's network is the host's own.
    #[must_use]
    pub fn shares_host_network(&self) -> bool {
        self.network == Network::Full && self.passt.is_none()
    }

    /// Whether the session has a loopback interface of its own, which is up.
    #[must_use]
    pub fn has_own_loopback(&self) -> bool {
        self.network.has_own_loopback() || self.passt.is_some()
    }

    /// Where the code's files are: the path its working directory has for the code itself.
    #[must_use]
    pub fn inner_workdir(&self) -> &Path {
        self.host_workdir.as_deref().unwrap_or(&self.workdir)
    }

    /// The session's home, if it has one.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        let home = Path::new(places::HOME);
        self.stores.iter().any(|store| store.target == home).then_some(home)
    }

    /// Whether a session of this policy is, to whatever is in it, where one of the other is: they differ
    /// in nothing but their variables and cgroups.
    #[must_use]
    pub fn has_surroundings_of(&self, other: &Self) -> bool {
        let own = |policy: &Self| Self { env: Vec::new(), cgroup: None, ..policy.clone() };
        own(self) == own(other)
    }

    /// Checks what the types can not.
    ///
    /// # Errors
    /// The first [`PolicyError`] found.
    pub fn validate(&self) -> Result<(), PolicyError> {
        use crate::layer::Layer;
        self.validate_surroundings()?;
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(PolicyError::Env(name.clone()));
            }
        }
        if self.plan.applies(Layer::Cgroup) && self.cgroup.is_none() {
            return Err(PolicyError::Missing("the cgroup layer is planned without a scope"));
        }
        Ok(())
    }

    /// Checks all but its variables and cgroups.
    ///
    /// # Errors
    /// The first [`PolicyError`] found.
    pub fn validate_surroundings(&self) -> Result<(), PolicyError> {
        use crate::layer::Layer;
        check_path("interpreter.path", &self.interpreter.path)?;
        check_path("workdir", &self.workdir)?;
        check_wide("workdir", &self.workdir)?;
        for path in &self.interpreter.prefixes {
            check_path("interpreter.prefixes", path)?;
            check_wide("interpreter.prefixes", path)?;
        }
        for path in &self.read_paths {
            check_path("read_paths", path)?;
            check_wide("read_paths", path)?;
        }
        if let Some(ids) = self.ids
            && (ids.agent == 0 || ids.kernel == 0 || ids.agent == ids.kernel)
        {
            return Err(PolicyError::Ids);
        }
        for path in &self.hidden_paths {
            check_path("hidden_paths", path)?;
        }
        if !self.hidden_paths.is_empty() && !self.plan.applies(Layer::Mounts) {
            return Err(PolicyError::Missing("hidden distributions need the mounts layer"));
        }
        self.check_stores()?;
        self.check_passt()?;
        if !self.plan.applies(Layer::Mounts) && self.host_workdir.is_none() {
            return Err(PolicyError::Missing("without the mounts layer a host_workdir is needed"));
        }
        if self.ca_certificate.is_some()
            && (self.network != Network::Trusted || !self.plan.applies(Layer::Mounts))
        {
            return Err(PolicyError::Missing(
                "ca_certificate needs network trusted and the mounts layer",
            ));
        }
        Ok(())
    }

    fn check_passt(&self) -> Result<(), PolicyError> {
        use crate::layer::Layer;
        let Some(passt) = &self.passt else { return Ok(()) };
        check_path("passt.program", &passt.program)?;
        let applies = |layer| self.plan.applies(layer);
        if self.network != Network::Full || !applies(Layer::Namespaces) || !applies(Layer::Network)
        {
            return Err(PolicyError::Missing(
                "passt needs network full, and the namespaces and network layers",
            ));
        }
        passt.problem().map_or(Ok(()), |problem| Err(PolicyError::Missing(problem)))
    }

    fn check_stores(&self) -> Result<(), PolicyError> {
        use crate::layer::Layer;
        if !self.stores.is_empty() && !self.plan.applies(Layer::Mounts) {
            return Err(PolicyError::Missing("homes and volumes need the mounts layer"));
        }
        let nested = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
        for (index, StoreMount { source, target, .. }) in self.stores.iter().enumerate() {
            check_path("stores.source", source)?;
            check_path("stores.target", target)?;
            let volumes = Path::new(places::VOLUMES);
            let is_volume = target.starts_with(volumes) && target != volumes;
            let mut others = self.stores.iter().skip(index + 1);
            let is_own =
                [places::HOME, places::ENVIRONMENT].iter().any(|own| target == Path::new(own));
            if !(is_volume || is_own)
                || nested(target, &self.workdir)
                || others.any(|other| nested(target, &other.target))
            {
                return Err(PolicyError::Store(target.clone()));
            }
        }
        Ok(())
    }
}

/// Refuses a path that is relative or has `..` in it.
fn check_path(field: &'static str, path: &Path) -> Result<(), PolicyError> {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if path.is_absolute() && !climbs {
        Ok(())
    } else {
        Err(PolicyError::Path { field, path: path.to_owned() })
    }
}

/// Whether a path is a home directory, or holds the host's state.
#[must_use]
pub fn is_too_wide(path: &Path) -> bool {
    path.parent() == Some(Path::new("/home")) || TOO_WIDE.iter().any(|wide| path == Path::new(wide))
}

fn check_wide(field: &'static str, path: &Path) -> Result<(), PolicyError> {
    if is_too_wide(path) {
        Err(PolicyError::TooWide { field, path: path.to_owned() })
    } else {
        Ok(())
    }
}
