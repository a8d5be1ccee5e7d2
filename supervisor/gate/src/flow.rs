//! What is told of a connection: the decision before anything goes out, and its end.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use vivarium_egress::decision::{ConnectionNumber, SessionKey};
use vivarium_egress::{Decided, Decision, FromGate, Reason, Via, wire};
use vivarium_protocol::discard;

use crate::tenant::Tenant;

/// Messages that wait to be written; who sends more waits.
const QUEUE: usize = 64;

type Queued = (Vec<u8>, oneshot::Sender<()>);

/// Sends messages to the supervisor, in order.
#[derive(Debug, Clone)]
pub(crate) struct Reporter(mpsc::Sender<Queued>);

impl Reporter {
    /// Starts the task that writes. It ends with the socket, and then nothing is sent any more.
    pub(crate) fn start(mut socket: OwnedWriteHalf) -> Self {
        let (sender, mut queue) = mpsc::channel::<Queued>(QUEUE);
        tokio::spawn(async move {
            while let Some((bytes, written)) = queue.recv().await {
                if socket.write_all(&bytes).await.is_err() {
                    return;
                }
                discard(written.send(()), "nobody waits for every message");
            }
        });
        Self(sender)
    }

    /// Sends a message; returns once it is written, or never will be.
    pub(crate) async fn send<T: Serialize>(&self, message: &T) {
        if let Some(written) = self.queue(message).await {
            discard(written.await, "the supervisor is gone, and the gate ends");
        }
    }

    /// Once this returns, the message will be written even if the caller goes no further.
    async fn queue<T: Serialize>(&self, message: &T) -> Option<oneshot::Receiver<()>> {
        let bytes = wire::encode(message).ok()?;
        let (sender, written) = oneshot::channel();
        self.0.send((bytes, sender)).await.ok()?;
        Some(written)
    }
}

/// Bytes of a session, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

/// What was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) via: Via,
    pub(crate) destination: String,
    pub(crate) port: u16,
    pub(crate) method: Option<String>,
    pub(crate) address: Option<IpAddr>,
}

impl Asked {
    /// Something that could not be read.
    pub(crate) const fn unknown(via: Via) -> Self {
        Self { via, destination: String::new(), port: 0, method: None, address: None }
    }
}

/// One connection, as it is told of.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) reporter: Reporter,
    pub(crate) session: SessionKey,
    pub(crate) connection: ConnectionNumber,
    totals: Arc<Totals>,
    tenant: Arc<Tenant>,
    max_bytes: Option<u64>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    /// When it was allowed.
    allowed: Mutex<Option<Instant>>,
    last_byte: Mutex<Instant>,
}

impl Flow {
    pub(crate) fn new(
        reporter: Reporter,
        (session, connection): (SessionKey, ConnectionNumber),
        (totals, tenant): (Arc<Totals>, Arc<Tenant>),
        max_bytes: Option<u64>,
    ) -> Self {
        Self {
            reporter,
            session,
            connection,
            totals,
            tenant,
            max_bytes,
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            allowed: Mutex::new(None),
            last_byte: Mutex::new(Instant::now()),
        }
    }

    /// Tells a decision; returns once it is written.
    pub(crate) async fn decide(&self, asked: &Asked, decision: Decision, reason: Reason) {
        let message = FromGate::Decided(Decided {
            session: self.session,
            connection: self.connection,
            decision,
            reason,
            via: asked.via,
            destination: asked.destination.clone(),
            port: asked.port,
            method: asked.method.clone(),
            address: asked.address,
        });
        let written = self.reporter.queue(&message).await;
        if decision == Decision::Allowed {
            *lock(&self.allowed) = Some(Instant::now());
        }
        if let Some(written) = written {
            discard(written.await, "the supervisor is gone, and the gate ends");
        }
    }

    /// Tells the end, if this was ever allowed.
    pub(crate) async fn finish(&self, cut: Option<Reason>) {
        let Some(since) = *lock(&self.allowed) else { return };
        let message = FromGate::Done {
            session: self.session,
            connection: self.connection,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            duration: since.elapsed(),
            cut,
        };
        self.reporter.send(&message).await;
    }

    /// Counts bytes from the destination before they go on, once the tenant's rate has them.
    pub(crate) async fn count_in(&self, len: usize) -> Result<(), Reason> {
        self.count(&self.bytes_in, &self.totals.bytes_in, len).await
    }

    /// Counts bytes to the destination before they go on, once the tenant's rate has them.
    pub(crate) async fn count_out(&self, len: usize) -> Result<(), Reason> {
        self.count(&self.bytes_out, &self.totals.bytes_out, len).await
    }

    async fn count(&self, own: &AtomicU64, all: &AtomicU64, len: usize) -> Result<(), Reason> {
        let len = len as u64;
        // Who waits for the tenant's others is not idle.
        self.tenant.take(len, || *lock(&self.last_byte) = Instant::now()).await;
        let used = self.totals.bytes_in.load(Ordering::Relaxed)
            + self.totals.bytes_out.load(Ordering::Relaxed);
        if self.max_bytes.is_some_and(|max| used + len > max) {
            return Err(Reason::ByteLimit);
        }
        own.fetch_add(len, Ordering::Relaxed);
        all.fetch_add(len, Ordering::Relaxed);
        *lock(&self.last_byte) = Instant::now();
        Ok(())
    }

    /// When a byte last went either way.
    pub(crate) fn last_byte(&self) -> Instant {
        *lock(&self.last_byte)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
