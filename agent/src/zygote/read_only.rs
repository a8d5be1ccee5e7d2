//! The interpreter of a template, from a mount that nobody can write to.
//!
//! A kernel that was forked has its template's `/proc/self/exe`, and by that link a way to the
//! interpreter's file past the session's own root: where the file is the daemon's user's and so is
//! the kernel's id, it could be given a set-user-id bit, or other content's times and owner. So the
//! template executes it from a copy of the host's mounts that is read-only, nosuid and nodev.
//!
//! The copy is a mount namespace that no process stays in, of a user namespace of its own, which
//! gives the right to make it: mount_namespaces(7), mount_setattr(2). The template itself stays in
//! the user namespace from which sessions can be entered. All paths are the same in it, so that
//! `$ORIGIN` of ld.so(8), which is found by `/proc/self/exe`, is what it would be without.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sched::CloneFlags;
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::Failure;
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::sandbox;
use crate::sys::{self, Forked, SingleThreaded, Wait};

const ATTRIBUTES: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

#[derive(Debug)]
pub(super) struct ReadOnlyProgram {
    /// To be executed by execveat(2).
    pub(super) file: OwnedFd,
    /// The mount namespace. Without it the file's path would end at its own mount.
    pub(super) mounts: OwnedFd,
}

/// Opens the program at `path`, which is absolute and no link.
pub(super) fn open(thread: SingleThreaded, path: &Path) -> Result<ReadOnlyProgram, Failure> {
    let (ours, theirs) = UnixStream::pair().or_failure("socketpair")?;
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS;
    let forked = sys::clone3(thread, flags, None).map_err(sandbox::clone_diagnosis)?;
    let Forked::Parent { child: maker } = forked else {
        drop(ours);
        let made: Result<(), Failure> = make(path).and_then(|program| {
            let fds = [program.file, program.mounts];
            stream::send_with(&theirs, &Ok::<(), Failure>(()), &fds, MAX_SMALL_FRAME_BYTES)
                .or_failure("hand over the interpreter")
        });
        if let Err(failed) = made {
            let said = Err::<(), Failure>(failed);
            stream::send_if_open(&theirs, &said, MAX_SMALL_FRAME_BYTES);
        }
        sys::exit_now(0);
    };
    drop(theirs);
    let received = stream::receive_with::<Result<(), Failure>>(&ours, MAX_SMALL_FRAME_BYTES);
    sys::wait(Wait::For(maker)).or_failure("wait for the mounts' maker")?;
    let (made, fds) = received.or_failure("receive the interpreter")?;
    made?;
    let [file, mounts] = <[OwnedFd; 2]>::try_from(fds)
        .map_err(|fds| failure("receive the interpreter and its mounts", fds.len()))?;
    Ok(ReadOnlyProgram { file, mounts })
}

/// In the new namespaces: makes every mount read-only, and opens the program.
fn make(path: &Path) -> Result<ReadOnlyProgram, Failure> {
    let open = |path: &Path, flags| {
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        opened.map_err(|error| failure(&format!("open {}", path.display()), error))
    };
    let root = open(Path::new("/"), libc::O_PATH | libc::O_DIRECTORY)?;
    sys::add_mount_attributes(root.as_fd(), ATTRIBUTES, true)
        .or_failure("make a copy of all mounts read-only")?;
    let file = open(path, libc::O_PATH | libc::O_NOFOLLOW)?;
    let mounts = File::open("/proc/self/ns/mnt").or_failure("open /proc/self/ns/mnt")?;
    Ok(ReadOnlyProgram { file: file.into(), mounts: mounts.into() })
}
