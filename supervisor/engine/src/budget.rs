//! The bytes that the daemon holds for its tenants: request bodies, executions that wait or run,
//! results and events that are kept, answers on their way.
//!
//! Whoever holds such bytes holds a [`Reservation`] for them. A request that finds no room is
//! refused; an execution that finds none is held back for a while, and then loses what it prints
//! beyond. Kept results make room first: a tenant's own for the tenant, and where the daemon's
//! bytes are used up, those of the tenant that keeps most. Nothing here may wait for a lock while
//! it holds one.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

#[cfg(test)]
mod tests;

/// Bytes in use, of a maximum.
#[derive(Debug)]
struct ByteCounter {
    used: AtomicUsize,
    max: usize,
}

impl ByteCounter {
    const fn new(max: usize) -> Self {
        Self { used: AtomicUsize::new(0), max }
    }

    fn try_add(&self, bytes: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.max
    }
}

/// Whose bytes are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    Tenant {
        max_mib: usize,
    },
    /// Those of all tenants together.
    Daemon {
        max_mib: usize,
    },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant { max_mib } => write!(
                f,
                "requests, executions and results of this tenant hold all the {max_mib} MiB that \
                 the daemon has for them (server.max_tenant_buffered_mb)"
            ),
            Self::Daemon { max_mib } => write!(
                f,
                "requests, executions and results hold all the {max_mib} MiB that the daemon has \
                 for them (server.max_buffered_mb)"
            ),
        }
    }
}

/// Bytes that are kept for as long as nobody needs the room.
pub trait Evict: std::fmt::Debug + Send + Sync {
    /// Evicts the oldest of a tenant's. Whether there was one.
    fn forget_oldest_of(&self, tenant: &str) -> bool;

    /// Evicts the oldest of the tenant that has most. Whether there was one.
    fn forget_oldest_of_most(&self) -> bool;
}

/// The budget of a daemon. Clones are the same.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    daemon: ByteCounter,
    max_tenant_bytes: usize,
    tenants: Mutex<HashMap<String, Arc<ByteCounter>>>,
    results: Arc<dyn Evict>,
    /// Told when bytes are given back.
    freed: Notify,
    /// The right to go over the maximum for one large message: see [`Account::overdraw`].
    overdraft: Arc<Semaphore>,
}

impl Budget {
    /// So many bytes for all, of which one tenant may have so many, and the results that make
    /// room.
    pub fn new(max_bytes: usize, max_tenant_bytes: usize, results: Arc<dyn Evict>) -> Self {
        Self(Arc::new(Shared {
            daemon: ByteCounter::new(max_bytes),
            max_tenant_bytes,
            tenants: Mutex::default(),
            results,
            freed: Notify::new(),
            overdraft: Arc::new(Semaphore::new(1)),
        }))
    }

    pub fn of(&self, tenant: &str) -> Account {
        let mut tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = match tenants.get(tenant) {
            Some(counter) => Arc::clone(counter),
            None => {
                let counter = Arc::new(ByteCounter::new(self.0.max_tenant_bytes));
                tenants.insert(tenant.to_owned(), Arc::clone(&counter));
                counter
            }
        };
        Account { shared: Arc::clone(&self.0), tenant: tenant.into(), counter }
    }

    /// Bytes in use by each tenant that ever had some, and the maximum of all.
    pub fn used(&self) -> (Vec<(String, usize)>, usize) {
        let tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |(tenant, counter): (&String, &Arc<ByteCounter>)| {
            (tenant.clone(), counter.used.load(Ordering::Relaxed))
        };
        (tenants.iter().map(used).collect(), self.0.daemon.max)
    }
}

/// A tenant's part of the budget. Clones are the same.
#[derive(Debug, Clone)]
pub struct Account {
    shared: Arc<Shared>,
    tenant: Arc<str>,
    counter: Arc<ByteCounter>,
}

