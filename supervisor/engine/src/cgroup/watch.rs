//! A file of cgroupfs that is waited for.
//!
//! The kernel wakes whoever polls a file that it has modified, `EPOLLPRI` saying that there is
//! something new since this descriptor was last read (`kernfs_generic_poll` in fs/kernfs/file.c;
//! `Documentation/admin-guide/cgroup-v2.rst` says of each file whether it "generates a file
//! modified event"; no more than one in 10 ms). inotify(7) tells the same later, from a work
//! queue; its watches are limited per user, and outlive the cgroup they were for, since nothing
//! is said of a cgroup file's removal. A descriptor ends with its owner.
//!
//! It must never make anybody wait by the clock.

use std::fs::File;
use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::files;

/// An open file whose changes the kernel tells.
#[derive(Debug)]
pub(super) struct Watched(AsyncFd<File>);

impl Watched {
    /// Changes from now on will be told. Gives the file back if they can not be.
    pub(super) fn new(file: File) -> Result<Self, (File, io::Error)> {
        // A file that was never read counts as changed.
        files::read_again(&file);
        #[expect(
            deprecated,
            reason = "the replacement is unsafe for the sake of types whose as_raw_fd lies; File's does not"
        )]
        let watched = AsyncFd::try_with_interest(file, Interest::PRIORITY);
        watched.map(Self).map_err(tokio::io::unix::AsyncFdRegisterError::into_parts)
    }

    pub(super) fn file(&self) -> &File {
        self.0.get_ref()
    }

    /// Waits until it has changed since this was last asked. May be dropped and asked again
    /// without missing a change; the file has to be read afterwards.
    pub(super) async fn changed(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}
