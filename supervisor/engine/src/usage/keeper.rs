//! The thread that keeps the ledger.
//!
//! Made once, at start: a thread for each write could not be made while tenants use up the host's
//! processes. Every few seconds it samples, and every interval it writes; asked for usage or told to
//! write, it does that in between.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg};
use tokio::sync::oneshot;
use vivarium_api_types::UsageRow;
use vivarium_metrics::Metrics;
use vivarium_protocol::{discard, error_chain};

use super::ledger::{Ledger, LedgerError, UsageRange};
use super::sampler::Sampler;
use super::{Collector, Sources};
use crate::cgroup::Tree;

/// How often the tenants' cgroups are looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// How often files that are too old are looked for.
const TIDY_EVERY: Duration = Duration::from_hours(1);

/// In the state directory.
const DIR: &str = "usage";

#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("{operation} {path}", path = path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("another daemon keeps the ledger in {path}", path = .0.display())]
    Taken(PathBuf),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the thread that keeps it has ended")]
    Ended,
}

/// When it is written, and for how long it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub flush_interval: Duration,
    pub keep: Duration,
}

/// How the ledger does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerState {
    pub flushed_at: Option<Timestamp>,
    /// Why the last attempt to write failed.
    pub error: Option<String>,
    /// Files that were put aside at start, as they could not be read.
    pub damaged: Vec<PathBuf>,
}

enum Order {
    Query(UsageRange, oneshot::Sender<Result<Vec<UsageRow>, KeeperError>>),
    Flush(oneshot::Sender<()>),
    Keep(Schedule),
}

/// The ledger of a daemon. Dropped, it is written for the last time.
#[derive(Debug)]
pub struct Keeper {
    orders: Option<Sender<Order>>,
    state: Arc<Mutex<LedgerState>>,
    thread: Option<JoinHandle<()>>,
}

fn lock(state: &Mutex<LedgerState>) -> MutexGuard<'_, LedgerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// Starts to keep a ledger below this directory, which no other daemon may.
    pub fn start(
        state_dir: &Path,
        schedule: Schedule,
        collector: &Arc<Collector>,
        tree: Option<Weak<Tree>>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, KeeperError> {
        let dir = state_dir.join(DIR);
        let taken = take(&dir)?;
        let (orders, receiver) = channel();
        let state: Arc<Mutex<LedgerState>> = Arc::default();
        let mut thread = Thread {
            ledger: Ledger::new(dir.clone()),
            sampler: Sampler::new(tree),
            collector: Arc::clone(collector),
            state: Arc::clone(&state),
            metrics: Arc::clone(metrics),
            schedule,
            _taken: taken,
        };
        let builder = std::thread::Builder::new().name("usage".to_owned());
        let thread = builder.spawn(move || thread.run(&receiver)).map_err(|source| {
            KeeperError::Io { operation: "start a thread for", path: dir, source }
        })?;
        Ok(Self { orders: Some(orders), state, thread: Some(thread) })
    }

    #[must_use]
    pub fn state(&self) -> LedgerState {
        lock(&self.state).clone()
    }

    pub async fn query(&self, range: UsageRange) -> Result<Vec<UsageRow>, KeeperError> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Query(range, reply))?;
        answer.await.map_err(|_| KeeperError::Ended)?
    }

    /// Returns when it has tried to write everything.
    pub async fn flush(&self) -> Result<(), KeeperError> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Flush(reply))?;
        answer.await.map_err(|_| KeeperError::Ended)
    }

    /// From now on.
    pub fn keep(&self, schedule: Schedule) {
        discard(self.order(Order::Keep(schedule)), "its end was logged");
    }

    fn order(&self, order: Order) -> Result<(), KeeperError> {
        let orders = self.orders.as_ref().ok_or(KeeperError::Ended)?;
        orders.send(order).map_err(|_| KeeperError::Ended)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps the usage ledger failed");
        }
    }
}

