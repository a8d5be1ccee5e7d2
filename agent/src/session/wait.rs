//! What the session waits for.

use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::message::Failure;

use super::Session;
use crate::kernel::Stage;
use crate::launch::failure;

/// What happened first. In this order where several did: what the supervisor wants comes
/// before all, and output before the word that it is over is settled by draining.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The supervisor wrote, or is gone.
    Supervisor,
    /// The launcher wrote, or is gone.
    Launcher,
    /// A new kernel tells of its layers.
    Report,
    /// The kernel's channel can be read or written.
    Kernel {
        /// It can be read.
        readable: bool,
        /// It can be written.
        writable: bool,
    },
    /// There is output.
    Output,
    /// A process has ended.
    Children,
    /// The nearest deadline has passed.
    Deadline,
}

impl Session<'_> {
    /// Waits for the next event.
    ///
    /// # Errors
    /// If poll(2) fails.
    pub(super) fn wait(&self) -> Result<Event, Failure> {
        let readable = PollFlags::POLLIN;
        let mut fds = vec![
            (PollFd::new(self.control.as_fd(), readable), Event::Supervisor),
            (PollFd::new(self.launcher.as_fd(), readable), Event::Launcher),
            (PollFd::new(self.children.as_fd(), readable), Event::Children),
        ];
        if let Stage::Confining(report, _) = &self.kernel.stage {
            fds.push((PollFd::new(report.as_fd(), readable), Event::Report));
        }
        if let Some((channel, wants_write)) = self.kernel.control() {
            let flags = if wants_write { readable | PollFlags::POLLOUT } else { readable };
            let event = Event::Kernel { readable: false, writable: false };
            fds.push((PollFd::new(channel, flags), event));
        }
        for output in self.kernel.outputs.iter().filter_map(|output| output.fd()) {
            fds.push((PollFd::new(output, readable), Event::Output));
        }
        let (mut polled, events): (Vec<_>, Vec<_>) = fds.into_iter().unzip();
        loop {
            match poll(&mut polled, timeout(self.deadline())) {
                Ok(0) => return Ok(Event::Deadline),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(failure("poll", error)),
                Ok(_) => {
                    let mut ready = polled.iter().zip(&events);
                    let first = ready.find(|(fd, _)| fd.any().unwrap_or(true));
                    if let Some((fd, event)) = first {
                        return Ok(with_readiness(*event, fd.revents().unwrap_or(readable)));
                    }
                }
            }
        }
    }

    /// Whether the nearest deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= Instant::now())
    }

    /// When something has to be looked at though nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let cpu = self.kernel.running.as_ref().and_then(|running| running.next_cpu_check);
        [cpu, self.kernel.patience].into_iter().flatten().min()
    }
}

fn with_readiness(event: Event, flags: PollFlags) -> Event {
    match event {
        Event::Kernel { .. } => Event::Kernel {
            readable: flags.intersects(!PollFlags::POLLOUT),
            writable: flags.contains(PollFlags::POLLOUT),
        },
        other => other,
    }
}

/// Milliseconds until `deadline`, rounded up so that it has passed when poll(2) returns.
fn timeout(deadline: Option<Instant>) -> PollTimeout {
    deadline.map_or(PollTimeout::NONE, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        let millis = left.as_millis().saturating_add(1).min(60_000);
        PollTimeout::try_from(i32::try_from(millis).unwrap_or(60_000)).unwrap_or(PollTimeout::NONE)
    })
}
