//! Whether the agent still answers. It is asked only while something is wanted of it, and only
//! when it has been silent for a while: an idle session costs nothing, and a busy one no messages.

use std::time::Duration;

use tokio::time::Instant;

/// How long an agent that something is wanted of may be silent before it is asked, and how long it
/// may then take to answer. It waits for nothing in its loop, whatever tenant code does.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(5);
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What to do when the time is up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    Fine,
    /// Ask the agent whether it is there.
    Ask,
    /// It was asked, and did not answer.
    Hangs,
}

/// When it is next looked at.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    due: Option<Instant>,
    answered: bool,
    asked: bool,
}

impl Liveness {
    /// Something is wanted of the agent from now on.
    pub(super) fn wanted(&mut self) {
        if self.due.is_none() {
            *self =
                Self { due: Instant::now().checked_add(SILENT_FOR), answered: false, asked: false };
        }
    }

    pub(super) const fn answered(&mut self) {
        self.answered = true;
    }

    /// When [`Self::check`] is due.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The time is up. `wanted`: whether something is wanted of it still. `listened`: whether it
    /// could be answered at all; output that nobody takes keeps us from that.
    pub(super) fn check(&mut self, wanted: bool, listened: bool) -> Check {
        let asks = wanted && listened && !self.answered && !self.asked;
        if wanted && listened && !self.answered && self.asked {
            return Check::Hangs;
        }
        let within = if asks { ANSWERS_WITHIN } else { SILENT_FOR };
        let due = Instant::now().checked_add(within).filter(|_| wanted);
        *self = Self { due, answered: false, asked: asks };
        if asks { Check::Ask } else { Check::Fine }
    }
}
