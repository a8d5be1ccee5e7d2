//! The session's scope in the cgroup v2 tree. The only writer of cgroupfs.
//!
//! Plain files through `std::fs`. The cgroups-rs package is not used: its v2 support wants
//! D-Bus, and it puts a process into a cgroup by writing its pid, after it has started; ours are
//! born in theirs (`CLONE_INTO_CGROUP`), so all this module ever moves is the daemon itself.
//!
//! The tree, below what was delegated to us (`Documentation/admin-guide/cgroup-v2.rst`,
//! "Delegation" and "No Internal Process Constraint"):
//!
//! ```text
//! <root>/supervisor                                  this process
//! <root>/tenants/<tenant>/<session>/agent            PID 1 of the session
//! <root>/tenants/<tenant>/<session>/kernel/<leaf>    tenant code
//! ```
//!
//! It must never write outside its root, follow a name that was not checked, or report a limit
//! that it did not read back.

use std::path::PathBuf;
use std::sync::Arc;

mod detect;
mod events;
mod files;
mod headroom;
mod leaf;
mod limits;
mod meter;
mod oom;
mod root;
mod scope;
mod tenant;
#[cfg(test)]
mod tests;
mod tree;
mod usage;
mod watch;

pub use detect::{Layout, Mounts};
pub use events::{CgroupEventCounts, Events};
pub use files::CgroupError;
pub use headroom::Headroom;
pub use leaf::LeafFiles;
pub use limits::Controller;
pub use meter::{Io, Mark, Meter, Used};
pub use oom::{OomAttribution, OomOrigin};
pub use scope::{LowerError, Scope, ScopeUsage};
pub use tenant::missing as missing_ceilings;
pub use tree::{Tree, sweep};
pub use usage::{Stall, TenantMeter, TenantUsage};

#[derive(Debug)]
pub enum Support {
    Available(Arc<Tree>),
    /// None, and so no cgroup layer.
    Unavailable(Missing),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub why: String,
    pub fix: String,
}

/// Finds, or takes, a subtree for this process, and moves this process into it.
///
/// `prepared` is a directory that somebody with more rights has made for us. Without one it is
/// the process's own cgroup, where that is delegated.
pub fn acquire(prepared: Option<&PathBuf>) -> Support {
    match root::find(prepared.map(PathBuf::as_path)).and_then(Tree::take) {
        Ok(tree) => Support::Available(Arc::new(tree)),
        Err(missing) => Support::Unavailable(missing),
    }
}
