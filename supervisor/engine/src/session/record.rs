//! What became of one execution so far, for whoever wants to know: its events, and its outcome.
//!
//! The session's actor writes it through the one [`Writer`]; clients wait for its end or follow
//! its events through a [`Reader`], now or later. Only so many bytes of events are kept, and the
//! actor holds the execution back ([`Record::room`]) while a client that follows it is behind by
//! all of them, but not for ever. It must never grow with what code prints or with how slowly
//! anybody reads, nor give out an event twice under two numbers.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use vivarium_api_types::Outcome;
use vivarium_protocol::message::ExecutionNumber;

use super::Refusal;
use crate::budget::Reservation;

mod event;
mod follow;
mod readers;
mod ring;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use event::{Event, EventNumber, Happened};
pub use follow::{Batch, NoSuchEvent, Reader};
pub use writer::Writer;

use readers::{Hold, Readers};
use ring::Ring;

/// How far an execution has come.
#[derive(Debug, Clone)]
pub enum Stage {
    /// Its session does not know of it yet.
    Submitted,
    /// It waits for its turn, under this number.
    Queued(ExecutionNumber),
    /// It runs.
    Running(ExecutionNumber),
    /// It is over.
    Done(Arc<Outcome>),
    /// It was not taken, for this reason, and never will be.
    Refused(Refusal),
}

impl Stage {
    /// Whether nothing more will happen.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Refused(_))
    }
}

/// One execution. See the module.
#[derive(Debug)]
pub struct Record {
    /// Bytes of events that are kept, the last event always.
    capacity_bytes: usize,
    /// Whether it is to end when nobody attached is left.
    cancel_on_disconnect: bool,
    stage: watch::Sender<Stage>,
    inner: Mutex<Inner>,
    /// Told when there is something to read.
    news: Notify,
    /// Told when a reader has taken something, or is gone.
    taken: Notify,
    /// Whether everybody went away who wanted it to run.
    abandoned: watch::Sender<bool>,
    /// When it was over. Outlives the record.
    ended: Arc<OnceLock<Instant>>,
    /// What it takes of the daemon's memory once it is over.
    reservation: OnceLock<Reservation>,
}

#[derive(Debug)]
struct Inner {
    ring: Ring,
    readers: Readers,
    /// Clients that wait for it.
    attached: usize,
}

/// Somebody who wants this execution to run. If its request said so, it ends when the last of
/// them has been dropped.
#[derive(Debug)]
pub struct Attached {
    record: Arc<Record>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut inner = self.record.lock();
        inner.attached = inner.attached.saturating_sub(1);
        if inner.attached == 0 && self.record.cancel_on_disconnect {
            self.record.abandoned.send_replace(true);
        }
    }
}

impl Record {
    /// A record that keeps `capacity_bytes` of events, and its writer.
    #[must_use]
    pub fn new(capacity_bytes: usize, cancel_on_disconnect: bool) -> (Arc<Self>, Writer) {
        let inner = Inner { ring: Ring::default(), readers: Readers::default(), attached: 0 };
        let record = Arc::new(Self {
            capacity_bytes,
            cancel_on_disconnect,
            stage: watch::Sender::new(Stage::Submitted),
            inner: Mutex::new(inner),
            news: Notify::new(),
            taken: Notify::new(),
            abandoned: watch::Sender::new(false),
            ended: Arc::default(),
            reservation: OnceLock::new(),
        });
        (Arc::clone(&record), Writer::new(record))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// Waits until its session has taken it.
    ///
    /// # Errors
    /// Why it was not.
    pub async fn queued(&self) -> Result<(), Refusal> {
        match self.reached(|stage| !matches!(stage, Stage::Submitted)).await {
            Stage::Refused(refusal) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Why it never ran.
    pub async fn finished(&self) -> Result<Arc<Outcome>, Refusal> {
        match self.reached(Stage::is_final).await {
            Stage::Done(outcome) => Ok(outcome),
            Stage::Refused(refusal) => Err(refusal),
            // The sender is part of `self`, so waiting ends with what was waited for.
            Stage::Submitted | Stage::Queued(_) | Stage::Running(_) => Err(Refusal::Gone),
        }
    }

    async fn reached(&self, wanted: impl FnMut(&Stage) -> bool) -> Stage {
        let mut stage = self.stage.subscribe();
        stage.wait_for(wanted).await.map_or_else(|_| self.stage(), |stage| stage.clone())
    }

    /// When it was over, for those who do not keep the record itself.
    #[must_use]
    pub fn ended(&self) -> Arc<OnceLock<Instant>> {
        Arc::clone(&self.ended)
    }

    /// Counts somebody in who wants it to run.
    #[must_use]
    pub fn attach(self: &Arc<Self>) -> Attached {
        self.lock().attached += 1;
        Attached { record: Arc::clone(self) }
    }

    /// Whether everybody went away who wanted it to run, and it is to end then.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        *self.abandoned.borrow()
    }

    /// Waits for that.
    pub async fn abandoned(&self) {
        let mut abandoned = self.abandoned.subscribe();
        if abandoned.wait_for(|abandoned| *abandoned).await.is_err() {
            // The sender is part of `self`, and so is there.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until there is room for more events: until no reader is behind by all that is kept.
    /// Readers that are too slow are cut off meanwhile. May be dropped without losing anything.
    pub async fn room(&self) {
        loop {
            let taken = self.taken.notified();
            let hold = self.lock().readers.hold(Instant::now(), self.capacity_bytes);
            match hold {
                Hold::No => return,
                Hold::CutOff => self.news.notify_waiters(),
                Hold::Until(at) => tokio::select! {
                    () = taken => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }

    /// Bytes of its events.
    pub(super) fn events_bytes(&self) -> usize {
        self.lock().ring.bytes()
    }

    /// Has the daemon's memory that it takes counted until nobody has it any more. It is over.
    pub(super) fn keep(&self, mut reservation: Reservation) {
        reservation.set(self.weight_bytes());
        self.reservation.get_or_init(|| reservation);
    }

    /// Whether there is room for more events now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.lock().readers.is_any_behind(self.capacity_bytes)
    }

    /// Bytes it takes.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let outcome = match &*self.stage.borrow() {
            Stage::Done(outcome) => outcome.weight_bytes(),
            _ => 0,
        };
        size_of::<Self>() + self.lock().ring.bytes() + outcome
    }
}
