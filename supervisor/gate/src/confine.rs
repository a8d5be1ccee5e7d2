//! What confines the gate itself: it can open three files, directories of wheels, its cache of packages,
//! and sockets of the internet; it can start nothing, reach no other process, and be read by none.
//!
//! All is applied to the only thread, and read back, before anything is read from anybody.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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

/// A name that is made where nothing can be made.
const PROBE: &str = ".vivarium-gate-probe";

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

/// The files that the gate may use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Files<'a> {
    /// To read.
    pub(crate) read: &'a [&'a PathBuf],
    /// Directories, to list and to read what is below.
    pub(crate) list: &'a [PathBuf],
    /// A directory to have for its own.
    pub(crate) write: Option<&'a Path>,
}

/// Confines the calling thread. Returns a line for each layer, and how many descriptors there can be.
///
/// # Errors
/// Any [`ConfineError`]; the process must not go on.
pub(crate) fn apply(files: &Files<'_>, strict: bool) -> Result<(Vec<String>, usize), ConfineError> {
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

    match restrict(files)?.ruleset {
        RulesetStatus::NotEnforced if strict => return Err(ConfineError::NoLandlock),
        RulesetStatus::NotEnforced => report.push("landlock: unavailable".to_owned()),
        status => {
            if !is_refused(File::open("/"), Errno::EACCES) || !files.are_only_listed() {
                return Err(ConfineError::NotInForce("Landlock"));
            }
            let whole = status == RulesetStatus::FullyEnforced;
            let how = if whole { "all rights" } else { "the rights that the kernel knows" };
            report.push(format!("landlock: {how}; {files}"));
        }
    }

    let calls = seccomp::install(files)?;
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

impl Files<'_> {
    /// Whether nothing can be made in the directories that are to be listed.
    fn are_only_listed(&self) -> bool {
        self.list.iter().all(|directory| {
            let made = OpenOptions::new().write(true).create_new(true).open(directory.join(PROBE));
            // One that is not there can not be written either.
            made.is_err()
        })
    }
}

impl fmt::Display for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reads {} files", self.read.len())?;
        for directory in self.list {
            write!(f, ", wheels in {}", directory.display())?;
        }
        self.write.map_or(Ok(()), |cache| write!(f, ", and keeps packages in {}", cache.display()))
    }
}

fn restrict(files: &Files<'_>) -> Result<RestrictionStatus, ConfineError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        // Listening. Connecting is by address, of which Landlock knows nothing.
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let listed = AccessFs::ReadFile | AccessFs::ReadDir;
    let own =
        listed | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::RemoveFile;
    let read = files.read.iter().map(|path| (path.as_path(), AccessFs::ReadFile.into()));
    let listed = files.list.iter().map(|path| (path.as_path(), listed));
    for (path, access) in read.chain(listed).chain(files.write.map(|path| (path, own))) {
        // What is not there can not be read either.
        if let Ok(file) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(file, access))?;
        }
    }
    Ok(ruleset.restrict_self()?)
}

/// Whether a call was refused with exactly this error.
fn is_refused<T>(result: Result<T, impl Into<io::Error>>, expected: Errno) -> bool {
    result.is_err_and(|error| error.into().raw_os_error() == Some(expected as i32))
}
