//! What the sessions of a tenant have together: its name, and a rate of bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use vivarium_egress::{Bucket, Rate, Wait};

/// The shortest pause for bytes: who waits would otherwise wake for each single one.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    rate: Bucket,
    /// Connections that wait for bytes.
    waiting: AtomicUsize,
}

/// Counted for as long as it is there.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tenant {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), rate: Bucket::default(), waiting: AtomicUsize::new(0) }
    }

    /// Holds this rate from now on, also for open connections. What was used stays used.
    pub(crate) fn set(&self, rate: Option<Rate>) {
        self.rate.set(rate);
    }

    /// Whether nothing is left, or open connections want more than there is.
    pub(crate) fn is_used_up(&self) -> bool {
        let Wait(next) = self.rate.wait_for(1);
        !next.is_zero() || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes so many bytes, for which it waits; says each time that it does.
    pub(crate) async fn take(&self, bytes: u64, waits: impl Fn()) {
        let mut missing = bytes;
        let mut waiting = None;
        while missing > 0 {
            match self.rate.take_some(missing) {
                Ok(taken) => missing = missing.saturating_sub(taken),
                Err(Wait(time)) => {
                    waiting.get_or_insert_with(|| {
                        self.waiting.fetch_add(1, Ordering::Relaxed);
                        Waiting(&self.waiting)
                    });
                    waits();
                    sleep(time.max(PAUSE)).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_connections_never_have_one_byte_more_than_the_rate() {
        let tenant = Arc::new(Tenant::new("team"));
        tenant.set(Some(Rate { count: 10_000, per: Duration::from_secs(1) }));
        let (start, taken) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let take = |bytes| {
            let (tenant, taken) = (tenant.clone(), taken.clone());
            tokio::spawn(async move {
                tenant.take(bytes, || {}).await;
                let all = taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
                let most = 10_000 + start.elapsed().as_millis() * 10;
                assert!(u128::from(all) <= most, "{all} of {most}");
            })
        };
        let all: Vec<_> = (0..1000).map(|_| take(12)).collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(tenant.is_used_up());
        for one in all {
            one.await.unwrap();
        }
        let took = start.elapsed();
        assert!(
            took >= Duration::from_millis(200) && took < Duration::from_millis(300),
            "{took:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!tenant.is_used_up());
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_is_not_waited_for() {
        let tenant = Tenant::new("team");
        tenant.set(Some(Rate { count: 10, per: Duration::from_secs(1) }));
        let taken = tokio::time::timeout(Duration::from_millis(50), tenant.take(100, || {})).await;
        assert!(taken.is_err() && tenant.is_used_up());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!tenant.is_used_up());
        tenant.set(None);
        tenant.take(u64::MAX, || {}).await;
    }
}
