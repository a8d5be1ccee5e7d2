//! The open connections of a listener, and which of them is closed to make room for another.
//!
//! A connection without a complete request keeps nobody out: when the listener or a peer has reached
//! its maximum, the connection that has been silent for longest is closed for the new one. When all
//! are busy with a request, a small reserve still serves health checks and metrics.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use axum::http::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use vivarium_metrics::Metrics;
use vivarium_metrics::families::http::Closed;

use super::Problem;

#[cfg(test)]
mod tests;

/// Connections beyond the maximum, for health checks and metrics.
const RESERVE: usize = 32;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    Address(IpAddr),
    /// A user of this host; `None` if the system does not say which.
    User(Option<u32>),
}

/// The connections of one listener. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    metrics: Arc<Metrics>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    entries: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    peer: Peer,
    tenant: Option<Arc<str>>,
    /// Since when its client has been silent; `None` while a request is being answered.
    silent: Option<Instant>,
    close: Arc<Notify>,
}

impl Open {
    /// How many connections there are, of one peer or of all, and how many of them are busy.
    fn count(&self, of: Option<Peer>) -> (usize, usize) {
        let of = self.entries.values().filter(|entry| of.is_none_or(|peer| entry.peer == peer));
        of.fold((0, 0), |(all, busy), entry| (all + 1, busy + usize::from(entry.silent.is_none())))
    }

    /// Closes the connection, of one peer or of all, that has been silent for longest.
    fn close_one(&mut self, of: Option<Peer>) -> bool {
        let silent = self.entries.iter().filter_map(|(number, entry)| {
            let is_of = of.is_none_or(|peer| entry.peer == peer);
            entry.silent.filter(|_| is_of).map(|since| (since, *number))
        });
        let Some(entry) = silent.min().and_then(|(_, number)| self.entries.remove(&number)) else {
            return false;
        };
        entry.close.notify_one();
        true
    }
}

impl Connections {
    pub(super) fn new(max: usize, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared { max, metrics, open: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection; `None` if even the reserve is used up.
    pub(super) fn admit(&self, peer: Peer) -> Option<Connection> {
        let mut open = self.lock();
        let bounds = [(Some(peer), self.max_of_peer()), (None, self.0.max)];
        let is_reserve = bounds.iter().any(|(of, max)| open.count(*of).1 >= *max);
        for (of, max) in bounds.into_iter().filter(|_| !is_reserve) {
            // The silent ones include the reserve, so closing one may not be enough.
            while open.count(of).0 >= max && self.close_one(&mut open, of) {}
        }
        let most = self.0.max + RESERVE;
        if is_reserve && open.entries.len() >= most && !self.close_one(&mut open, None) {
            self.0.metrics.http.closed(Closed::Refused);
            return None;
        }
        open.last += 1;
        let number = open.last;
        let close = Arc::new(Notify::new());
        let silent = Some(Instant::now());
        let entry = Entry { peer, tenant: None, silent, close: Arc::clone(&close) };
        open.entries.insert(number, entry);
        let ends_with_client = Arc::new(watch::Sender::new(false));
        let activity = Activity {
            connections: self.clone(),
            number,
            is_reserve,
            ends_with_client,
            tunnel: Arc::default(),
        };
        Some(Connection { activity, close })
    }

    /// Closes a silent connection when no descriptors are left.
    pub(super) fn make_room(&self) {
        self.close_one(&mut self.lock(), None);
    }

    fn close_one(&self, open: &mut Open, of: Option<Peer>) -> bool {
        let closed = open.close_one(of);
        if closed {
            self.0.metrics.http.closed(Closed::Crowded);
        }
        closed
    }

    /// One peer may hold three quarters.
    fn max_of_peer(&self) -> usize {
        self.0.max - self.0.max / 4
    }

    /// One of several tenants may keep half busy.
    fn max_of_tenant(&self) -> usize {
        self.0.max.div_ceil(2)
    }
}

/// An admitted connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    activity: Activity,
    close: Arc<Notify>,
}

impl Connection {
    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Whether the request that is being answered ends when its client leaves.
    pub(super) fn ends_with_client(&self) -> watch::Receiver<bool> {
        self.activity.ends_with_client.subscribe()
    }

