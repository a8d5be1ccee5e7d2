//! The work that needs the user id a program was started with, and giving up that id.
//!
//! Started as root, the daemon makes its directories, its cgroup and its listeners, and then
//! becomes an ordinary user for good. Started as an ordinary user it makes what it can. This must
//! run before there is a second thread: `setresuid(2)` of libc reaches all threads by a signal, which
//! a thread that is just being created can miss.
//!
//! Sessions never run as root: [`prepare`] fails if the id can not be given up.

#![forbid(unsafe_code)]

mod account;
mod agent;
mod cgroup;
mod dirs;
mod relinquish;

use std::path::PathBuf;

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub use account::Account;
pub use dirs::ensure as ensure_dir;
use vivarium_engine::settings::{Mode, Settings};
use vivarium_protocol::layer::Layer;

#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    #[error("server.user: there is no user {0:?}")]
    NoUser(String),
    #[error("server.user: cannot look up {user:?}")]
    Lookup { user: String, source: nix::Error },
    #[error("server.user: {0:?} is root, and sessions are never run as root: name another user")]
    Root(String),
    #[error(
        "cannot become the user {user:?} ({operation}): {why}; start vivarium as an ordinary user, \
         or name a user in server.user that exists in this user namespace"
    )]
    Drop { user: String, operation: &'static str, why: String },
    #[error("prctl(PR_SET_DUMPABLE, 0)")]
    Dumpable(#[source] nix::Error),
    /// A directory can not be created, or belongs to another user.
    #[error("{key}: {path}: {why}", path = path.display())]
    Directory { key: &'static str, path: PathBuf, why: String },
    #[error(
        "cannot open the agent {path}, which belongs beside this program (in a checkout: cargo \
         build --workspace)",
        path = path.display()
    )]
    Agent { path: PathBuf, source: std::io::Error },
}

/// Raises the soft limit of descriptors to the hard one, which launchers and agents inherit.
///
/// The daemon needs a few for each session. An agent needs the limit itself: where sessions
/// share one id, the kernel counts the descriptors that are under way in Unix sockets per user
/// and holds the sum against the sender's limit (`too_many_unix_fds` in net/core/scm.c), so that
/// tenants, whose limit is low, could use up an agent's if it were as low.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::debug!(%error, "the soft limit of descriptors stays");
    }
}

/// Makes what `settings` need, completes them (the agent, the delegated cgroup), and gives up root.
///
/// # Errors
/// Any [`PrivilegeError`]; the caller must not continue.
pub fn prepare(settings: &mut Settings) -> Result<(), PrivilegeError> {
    prepare_with(settings, |_, _| Ok(())).map(drop)
}

/// The same, with what else needs the rights of the user who started us. Root is given up for the
/// account that is returned.
///
/// # Errors
/// Any [`PrivilegeError`], and those of `before`; the caller must not continue.
pub fn prepare_with<T, E: From<PrivilegeError>>(
    settings: &mut Settings,
    before: impl FnOnce(&mut Settings, Option<&Account>) -> Result<T, E>,
) -> Result<(T, Option<Account>), E> {
    let account = if nix::unistd::Uid::effective().is_root() {
        Some(Account::find(&settings.server.user)?)
    } else {
        None
    };
    // Other processes of this id, sessions' where they have none of their own, may neither trace us
    // nor read our memory (PR_SET_DUMPABLE(2const)).
    set_dumpable(false).map_err(PrivilegeError::Dumpable)?;
    raise_descriptor_limit();
    settings.agent_binary = agent::open()?;
    let runtime_dir = &settings.server.runtime_dir;
    dirs::ensure("server.runtime_dir", runtime_dir, 0o711, account.as_ref())?;
    let made = before(settings, account.as_ref())?;
    if let Some(account) = &account {
        let sandbox = &mut settings.sandbox;
        let wants_cgroup =
            sandbox.mode != Mode::Off && !sandbox.disable_layers.contains(&Layer::Cgroup);
        if wants_cgroup && sandbox.cgroup_root.is_none() {
            sandbox.cgroup_root = cgroup::delegate(account);
        }
        relinquish::root(account)?;
    }
    Ok((made, account))
}