impl Account {
    /// Takes bytes, if there is room for them. Kept results make room.
    pub fn take(&self, bytes: usize) -> Result<Reservation, Full> {
        let mut reservation = self.hold(0);
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// Takes bytes that are there already, whether or not there is room.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> Reservation {
        let mut reservation = Reservation { account: self.clone(), bytes: 0, overdraft: None };
        reservation.set(bytes);
        reservation
    }

    /// Takes bytes, waiting for room if there is none.
    pub async fn take_within(&self, bytes: usize, within: Duration) -> Result<Reservation, Full> {
        let mut full = match self.take(bytes) {
            Ok(reservation) => return Ok(reservation),
            Err(full) => full,
        };
        let taken = timeout(within, async {
            loop {
                let freed = self.shared.freed.notified();
                match self.take(bytes) {
                    Ok(reservation) => return reservation,
                    Err(now) => full = now,
                }
                freed.await;
            }
        });
        taken.await.map_err(|_| full)
    }

    /// Whether more is in use than may be, and whose that is. Kept results make room.
    pub fn excess(&self) -> Option<Full> {
        while self.counter.is_over() {
            if !self.shared.results.forget_oldest_of(&self.tenant) {
                return Some(self.tenant_full());
            }
        }
        while self.shared.daemon.is_over() {
            if !self.shared.results.forget_oldest_of_most() {
                return Some(self.daemon_full());
            }
        }
        None
    }

    /// Waits until no more is in use than may be.
    pub async fn settled(&self) {
        loop {
            let freed = self.shared.freed.notified();
            if self.excess().is_none() {
                return;
            }
            freed.await;
        }
    }

    /// Takes bytes beyond the maximum. Only one reservation of the daemon's is such a one at any
    /// time: so executions that hold all there is, and wait for more, come to an end one by one.
    pub async fn overdraw(&self, bytes: usize) -> Reservation {
        let permit = Arc::clone(&self.shared.overdraft).acquire_owned().await;
        let mut reservation = self.hold(bytes);
        // Nobody closes it.
        reservation.overdraft = permit.ok();
        reservation
    }

    fn try_add(&self, bytes: usize) -> Result<(), Full> {
        if !self.counter.try_add(bytes) {
            return Err(self.tenant_full());
        }
        if !self.shared.daemon.try_add(bytes) {
            self.counter.subtract(bytes);
            return Err(self.daemon_full());
        }
        Ok(())
    }

    fn subtract(&self, bytes: usize) {
        self.counter.subtract(bytes);
        self.shared.daemon.subtract(bytes);
        self.shared.freed.notify_waiters();
    }

    fn tenant_full(&self) -> Full {
        Full::Tenant { max_mib: self.counter.max >> 20 }
    }

    fn daemon_full(&self) -> Full {
        Full::Daemon { max_mib: self.shared.daemon.max >> 20 }
    }
}

/// Bytes in use, given back when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Account,
    bytes: usize,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Reservation {
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether they were there to be taken, and not beyond the maximum.
    pub const fn is_covered(&self) -> bool {
        self.overdraft.is_none()
    }

    /// Takes more, if there is room. Kept results make room.
    /// On an error it has what it had.
    pub fn grow(&mut self, more: usize) -> Result<(), Full> {
        let results = &self.account.shared.results;
        while let Err(full) = self.account.try_add(more) {
            let made_room = match full {
                Full::Tenant { max_mib: _ } if more > self.account.counter.max => false,
                Full::Tenant { .. } => results.forget_oldest_of(&self.account.tenant),
                Full::Daemon { .. } => results.forget_oldest_of_most(),
            };
            if !made_room {
                return Err(full);
            }
        }
        self.bytes += more;
        Ok(())
    }

    /// Is for so many bytes from now on, whether or not there is room.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => {
                self.account.counter.add(more);
                self.account.shared.daemon.add(more);
            }
            None => self.account.subtract(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.subtract(self.bytes);
        }
    }
}

/// Bytes with their reservation, which lasts as long as anybody has a part of them.
#[derive(Debug)]
pub struct Reserved {
    pub bytes: Vec<u8>,
    pub reservation: Reservation,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