    /// Resolves when the connection must make room for another.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Activity { connections, number, .. } = &self.activity;
        connections.lock().entries.remove(number);
    }
}

/// What a connection goes on with that has switched to another protocol.
struct Tunnel {
    tenant: Arc<str>,
    relaying: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Records what a connection is busy with.
#[derive(Clone)]
pub(super) struct Activity {
    connections: Connections,
    number: u64,
    /// Whether the connection serves only health checks and metrics.
    pub(super) is_reserve: bool,
    ends_with_client: Arc<watch::Sender<bool>>,
    tunnel: Arc<Mutex<Option<Tunnel>>>,
}

impl fmt::Debug for Activity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Activity").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Activity {
    /// Has the connection go on with this, once the answer that switches protocols is sent.
    pub(super) fn tunnels(
        &self,
        tenant: &str,
        relaying: impl Future<Output = ()> + Send + 'static,
    ) {
        let tunnel = Tunnel { tenant: tenant.into(), relaying: Box::pin(relaying) };
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    /// What the connection goes on with, if it has switched protocols. It then counts like a request
    /// of the tenant's that is being answered, and ends with its client.
    pub(super) fn take_tunnel(&self) -> Option<impl Future<Output = ()> + use<>> {
        let taken = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Tunnel { tenant, relaying } = taken?;
        self.change(|entry| (entry.silent, entry.tenant) = (None, Some(tenant)));
        self.end_with_client();
        Some(relaying)
    }

    /// Ends the request when its client leaves.
    pub(super) fn end_with_client(&self) {
        self.ends_with_client.send_replace(true);
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.connections.lock().entries.get_mut(&self.number) {
            change(entry);
        }
    }

    /// Part of a request has arrived.
    fn received(&self) {
        self.change(|entry| entry.silent = Some(Instant::now()));
    }

    fn busy(&self) {
        self.change(|entry| entry.silent = None);
    }

    fn idle(&self) {
        self.ends_with_client.send_replace(false);
        self.change(|entry| (entry.silent, entry.tenant) = (Some(Instant::now()), None));
    }

    /// Counts the request towards its tenant's maximum, where there are several tenants.
    ///
    /// # Errors
    /// 429
    pub(super) fn count_towards(&self, tenant: &str) -> Result<(), Problem> {
        let max = self.connections.max_of_tenant();
        let mut open = self.connections.lock();
        let is_its = |entry: &Entry| entry.tenant.as_deref() == Some(tenant);
        if open.entries.get(&self.number).is_some_and(is_its) {
            return Ok(());
        }
        if open.entries.values().filter(|entry| is_its(entry)).count() >= max {
            let detail = format!("{max} requests of this tenant are under way, as many as may");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail);
            return Err(problem.retry_after(1));
        }
        if let Some(entry) = open.entries.get_mut(&self.number) {
            entry.tenant = Some(tenant.into());
        }
        Ok(())
    }
}

/// A request's or a response's body, whose end changes what its connection is busy with.
#[derive(Debug)]
pub(super) struct Tracked<B> {
    body: B,
    activity: Activity,
    is_request: bool,
}

impl<B: Body> Tracked<B> {
    pub(super) fn request(body: B, activity: Activity) -> Self {
        if body.is_end_stream() {
            activity.busy();
        } else {
            activity.received();
        }
        Self { body, activity, is_request: true }
    }

    pub(super) const fn answer(body: B, activity: Activity) -> Self {
        Self { body, activity, is_request: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Tracked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if self.is_request {
            if frame.is_none() || self.body.is_end_stream() {
                self.activity.busy();
            } else {
                self.activity.received();
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Tracked<B> {
    fn drop(&mut self) {
        if self.is_request {
            // Whether it was read to the end or not, nobody waits for more of it.
            self.activity.busy();
        } else {
            self.activity.idle();
        }
    }
}
