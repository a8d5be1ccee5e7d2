//! What confines the gate itself: it can open three files, and sockets of the internet; it can start
//! nothing, reach no other process, and be read by none.
//!
//! All is applied to the only thread, and read back, before anything is read from anybody.

use std::fs::File;
use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

mod seccomp;
#[cfg(test)]
mod tests;

/// The newest ABI whose rights we know and have thought about.
const NEWEST: ABI = ABI::V6;

/// Which layer could not be applied, or is not in force after it was.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A system call failed.
    #[error("{what}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        #[source]
        source: io::Error,
    },
    /// It was applied, and does not hold.
    #[error("{0} was applied, and is not in force")]
    NotInForce(&'static str),
    /// The capabilities could not be dropped.
    #[error("drop the capabilities")]
    Capabilities(#[from] caps::errors::CapsError),
    /// Landlock refused the rules.
    #[error("restrict the gate by Landlock")]
    Landlock(#[from] RulesetError),
    /// The host has no Landlock.
    #[error("the host's kernel has no Landlock, or it is not among the active security modules")]
    NoLandlock,
    /// The filter could not be built or installed.
    #[error("filter the gate's system calls")]
    Seccomp(#[from] seccompiler::Error),
    /// The filter could not be built.
    #[error("build the filter of the gate's system calls")]
    Filter(#[from] seccompiler::BackendError),
}

fn call(what: &'static str) -> impl FnOnce(Errno) -> ConfineError {
    move |errno| ConfineError::Call { what, source: errno.into() }
}

/// Confines the calling thread. Returns a line for each layer, and how many descriptors there can be.
///
/// # Errors
/// Any [`ConfineError`]; the process must not go on.
pub(crate) fn apply(
    readable: &[impl AsRef<Path>],
    strict: bool,
) -> Result<(Vec<String>, usize), ConfineError> {
    let mut report = Vec::new();
    let descriptors = limits()?;
    report.push(format!("limits: {descriptors} descriptors, no process, no core dump"));

    prctl::set_dumpable(false).map_err(call("prctl(PR_SET_DUMPABLE)"))?;
    if prctl::get_dumpable().map_err(call("prctl(PR_GET_DUMPABLE)"))? {
        return Err(ConfineError::NotInForce("PR_SET_DUMPABLE"));
    }
    drop_capabilities()?;
    prctl::set_no_new_privs().map_err(call("prctl(PR_SET_NO_NEW_PRIVS)"))?;
    report.push("privileges: none, and none to be had; not dumpable".to_owned());

    match restrict(readable)?.ruleset {
        RulesetStatus::NotEnforced if strict => return Err(ConfineError::NoLandlock),
        RulesetStatus::NotEnforced => report.push("landlock: unavailable".to_owned()),
        status => {
            if !is_refused(File::open("/"), Errno::EACCES) {
                return Err(ConfineError::NotInForce("Landlock"));
            }
            let whole = status == RulesetStatus::FullyEnforced;
            let how = if whole { "all rights" } else { "the rights that the kernel knows" };
            report.push(format!("landlock: {how}; reads {} files", readable.len()));
        }
    }

    let calls = seccomp::install()?;
    seccomp::read_back()?;
    report.push(format!("seccomp: a filter that allows {calls} calls"));
    Ok((report, descriptors))
}

/// As many descriptors as the hard limit gives, and nothing that would leave memory on disk.
fn limits() -> Result<usize, ConfineError> {
    let of_limits = "setrlimit";
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(call(of_limits))?;
    let most = hard.min(1 << 20);
    setrlimit(Resource::RLIMIT_NOFILE, most, hard).map_err(call(of_limits))?;
    // 1 ends a dump; 0 would still start a program that takes dumps by a pipe.
    setrlimit(Resource::RLIMIT_CORE, 1, 1).map_err(call(of_limits))?;
    setrlimit(Resource::RLIMIT_NPROC, 0, 0).map_err(call(of_limits))?;
    Ok(usize::try_from(most).unwrap_or(1024))
}

fn drop_capabilities() -> Result<(), ConfineError> {
    use caps::CapSet::{Ambient, Bounding, Effective, Inheritable, Permitted};
    // Only who has the capability to can empty the bounding set; for others, no_new_privs keeps it out of reach.
    if caps::has_cap(None, Effective, caps::Capability::CAP_SETPCAP)? {
        caps::clear(None, Bounding)?;
    }
    for set in [Ambient, Inheritable, Effective, Permitted] {
        caps::clear(None, set)?;
    }
    for set in [Inheritable, Effective, Permitted] {
        if !caps::read(None, set)?.is_empty() {
            return Err(ConfineError::NotInForce("dropping the capabilities"));
        }
    }
    Ok(())
}

fn restrict(readable: &[impl AsRef<Path>]) -> Result<RestrictionStatus, ConfineError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        // Listening. Connecting is by address, of which Landlock knows nothing.
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for path in readable {
        // What is not there can not be read either.
        if let Ok(file) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(file, AccessFs::ReadFile))?;
        }
    }
    Ok(ruleset.restrict_self()?)
}

/// Whether a call was refused with exactly this error.
fn is_refused<T>(result: Result<T, impl Into<io::Error>>, expected: Errno) -> bool {
    result.is_err_and(|error| error.into().raw_os_error() == Some(expected as i32))
}
