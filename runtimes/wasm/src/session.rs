//! A template: it forks kernels, and each of them gets a session here. The agent's library does what is to be done to be
//! in that session, and confined, as it does for an interpreter; what is left is the engine's own.
//!
//! Nothing of a session is in a template's memory, so nothing of one is in another: settings, directories and random
//! numbers are made after the fork.

use std::path::{Path, PathBuf};
use std::{fs, io};

use vivarium_agent::ffi::program;
use wasmtime::{Error, Result, bail};

use crate::guest::Terms;
use crate::signals::kept::Kept;
use crate::{confine, ffi};

/// Checks that the agent and this program speak one version of the protocol.
///
/// # Errors
/// If they do not.
pub fn check(version: &str) -> Result<()> {
    program::check_protocol(version.parse()?).map_err(Error::msg)
}

/// What is open but for what the agent gives a template: standard streams, its socket, the component, and the namespace
/// of the mount that it was executed from. A kernel has none of these files, and what kept a number would use another
/// file by it; the engine, which keeps the component's, reads it only for a new instance.
fn left_open(descriptors: &Path) -> io::Result<Vec<PathBuf>> {
    let all: Result<Vec<_>, _> =
        fs::read_dir(descriptors)?.map(|one| one.map(|one| one.path())).collect();
    let others = all?.into_iter().filter(|path| {
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        number.is_some_and(|number| number > 4)
    });
    // The descriptor that listed the directory is closed.
    let mut open: Vec<_> = others.filter_map(|path| fs::read_link(path).ok()).collect();
    let component = fs::read_link(descriptors.join("4"))?;
    open.retain(|one| *one != component && !one.to_string_lossy().starts_with("mnt:"));
    Ok(open)
}

/// Waits for sessions. Returns in each fork, with its terms; a template ends here.
///
/// # Errors
/// If it cannot begin to serve, or the fork not get on.
pub(crate) fn fork_kernels() -> Result<Terms> {
    let left = left_open(Path::new("/proc/self/fd"))?;
    if !left.is_empty() {
        bail!("a kernel that is forked cannot have what is open here: {left:?}");
    }
    // What the engine and Rust's runtime have set, and confining takes away.
    let kept = Kept::of_this_process()?;
    let arguments = ffi::fork_kernels()?;
    kept.restore()?;
    // As one that is executed does when it starts.
    confine()?;
    // Without it all kernels of a template would draw the same numbers: a fork copies the generator.
    rand::rng().reseed()?;
    let arguments: Result<Vec<_>, _> = arguments.into_iter().map(String::from_utf8).collect();
    let arguments = arguments?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [_, "kernel", rest @ ..] => Terms::of_arguments(rest),
        _ => bail!("the agent's library knows another program: install both of one release"),
    }
}

/// Tells the supervisor why there is no template, unless it serves.
pub fn refuse(reason: String) {
    ffi::refuse(reason);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_that_is_open_beside_those_that_were_given_is_left() {
        let dir = std::env::temp_dir().join(format!("left-open-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let open = |number: &str, on: &str| symlink(on, dir.join(number)).unwrap();
        open("3", "socket:[1]");
        open("4", "/memfd:component (deleted)");
        open("5", "mnt:[1]");
        open("7", "/memfd:component (deleted)");
        assert_eq!(left_open(&dir).unwrap(), Vec::<PathBuf>::new());
        open("6", "/dev/urandom");
        assert_eq!(left_open(&dir).unwrap(), [PathBuf::from("/dev/urandom")]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_process_with_a_second_thread_is_no_template() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || receiver.recv());
        let refused = ffi::fork_kernels().unwrap_err().to_string();
        assert!(refused.starts_with("there are "), "{refused}");
        drop(sender);
        assert!(other.join().unwrap().is_err());
    }
}
