//! Children that end: told by a descriptor to poll, and collected all at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use crate::sys::{self, Ended, Wait};

/// Tells of children that end: signalfd(2). SIGCHLD is blocked from then on, also in what is forked.
#[derive(Debug)]
pub(crate) struct Children(SignalFd);

impl Children {
    /// Of this process, which has one thread.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn watch() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&mask, flags)?))
    }

    /// Collects those that have ended. The signal is taken first: who ends meanwhile sends another.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        while let Ok(Some(_)) = self.0.read_signal() {}
        std::iter::from_fn(|| sys::wait(Wait::IfAny).ok().flatten()).collect()
    }
}

impl AsFd for Children {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a process ended, as wait(2) has it.
pub(crate) fn end(status: ExitStatus) -> KernelEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => KernelEnd::Exited(code),
        (None, Some(signal)) => KernelEnd::Signaled { signal, by_agent: false },
        (None, None) => KernelEnd::NotStarted(format!("it ended by {status}")),
    }
}

impl Ended {
    /// How it ended.
    pub(crate) fn end(&self) -> KernelEnd {
        end(self.status)
    }

    /// What it used in all its life, with the children it waited for.
    pub(crate) const fn usage(&self) -> Usage {
        Usage { cpu_us: self.cpu_us, memory_peak_bytes: self.memory_peak_bytes }
    }
}
