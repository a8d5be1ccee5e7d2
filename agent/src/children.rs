//! Children that end: a descriptor to poll, and reaping them all at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use crate::sys::{self, Ended, Wait};

/// A signalfd(2) for SIGCHLD, which is blocked from then on, also in forked processes.
#[derive(Debug)]
pub(crate) struct Children(SignalFd);

impl Children {
    /// Watches the children of this process, which has one thread.
    pub(crate) fn watch() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&mask, flags)?))
    }

    /// Reaps those that have ended. The signal is taken first: a child that ends meanwhile sends another.
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

pub(crate) fn end(status: ExitStatus) -> KernelEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => KernelEnd::Exited(code),
        (None, Some(signal)) => KernelEnd::Signaled { signal, by_agent: false },
        (None, None) => KernelEnd::NotStarted(format!("it ended by {status}")),
    }
}

impl Ended {
    pub(crate) fn end(&self) -> KernelEnd {
        end(self.status)
    }

    /// What it used in all its life, children that it waited for included.
    pub(crate) const fn usage(&self) -> Usage {
        Usage { cpu_us: self.cpu_us, memory_peak_bytes: self.memory_peak_bytes }
    }
}
