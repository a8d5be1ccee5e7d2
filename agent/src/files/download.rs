//! A file's content on its way to the supervisor, by sendfile(2), which needs no buffer.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::sendfile::sendfile64;
use vivarium_protocol::message::FileReply;

use super::{FileError, Workdir, entry, size_bytes};

/// The most that is sent in one step.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Download {
    file: File,
    socket: OwnedFd,
    offset: i64,
    left: u64,
}

impl Download {
    /// Begins to send `length` bytes of the file at `path`, from `offset` on. Returns the reply that has
    /// to go before them, too.
    pub(crate) fn start(
        workdir: &Workdir,
        path: &str,
        offset: u64,
        length: Option<u64>,
        socket: OwnedFd,
    ) -> Result<(Self, FileReply), FileError> {
        let path = super::checked(path)?;
        let (file, stat) = workdir.open_file(&path)?;
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let rest = size_bytes(&stat).saturating_sub(offset);
        let left = length.map_or(rest, |length| length.min(rest));
        let reply = FileReply::Content { entry: entry(workdir.shown(&path), &stat), length: left };
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        Ok((Self { file, socket, offset, left }, reply))
    }

    /// Sends as much as the socket takes, within one step. Returns whether that was the end: the announced
    /// length, or less if the file has become shorter or the reader is gone.
    pub(crate) fn step(&mut self) -> bool {
        let mut budget = STEP_BYTES;
        while self.left > 0 && budget > 0 {
            let most = usize::try_from(self.left.min(budget)).unwrap_or(usize::MAX);
            match sendfile64(&self.socket, &self.file, Some(&mut self.offset), most) {
                Ok(0) => return true,
                Ok(sent) => {
                    let sent = u64::try_from(sent).unwrap_or(u64::MAX);
                    self.left = self.left.saturating_sub(sent);
                    budget = budget.saturating_sub(sent);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return false,
                Err(_) => return true,
            }
        }
        self.left == 0
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
