//! The handle that everybody records events with.

use std::borrow::Cow;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
use vivarium_metrics::Metrics;

use crate::open::{OpenError, open};
use crate::writer::{Message, Record, Writer};
use crate::{Event, Fsync, Settings};

/// Above this many events that wait to be written, new executions wait too.
const ADMIT_BELOW: usize = 4096;

/// Above this many events, or bytes of them, further ones are dropped and counted: executions that
/// were admitted, and what does not ask.
const MAX_PENDING: usize = 65_536;
const MAX_PENDING_BYTES: usize = 64 << 20;

/// Of requests that are not authenticated one is recorded in this time, so that they do not push
/// everything else out of the log.
const AUTH_FAILURE_EVERY: Duration = Duration::from_secs(10);

const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Nothing can be audited, and the configuration says that nothing runs then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written, so nothing new is run")]
pub struct Unavailable;

/// Resolves when an event is as safe as the configuration says.
#[derive(Debug)]
pub struct Written(oneshot::Receiver<()>);

impl Written {
    pub async fn wait(self) {
        // A writer that is gone will not say more.
        self.0.await.unwrap_or(());
    }
}

/// An audit log, or none.
#[derive(Debug, Clone, Default)]
pub struct AuditLog(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    messages: Sender<Message>,
    waits_for_disk: AtomicBool,
    captures_code: AtomicBool,
    captures_output: AtomicBool,
    auth_failures: Mutex<AuthFailures>,
}

#[derive(Debug, Default)]
struct AuthFailures {
    last: Option<Instant>,
    suppressed: u64,
}

impl AuditLog {
    /// Opens the log that is configured, if one is. `is_strict` says whether a broken chain is
    /// refused.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(
        settings: &Settings,
        is_strict: bool,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, OpenError> {
        let Some(dir) = &settings.dir else { return Ok(Self(None)) };
        let opened = open(Path::new(dir), is_strict)?;
        let shared = Arc::new(Shared::new(Arc::clone(metrics)));
        if opened.new_breaks > 0 {
            shared.broken(opened.new_breaks as u64);
        }
        let writer = Writer::new(opened, settings.clone(), Arc::clone(&shared));
        let (messages, receiver) = mpsc::channel();
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(OpenError::Thread)?;
        let open = Open {
            shared,
            messages,
            waits_for_disk: AtomicBool::default(),
            captures_code: AtomicBool::default(),
            captures_output: AtomicBool::default(),
            auth_failures: Mutex::default(),
        };
        open.uses(settings);
        Ok(Self(Some(Arc::new(open))))
    }

    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Uses these settings from now on, except for the directory.
    pub fn reload(&self, settings: &Settings) {
        let Some(open) = &self.0 else { return };
        open.uses(settings);
        open.send(Message::Settings(Box::new(settings.clone())));
    }

    #[must_use]
    pub fn captures_code(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.captures_code.load(Ordering::Relaxed))
    }

    #[must_use]
    pub fn captures_output(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.captures_output.load(Ordering::Relaxed))
    }

    /// Waits until there is room for what is about to begin.
    ///
    /// # Errors
    /// [`Unavailable`]
    pub async fn admit(&self) -> Result<(), Unavailable> {
        let Some(open) = &self.0 else { return Ok(()) };
        let shared = &open.shared;
        loop {
            let mut room = pin!(shared.room.notified());
            // Before the look: what changes after it is not missed.
            room.as_mut().enable();
            if shared.refuses.load(Ordering::Acquire) {
                return Err(Unavailable);
            }
            if shared.pending.load(Ordering::Acquire) < ADMIT_BELOW {
                return Ok(());
            }
            room.await;
        }
    }

    /// Records an event, which is only made if there is a log. Never waits.
    pub fn record(&self, event: impl FnOnce() -> Event) {
        if let Some(open) = &self.0 {
            open.record(event(), None);
        }
    }

    /// Records an event. Where the configuration says so, what depends on it is to wait for the disk.
    pub fn record_and_wait(&self, event: impl FnOnce() -> Event) -> Option<Written> {
        let open = self.0.as_ref()?;
        if !open.waits_for_disk.load(Ordering::Relaxed) {
            open.record(event(), None);
            return None;
        }
        let (written, waiting) = oneshot::channel();
        open.record(event(), Some(written));
        Some(Written(waiting))
    }

    /// Records a request that was not authenticated, or counts it for the next that is recorded.
    pub fn auth_failed(&self, peer: impl FnOnce() -> String, reason: &'static str) {
        let Some(open) = &self.0 else { return };
        let mut failures = open.auth_failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.last.is_some_and(|last| last.elapsed() < AUTH_FAILURE_EVERY) {
            failures.suppressed += 1;
            return;
        }
        failures.last = Some(Instant::now());
        let suppressed = std::mem::take(&mut failures.suppressed);
        drop(failures);
        let (peer, reason) = (peer(), Cow::Borrowed(reason));
        open.record(Event::AuthFailed { peer, reason, suppressed }, None);
    }

    /// Shows the state of the log in the metrics.
    pub fn scrape(&self) {
        if let Some(open) = &self.0 {
            open.shared.scrape();
        }
    }

    /// Writes what waits, and closes the log.
    pub async fn stop(&self) {
        let Some(open) = &self.0 else { return };
        open.record(Event::DaemonStopped, None);
        let (done, stopped) = oneshot::channel();
        open.send(Message::Stop(done));
        if tokio::time::timeout(STOP_WITHIN, stopped).await.is_err() {
            tracing::error!("the audit log was not closed in time");
        }
    }
}

