//! One tenant's pool in one environment.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;

use tokio::time::Instant;
use vivarium_protocol::message::Failure;
use vivarium_protocol::policy::Policy;

use super::{PoolSpec, Watermarks};
use crate::backoff::Backoff;
use crate::session::{LaunchPlan, PooledSession};
use crate::template::{State as TemplateState, Template};

#[derive(Debug)]
pub(super) struct Pool {
    spec: PoolSpec,
    /// The oldest first.
    ready: VecDeque<PooledSession>,
    /// Which spec this is: one that was started for another does not belong here.
    pub(super) generation: u64,
    /// How often the interpreter had been replaced when this spec was begun.
    replaced: u64,
    /// Whether it is kept when nobody uses it.
    pub(super) permanent: bool,
    /// When it was last used.
    pub(super) used: Instant,
    /// Whether there were too few, and are not enough yet.
    refilling: bool,
    backoff: Backoff,
    /// Why the last start failed, if it did.
    failure: Option<Failure>,
    /// When its turn was last, among all pools.
    pub(super) turn: u64,
}

impl Pool {
    pub(super) fn new(spec: PoolSpec, permanent: bool, generation: u64) -> Self {
        Self {
            replaced: spec.plan.context.template.replaced(),
            spec,
            ready: VecDeque::new(),
            generation,
            permanent,
            used: Instant::now(),
            refilling: false,
            backoff: Backoff::default(),
            failure: None,
            turn: 0,
        }
    }

    /// Is to hold this from now on. What does not belong there any more is given back.
    pub(super) fn update(
        &mut self,
        spec: PoolSpec,
        permanent: bool,
        generation: u64,
    ) -> VecDeque<PooledSession> {
        self.permanent = permanent;
        let is_same =
            self.spec.plan.policy == spec.plan.policy && self.spec.environment == spec.environment;
        self.spec = spec;
        if is_same {
            return self.ready.split_off(self.watermarks().high.min(self.ready.len()));
        }
        self.generation = generation;
        self.backoff = Backoff::default();
        std::mem::take(&mut self.ready)
    }

    /// Begins anew if the interpreter is another by now: what is of the one that was before is moved
    /// to `dead`, and what is starting with it belongs to no generation any more.
    pub(super) fn check_interpreter(
        &mut self,
        generation: &mut u64,
        dead: &mut Vec<PooledSession>,
    ) {
        let replaced = self.spec.plan.context.template.replaced();
        if std::mem::replace(&mut self.replaced, replaced) != replaced {
            *generation += 1;
            self.generation = *generation;
            self.refilling = true;
            dead.extend(self.ready.drain(..));
        }
    }

    pub(super) fn plan(&self) -> LaunchPlan {
        self.spec.plan.clone()
    }

    /// Its template, while that is being built: what starts now would be without.
    pub(super) fn awaited_template(&self) -> Option<Arc<Template>> {
        let template = &self.spec.plan.context.template;
        matches!(template.state(), TemplateState::Building).then(|| Arc::clone(template))
    }

    pub(super) const fn watermarks(&self) -> Watermarks {
        self.spec.watermarks
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_low(&self) -> bool {
        self.ready.len() < self.watermarks().low
    }

    /// One is ready. Whether others were not before it.
    pub(super) fn push(&mut self, pooled: PooledSession) -> bool {
        self.ready.push_back(pooled);
        self.backoff.succeeded();
        self.failure.take().is_some()
    }

    /// One did not start. Whether that is news.
    pub(super) fn failed(&mut self, now: Instant, failure: &Failure) -> bool {
        self.backoff.failed(now);
        self.failure.replace(failure.clone()).as_ref() != Some(failure)
    }

    /// Until when nothing is started, since that would fail again.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.backoff.until(now)
    }

    pub(super) fn into_ready(self) -> VecDeque<PooledSession> {
        self.ready
    }

    /// One for this policy. Those that turn out to be of no use go to `dead`.
    pub(super) fn checkout(
        &mut self,
        policy: &Policy,
        dead: &mut Vec<PooledSession>,
    ) -> Option<PooledSession> {
        self.used = Instant::now();
        if self.spec.plan.policy != *policy {
            return None;
        }
        while let Some(mut pooled) = self.ready.pop_front() {
            if pooled.is_alive() {
                return Some(pooled);
            }
            self.lose(dead, pooled);
        }
        None
    }

    /// Gives up one, the oldest, for want of memory. When there is some again, as many as there
    /// are to be are started.
    pub(super) fn give_up(&mut self) -> Option<PooledSession> {
        self.refilling = true;
        self.ready.pop_front()
    }

    /// Moves those that are of no use any more to `dead`: how many these were.
    pub(super) fn poll_lost(
        &mut self,
        cx: &mut Context<'_>,
        dead: &mut Vec<PooledSession>,
    ) -> usize {
        let before = self.ready.len();
        let mut index = 0;
        while let Some(pooled) = self.ready.get_mut(index) {
            if pooled.poll_lost(cx).is_pending() {
                index += 1;
            } else if let Some(pooled) = self.ready.remove(index) {
                self.lose(dead, pooled);
            }
        }
        before - self.ready.len()
    }

    /// One has ended by itself: it is replaced, though not at once if that goes on.
    fn lose(&mut self, dead: &mut Vec<PooledSession>, pooled: PooledSession) {
        self.backoff.failed(Instant::now());
        self.refilling = true;
        dead.push(pooled);
    }

    /// Whether one more is to be started, when so many are starting.
    pub(super) fn wants_more(&mut self, starting: usize) -> bool {
        let there = self.ready.len() + starting;
        let Watermarks { low, high } = self.watermarks();
        self.refilling = there < high && (self.refilling || there < low);
        self.refilling
    }

    /// Which of two that want more comes first, given how many are starting for each: the emptier
    /// one, then the one whose turn is longer ago.
    pub(super) fn order(&self, starting: usize, other: &Self, others: usize) -> Ordering {
        // Fractions are compared without dividing.
        let there = |pool: &Self, starting: usize| pool.ready.len() + starting;
        let own = there(self, starting).saturating_mul(other.watermarks().high);
        let foreign = there(other, others).saturating_mul(self.watermarks().high);
        own.cmp(&foreign).then(self.turn.cmp(&other.turn))
    }
}
