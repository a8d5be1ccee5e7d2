//! An execution while it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;
use vivarium_api_types::KernelInfo;
use vivarium_protocol::clock::monotonic_us;
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{ExecutionNumber, FromAgent};

use crate::budget::{Account, Reservation};
use crate::cgroup::{Mark, Meter};
use crate::session::audited::Audited;
use crate::session::calls::channel::Calls;
use crate::session::execution::Kind;
use crate::session::execution_log::LogWriter;
use crate::session::output::Collector;

/// Why an execution was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    User,
    /// Its time is up.
    WallTime,
    /// Its CPU time is up: microseconds used.
    CpuTime(u64),
    /// The context is being reset.
    Reset,
    /// The context is being deleted.
    ContextDeleted,
}

/// What else ran at the same time: what its leaf or the session's scope counts is then not this
/// one's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Overlap {
    None,
    InSession,
    InLeaf,
}

/// An execution that the agent has been sent: of code in the kernel, or of a command beside it.
pub(super) struct RunningExecution {
    pub(super) number: ExecutionNumber,
    pub(super) kind: Kind,
    pub(super) timeout: Duration,
    pub(super) queued_at: Instant,
    pub(super) started: Option<Instant>,
    /// Where it runs, if there are leaves.
    pub(super) leaf: Leaf,
    /// What measures that leaf.
    pub(super) meter: Arc<Meter>,
    /// What it had measured when this began.
    pub(super) mark: Mark,
    pub(super) overlap: Overlap,
    pub(super) stop: Option<Stop>,
    /// Whether it did not give way to that, and was killed: a command.
    pub(super) killed: bool,
    pub(super) collector: Collector,
    pub(super) writer: LogWriter,
    pub(super) session_created: bool,
    /// The image of the checkpoint that the session was at until then.
    pub(super) before: Option<Uuid>,
    pub(super) audited: Option<Box<Audited>>,
    /// The kernel it runs in, and what is to be told of the one before, once it runs.
    pub(super) kernel: Option<(Option<KernelInfo>, Option<String>)>,
    /// Its calls of functions of its client's, if it may make some.
    pub(super) calls: Option<Box<Calls>>,
    /// Dropped, and so told, when the execution has ended.
    pub(super) interrupts: Vec<oneshot::Sender<()>>,
    /// What it takes of the daemon's memory until then, and its result for as long as it is kept.
    pub(super) reservation: Reservation,
    /// Of these bytes, those of its code and files.
    pub(super) request_bytes: usize,
}

impl RunningExecution {
    /// It started at this time of [`monotonic_us`], but not before it was queued, whatever the agent says. Returns how
    /// long it had waited until then.
    pub(super) fn start(&mut self, session_id: &str, at_us: u64) -> Duration {
        let age = self.queued_at.elapsed();
        let ago = Duration::from_micros(monotonic_us().saturating_sub(at_us)).min(age);
        let waited = age.saturating_sub(ago);
        self.started = Some(self.queued_at + waited);
        self.writer.started(self.number, session_id, ago);
        waited
    }

    /// What is left of its time.
    pub(super) fn time_left(&self) -> Duration {
        let ran = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        self.timeout.saturating_sub(ran)
    }

    /// Takes in what came of it, or forgets it where the daemon has no room for it.
    pub(super) fn fold(
        &mut self,
        message: FromAgent,
        paid: Option<&Reservation>,
        account: &Account,
    ) {
        let has_room = paid.is_some_and(Reservation::is_covered) || account.excess().is_none();
        let happened =
            if has_room { self.collector.fold(message) } else { self.collector.forgo(message) };
        if let Some(happened) = happened {
            self.writer.push(happened);
        }
        self.count();
    }

    /// Counts what has come of it so far.
    pub(super) fn count(&mut self) {
        let events = self.writer.log().events_bytes();
        self.reservation.set(self.request_bytes + self.collector.bytes() + events);
    }
}