impl Open {
    fn uses(&self, settings: &Settings) {
        self.waits_for_disk.store(settings.fsync == Fsync::Each, Ordering::Relaxed);
        self.captures_code.store(settings.capture_code, Ordering::Relaxed);
        self.captures_output.store(settings.capture_output, Ordering::Relaxed);
    }

    fn record(&self, event: Event, written: Option<oneshot::Sender<()>>) {
        let bytes = event.bytes();
        if !self.shared.take(bytes) {
            self.shared.overflowed();
            return;
        }
        let record = Record { time: Timestamp::now(), event, bytes, written };
        self.send(Message::Record(Box::new(record)));
    }

    fn send(&self, message: Message) {
        if self.messages.send(message).is_err() {
            // After its end, or if it panicked.
            tracing::error!("the writer of the audit log is gone");
            self.shared.refuse();
        }
    }
}

/// What the writer and the handles know of each other.
#[derive(Debug)]
pub(crate) struct Shared {
    pending: AtomicUsize,
    pending_bytes: AtomicUsize,
    refuses: AtomicBool,
    /// Dropped since the writer last asked.
    lost: AtomicU64,
    room: Notify,
    last_written: Mutex<Instant>,
    metrics: Arc<Metrics>,
}

impl Shared {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.audit.introduced();
        Self {
            pending: AtomicUsize::new(0),
            pending_bytes: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            room: Notify::new(),
            last_written: Mutex::new(Instant::now()),
            metrics,
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let pending = self.pending.fetch_add(1, Ordering::AcqRel);
        let held = self.pending_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = pending < MAX_PENDING && held.saturating_add(bytes) <= MAX_PENDING_BYTES;
        if !fits {
            self.release(1, bytes);
        }
        fits
    }

    pub(crate) fn release(&self, count: usize, bytes: usize) {
        self.pending_bytes.fetch_sub(bytes, Ordering::AcqRel);
        if self.pending.fetch_sub(count, Ordering::AcqRel).saturating_sub(count) < ADMIT_BELOW {
            self.room.notify_waiters();
        }
    }

    fn overflowed(&self) {
        self.lost.fetch_add(1, Ordering::AcqRel);
        self.dropped(1);
    }

    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::AcqRel)
    }

    pub(crate) fn wrote(&self, lines: u64, bytes: u64) {
        self.refuses.store(false, Ordering::Release);
        *self.last_written.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.metrics.audit.wrote(lines, bytes);
    }

    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::Release);
        self.room.notify_waiters();
    }

    pub(crate) fn failed(&self) {
        self.metrics.audit.failed();
    }

    pub(crate) fn dropped(&self, count: u64) {
        self.metrics.audit.dropped(count);
    }

    pub(crate) fn broken(&self, count: u64) {
        self.metrics.audit.broken(count);
    }

    fn scrape(&self) {
        let last = *self.last_written.lock().unwrap_or_else(PoisonError::into_inner);
        self.metrics.audit.head_is_old(last.elapsed());
        self.metrics.audit.is_behind(self.pending.load(Ordering::Acquire) as u64);
        self.metrics.audit.refuses(self.refuses.load(Ordering::Acquire));
    }
}