/// Makes the directory and locks it.
fn take(dir: &Path) -> Result<Flock<File>, KeeperError> {
    let failed = |operation, source| KeeperError::Io { operation, path: dir.to_owned(), source };
    match std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("make", error));
        }
        _ => {}
    }
    let file = File::open(dir).map_err(|error| failed("open", error))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        nix::errno::Errno::EWOULDBLOCK => KeeperError::Taken(dir.to_owned()),
        errno => failed("lock", errno.into()),
    })
}

struct Thread {
    ledger: Ledger,
    sampler: Sampler,
    collector: Arc<Collector>,
    state: Arc<Mutex<LedgerState>>,
    metrics: Arc<Metrics>,
    schedule: Schedule,
    _taken: Flock<File>,
}

impl Thread {
    fn run(&mut self, orders: &Receiver<Order>) {
        self.sample();
        self.tidy();
        let (mut flushed, mut tidied) = (Instant::now(), Instant::now());
        loop {
            let until_flush = self.schedule.flush_interval.saturating_sub(flushed.elapsed());
            match orders.recv_timeout(until_flush.min(SAMPLE_EVERY)) {
                Ok(order) => self.obey(order),
                Err(RecvTimeoutError::Timeout) => self.sample(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if flushed.elapsed() >= self.schedule.flush_interval {
                self.sample();
                self.flush();
                flushed = Instant::now();
            }
            if tidied.elapsed() >= TIDY_EVERY {
                self.tidy();
                tidied = Instant::now();
            }
        }
        self.sample();
        self.flush();
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Query(range, reply) => {
                self.sample();
                let answer = self.ledger.query(&range).map_err(Into::into);
                discard(reply.send(answer), "who asked may be gone");
            }
            Order::Flush(reply) => {
                self.sample();
                self.flush();
                discard(reply.send(()), "who asked may be gone");
            }
            Order::Keep(schedule) => self.schedule = schedule,
        }
    }

    /// Takes what was collected. What a cgroup says of a tenant is the whole of it, and is not added
    /// to what executions said.
    fn sample(&mut self) {
        let now = Timestamp::now();
        let sampled = self.sampler.sample(Instant::now());
        for (tenant, mut figures) in self.collector.take() {
            if let Some(sampled) = sampled.get(&*tenant) {
                if sampled.cpu_from == Sources::CGROUP {
                    (figures.cpu_us, figures.cpu_from) = (0, Sources::default());
                }
                if sampled.memory_from == Sources::CGROUP {
                    (figures.memory_byte_ms, figures.memory_from) = (0, Sources::default());
                }
            }
            self.ledger.book(now, &tenant, &figures);
        }
        for (tenant, figures) in &sampled {
            if figures.cpu_us > 0 || figures.memory_byte_ms > 0 {
                self.ledger.book(now, tenant, figures);
            }
        }
    }

    fn flush(&mut self) {
        match self.ledger.flush() {
            Ok(()) => {
                self.metrics.administration.ledger_flushed(true);
                let mut state = lock(&self.state);
                if state.error.take().is_some() {
                    tracing::info!("the usage ledger is written again");
                }
                state.flushed_at = Some(Timestamp::now());
            }
            Err(error) => {
                self.metrics.administration.ledger_flushed(false);
                let error = error_chain(&error).to_string();
                let mut state = lock(&self.state);
                if state.error.is_none() {
                    tracing::error!(error, "the usage ledger was not written: tried again later");
                }
                state.error = Some(error);
            }
        }
    }

    fn tidy(&mut self) {
        match self.ledger.tidy(Timestamp::now(), self.schedule.keep) {
            Ok(damaged) => {
                for path in &damaged {
                    let path = path.display();
                    tracing::error!(%path, "a file of the usage ledger was damaged: put aside");
                }
                lock(&self.state).damaged.extend(damaged);
            }
            Err(error) => {
                tracing::warn!("the usage ledger was not tidied: {}", error_chain(&error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
