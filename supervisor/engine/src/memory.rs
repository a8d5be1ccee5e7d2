//! Whether there is memory for one more session.
//!
//! A create is admitted with what was last read and with what has been promised since, so that it
//! costs no read of a file: one task reads, a few times a second while sessions are made. It is
//! refused only with what was read after it came, for memory may have come free meanwhile. Pools
//! are told to give up what they hold before anybody is refused.
//!
//! It must never refuse what there already is (sessions and their executions), nor let one
//! tenant's stalls in its own limit shut out the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use vivarium_protocol::discard;

mod estimate;
mod ledger;
mod reading;
mod shortage;

use ledger::Ledger;
pub use ledger::{MemoryPolicy, PoolAction};
pub use reading::{Available, MemoryReading, Sources};
pub use shortage::Shortage;

const READ_EVERY: Duration = Duration::from_millis(250);

/// Time between two readings else.
const READ_AT_LEAST_EVERY: Duration = Duration::from_secs(5);

/// What is known of the host's memory, and what of it is promised.
#[derive(Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    reader: Option<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    /// Taken last of all locks, and for moments.
    ledger: Mutex<Ledger>,
    wanted: Notify,
    /// When the last one was begun.
    readings: watch::Sender<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryStatus {
    /// What sessions may still take, the reserve left out; `None` where nothing tells.
    pub available_bytes: Option<u64>,
    pub estimate_bytes: u64,
    /// The part of the time in which processes wait for memory, in percent.
    pub pressure_percent: Option<f64>,
    pub refuses: bool,
}

/// Memory that is promised to a session that starts, until this is dropped and there is a reading
/// that shows what it took.
#[derive(Debug)]
pub struct MemoryReservation {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.shared.lock().release(self.bytes);
    }
}

impl Memory {
    /// As these say, from now on. Has to be called where tokio runs.
    pub fn watch(sources: Sources) -> Self {
        let mut memory = Self::fixed(sources.read());
        let (shared, sources) = (Arc::clone(&memory.shared), Arc::new(sources));
        let reader = tokio::spawn(async move { shared.keep_reading(sources).await });
        memory.reader = Some(reader.abort_handle());
        memory
    }

    /// As this says, until something else is noted.
    pub(crate) fn fixed(reading: MemoryReading) -> Self {
        if reading.memory.is_none() {
            tracing::info!("nothing tells how much memory is left: sessions are made all the same");
        }
        if reading.pressure_percent.is_none() {
            tracing::info!("nothing tells of memory pressure: sessions are made all the same");
        }
        let shared = Shared {
            ledger: Mutex::new(Ledger::new(reading)),
            wanted: Notify::new(),
            readings: watch::Sender::new(Instant::now()),
        };
        Self { shared: Arc::new(shared), reader: None }
    }

    /// Takes what one more session needs.
    pub fn admit(
        &self,
        environment: &str,
        policy: MemoryPolicy,
    ) -> Result<MemoryReservation, Shortage> {
        self.request_reading();
        let bytes = self.shared.lock().admit(environment, policy)?;
        Ok(MemoryReservation { shared: Arc::clone(&self.shared), bytes })
    }

    /// Takes it, whatever there is: for a pool that was advised to fill.
    #[must_use]
    pub fn reserve(&self, environment: &str) -> MemoryReservation {
        self.request_reading();
        let bytes = self.shared.lock().reserve(environment);
        MemoryReservation { shared: Arc::clone(&self.shared), bytes }
    }

    pub fn pool_action(&self, environment: &str, policy: MemoryPolicy) -> PoolAction {
        self.shared.lock().pool_action(environment, policy)
    }

    pub fn status(&self, environment: &str, policy: MemoryPolicy) -> MemoryStatus {
        self.shared.lock().status(environment, policy)
    }

    /// A session of an environment was found to have this proportional set size.
    pub fn record_usage(&self, environment: &str, pss_bytes: u64) {
        self.shared.lock().learn(environment, pss_bytes);
    }

    pub fn request_reading(&self) {
        self.shared.wanted.notify_one();
    }

    /// Tells of each reading, by the time when it was begun.
    pub fn readings(&self) -> watch::Receiver<Instant> {
        self.shared.readings.subscribe()
    }

    /// Waits for a reading that is begun from now on: at most for two, and for the time between
    /// them. Whether there is one: where nobody reads there never is.
    pub async fn fresh_reading(&self) -> bool {
        let (asked, mut readings) = (Instant::now(), self.readings());
        self.request_reading();
        let is_read = readings.wait_for(|begun| *begun >= asked);
        self.reader.is_some() && matches!(timeout(READ_AT_LEAST_EVERY, is_read).await, Ok(Ok(_)))
    }

    /// Has this be what was read.
    #[cfg(test)]
    pub(crate) fn note(&self, reading: MemoryReading) {
        self.shared.note(|| reading);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn keep_reading(self: Arc<Self>, sources: Arc<Sources>) {
        loop {
            let wanted = timeout(READ_AT_LEAST_EVERY, self.wanted.notified()).await;
            discard(wanted, "a reading is due, wanted or not");
            let (shared, sources) = (Arc::clone(&self), Arc::clone(&sources));
            let read = move || shared.note(|| sources.read());
            // The kernel may have to sum up over many cgroups.
            if let Err(error) = tokio::task::spawn_blocking(read).await {
                tracing::error!(%error, "reading how much memory is left");
            }
            sleep(READ_EVERY).await;
        }
    }

    /// Notes a reading. What settles while it is made may not be in it.
    fn note(&self, read: impl FnOnce() -> MemoryReading) {
        let (begun, shown) = (Instant::now(), self.lock().released_bytes());
        let reading = read();
        self.lock().note(reading, shown);
        self.readings.send_replace(begun);
    }
}

#[cfg(test)]
mod tests;
