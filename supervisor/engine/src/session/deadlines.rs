//! What a session is waiting for, for how long, and what follows when it did not come.
//!
//! One wait at a time: the clock of an execution runs from the agent's `Started`, not from our
//! sending, so that a slow start on a busy host is not taken for slow code.

use std::time::Duration;

use tokio::time::Instant;
use vivarium_protocol::outcome::Cause;

use super::Timing;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Kernel,
    /// The agent to say that it has handed the code over.
    Handover,
    Code,
    GivingWay,
    Dying,
    /// The agent to say that a context is closed.
    ContextsEnd,
}

/// What to do when it did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    Interrupt,
    Kill,
    GiveUp(Cause, &'static str),
}

impl Awaited {
    pub(super) const fn overdue(self) -> Overdue {
        match self {
            Self::Code => Overdue::Interrupt,
            Self::GivingWay => Overdue::Kill,
            Self::Dying => Overdue::GiveUp(Cause::Agent, "the agent did not kill the command"),
            Self::ContextsEnd => Overdue::GiveUp(Cause::Agent, "the agent did not end the context"),
            Self::Kernel => Overdue::GiveUp(Cause::KernelStart, "no kernel became ready in time"),
            Self::Handover => Overdue::GiveUp(Cause::Agent, "the agent did not take the code"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deadline {
    at: Option<(Instant, Awaited)>,
    /// What code had left as its clock was stopped, while it is.
    stopped: Option<Duration>,
}

impl Deadline {
    /// Waits for `awaited` from now. `timeout` is the execution's.
    pub(super) fn set(&mut self, awaited: Awaited, timing: &Timing, timeout: Duration) {
        let within = match awaited {
            Awaited::Kernel | Awaited::Handover | Awaited::Dying | Awaited::ContextsEnd => {
                timing.start_timeout + timing.interrupt_grace
            }
            Awaited::Code => timeout,
            Awaited::GivingWay => timing.interrupt_grace,
        };
        // A time too far away to be counted is never reached.
        self.at = Instant::now().checked_add(within).map(|at| (at, awaited));
        self.stopped = None;
    }

    pub(super) const fn clear(&mut self) {
        (self.at, self.stopped) = (None, None);
    }

    /// Stops the clock of code, which waits for others.
    pub(super) fn stop_clock(&mut self) {
        if let Some((at, Awaited::Code)) = self.at {
            self.stopped = Some(at.saturating_duration_since(Instant::now()));
            self.at = None;
        }
    }

    /// Has it go on.
    pub(super) fn start_clock(&mut self) {
        if let Some(left) = self.stopped.take() {
            self.at = Instant::now().checked_add(left).map(|at| (at, Awaited::Code));
        }
    }

    /// When it is.
    pub(super) fn at(self) -> Option<Instant> {
        self.at.map(|(at, _)| at)
    }

    /// What did not come, if that was to be by now.
    pub(super) fn passed_by(self, now: Instant) -> Option<Awaited> {
        self.at.filter(|(at, _)| *at <= now).map(|(_, awaited)| awaited)
    }
}
