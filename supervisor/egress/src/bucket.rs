//! A rate, held exactly.
//!
//! A token bucket in whole numbers: no token is lost to rounding and none is made by it, however
//! short the time between two requests (the generic cell rate algorithm of ITU-T I.371, annex A,
//! with the bucket's level in place of a time). Time is the monotonic clock's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// So many at once, which come back evenly in this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// 1 or more.
    pub count: u64,
    /// A millisecond or more.
    pub per: Duration,
}

/// How long until what was asked for may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Duration);

/// At most `count` at once, and `count` in each `per` in the long run. Without a rate it grants
/// everything.
#[derive(Debug)]
pub struct Bucket(Mutex<State>);

#[derive(Debug)]
struct State {
    rate: Option<Rate>,
    /// What is taken out, each token as [`cost`]: the bucket is empty at [`capacity`]. A nanosecond
    /// puts [`Rate::count`] of this back.
    taken: u128,
    at: Instant,
}

/// Of one token.
const fn cost(rate: Rate) -> u128 {
    rate.per.as_nanos()
}

const fn capacity(rate: Rate) -> u128 {
    cost(rate).saturating_mul(rate.count as u128)
}

impl Default for Bucket {
    fn default() -> Self {
        Self(Mutex::new(State { rate: None, taken: 0, at: Instant::now() }))
    }
}

impl Bucket {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many tokens, or none. More than the rate's count are never there at once.
    ///
    /// # Errors
    /// How long it takes until they are there, if nobody takes any meanwhile.
    pub fn take(&self, count: u64) -> Result<(), Wait> {
        self.lock().take(count)
    }

    /// Takes as many tokens as there are, at least one and at most so many.
    ///
    /// # Errors
    /// How long it takes until there is one.
    pub fn take_some(&self, most: u64) -> Result<u64, Wait> {
        let mut state = self.lock();
        let count = state.available().clamp(1, most.max(1));
        state.take(count).map(|()| count)
    }

    /// How long it takes to have had so many tokens, if nobody else takes any. None is taken.
    #[must_use]
    pub fn wait_for(&self, count: u64) -> Wait {
        self.lock().after(count).err().unwrap_or(Wait(Duration::ZERO))
    }

    /// Takes a token that goes back unless it is used.
    ///
    /// # Errors
    /// As of [`Self::take`].
    pub fn reserve(self: &Arc<Self>) -> Result<Grant, Wait> {
        self.take(1).map(|()| Grant(Some(Arc::clone(self))))
    }

    fn give_back(&self) {
        let mut state = self.lock();
        if let Some(rate) = state.rate {
            state.taken = state.taken.saturating_sub(cost(rate));
        }
    }

    /// Holds another rate from now on. What was taken stays taken.
    pub fn set(&self, rate: Option<Rate>) {
        let mut state = self.lock();
        if state.rate == rate {
            return;
        }
        state.refill();
        let tokens = state.rate.map_or(0, |old| state.taken.div_ceil(cost(old)));
        state.taken =
            rate.map_or(0, |new| tokens.min(u128::from(new.count)).saturating_mul(cost(new)));
        state.rate = rate;
    }
}

impl State {
    fn refill(&mut self) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        let back = elapsed.saturating_mul(u128::from(rate.count));
        (self.taken, self.at) = (self.taken.saturating_sub(back), self.at.max(now));
    }

    fn available(&mut self) -> u64 {
        self.refill();
        let Some(rate) = self.rate else { return u64::MAX };
        let left = capacity(rate).saturating_sub(self.taken) / cost(rate);
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn take(&mut self, count: u64) -> Result<(), Wait> {
        self.taken = self.after(count)?;
        Ok(())
    }

    /// What would be taken after so many tokens more.
    fn after(&mut self, count: u64) -> Result<u128, Wait> {
        let Some(rate) = self.rate else { return Ok(0) };
        self.refill();
        let taken = cost(rate).saturating_mul(u128::from(count)).saturating_add(self.taken);
        let missing = taken.saturating_sub(capacity(rate));
        if missing == 0 {
            return Ok(taken);
        }
        let nanos = missing.div_ceil(u128::from(rate.count));
        Err(Wait(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))))
    }
}

/// A token. Dropped without being used, it goes back.
#[derive(Debug)]
pub struct Grant(Option<Arc<Bucket>>);

impl Grant {
    /// What it was taken for has happened.
    pub fn used(mut self) {
        self.0 = None;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(bucket) = self.0.take() {
            bucket.give_back();
        }
    }
}

#[cfg(test)]
mod tests;
