//! The events that the leaves of the session's cgroup count: added to the metrics as they happen, and kept for
//! the outcome of the execution they happened to.

use std::sync::Arc;

use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};

use super::Actor;
use crate::cgroup::{CgroupEventCounts, Events, Meter, OomAttribution, OomOrigin, Scope};
use crate::session::cause::Evidence;

/// What is counted and measured of a leaf; nothing without one.
#[derive(Debug, Default)]
pub(in crate::session) struct Accounting {
    pub(super) counter: CgroupEventCounter,
    pub(super) meter: Arc<Meter>,
    pub(super) oom: OomAttribution,
}

impl Accounting {
    /// From now on. Has to be called where tokio runs.
    pub(in crate::session) fn of(scope: &Scope, leaf: Leaf) -> Self {
        let counter = CgroupEventCounter::of(scope.events(leaf));
        Self { counter, meter: Arc::new(scope.meter(leaf)), oom: scope.oom_attribution() }
    }

    /// Goes on where the leaf before ended, with what is counted of all leaves together.
    pub(super) fn follow(&mut self, before: &Self) {
        self.counter.counted.forks_refused = before.counter.counted.forks_refused;
        self.counter.answered.forks_refused = before.counter.answered.forks_refused;
    }
}

/// The counts, and how far the metrics and the outcomes have them. No event is reported twice.
#[derive(Debug, Default)]
pub(in crate::session) struct CgroupEventCounter {
    events: Events,
    /// What the metrics have.
    counted: CgroupEventCounts,
    /// What outcomes have.
    answered: CgroupEventCounts,
}

impl CgroupEventCounter {
    /// From now on: what happened before is told already, of whomever it was.
    fn of(events: Events) -> Self {
        let counted = events.read(CgroupEventCounts::default());
        Self { events, counted, answered: counted }
    }

    /// Waits for the kernel to count something. May be dropped without missing it.
    pub(super) async fn changed(&self) {
        self.events.changed().await;
    }

    /// What was counted since this was last asked, and whether any of that is the first of its
    /// kind since the last answer.
    pub(super) fn count(&mut self) -> (CgroupEventCounts, bool) {
        let now = self.events.read(self.counted);
        let before = std::mem::replace(&mut self.counted, now);
        let (new, reported) = (now.since(before), before.since(self.answered));
        let is_first = (new.oom_kills > 0 && reported.oom_kills == 0)
            || (new.forks_refused > 0 && reported.forks_refused == 0);
        (new, is_first)
    }

    /// All that has been counted.
    pub(super) const fn counted(&self) -> CgroupEventCounts {
        self.counted
    }

    /// What has been counted since the last answer, for this one.
    fn take(&mut self) -> CgroupEventCounts {
        let before = std::mem::replace(&mut self.answered, self.counted);
        self.counted.since(before)
    }

    /// The same of the forks alone: processes that were killed are for the answer that tells of
    /// the kernel's end.
    fn take_refusals(&mut self) -> u64 {
        let reported = CgroupEventCounts { oom_kills: self.answered.oom_kills, ..self.counted };
        let before = std::mem::replace(&mut self.answered, reported);
        reported.since(before).forks_refused
    }
}

impl Actor {
    /// Tells the metrics what was counted against a context's leaf since this was last asked.
    pub(super) fn count(&mut self, number: ContextNumber) {
        let Some(context) = self.contexts.get_mut(number) else { return };
        let (new, is_first) = context.accounting.counter.count();
        let CgroupEventCounts { oom_kills, forks_refused } = new;
        // Forks are counted for all contexts together.
        let forks_to_tell = if number == FIRST_CONTEXT { forks_refused } else { 0 };
        self.launch.observer.limits_reached(oom_kills, forks_to_tell);
        // The rest is in the answer: code can have thousands of forks refused in a second.
        if is_first {
            let (session, context_id) = (&self.session.identity.id, &*context.name);
            let execution = context.running.as_ref().map(|running| running.number);
            tracing::info!(
                session,
                context = context_id,
                execution,
                oom_kills,
                forks_refused,
                "limits were reached"
            );
        }
    }

    /// Forks refused since the last answer. The kernel may not have told of all of them yet.
    pub(super) fn refusals(&mut self, number: ContextNumber) -> u64 {
        self.count(number);
        let context = self.contexts.get_mut(number);
        context.map_or(0, |context| context.accounting.counter.take_refusals())
    }

    /// What the leaf of the first context has counted since then, for one of several executions that
    /// run there at the same time.
    pub(super) fn evidence_since(
        &mut self,
        before: CgroupEventCounts,
        oom: &mut OomAttribution,
    ) -> Evidence {
        self.count(FIRST_CONTEXT);
        let counts = self.contexts.first().accounting.counter.counted().since(before);
        self.evidence(counts, oom)
    }

    /// What the leaf of a command has counted, which is that command's alone.
    pub(super) fn evidence_of_leaf(&mut self, accounting: &mut Accounting) -> Evidence {
        let (counts, _) = accounting.counter.count();
        // What forks were refused is known of all leaves together, and told by the first's.
        self.launch.observer.limits_reached(counts.oom_kills, 0);
        self.evidence(counts, &mut accounting.oom)
    }

    /// What has been counted since the last answer, all of it.
    pub(super) fn gather(&mut self, number: ContextNumber) -> Evidence {
        self.count(number);
        let Some(context) = self.contexts.get_mut(number) else { return Evidence::default() };
        let counts = context.accounting.counter.take();
        let mut oom = std::mem::take(&mut context.accounting.oom);
        let evidence = self.evidence(counts, &mut oom);
        if let Some(context) = self.contexts.get_mut(number) {
            context.accounting.oom = oom;
        }
        evidence
    }

    fn evidence(&self, counts: CgroupEventCounts, oom: &mut OomAttribution) -> Evidence {
        let peak = self.session.scope.get().and_then(|scope| scope.memory_peak_bytes());
        let oom_origin = if counts.oom_kills > 0 { oom.origin() } else { OomOrigin::default() };
        Evidence::of(counts, peak, oom_origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Leaf(tempfile::TempDir, CgroupEventCounter);

    impl Leaf {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut leaf = Self(dir, CgroupEventCounter::default());
            leaf.put(0, 0);
            leaf.1 = CgroupEventCounter::of(Events::open(leaf.0.path(), leaf.0.path()));
            leaf
        }

        fn put(&mut self, oom_kills: u64, forks_refused: u64) {
            let file = |name: &str| self.0.path().join(name);
            fs::write(file("memory.events"), format!("oom 0\noom_kill {oom_kills}\n")).unwrap();
            fs::write(file("pids.events"), format!("max {forks_refused}\n")).unwrap();
        }

        fn count(&mut self, oom_kills: u64, forks_refused: u64) -> (CgroupEventCounts, bool) {
            self.put(oom_kills, forks_refused);
            self.1.count()
        }
    }

    fn counts(oom_kills: u64, forks_refused: u64) -> CgroupEventCounts {
        CgroupEventCounts { oom_kills, forks_refused }
    }

    #[tokio::test]
    async fn each_event_is_in_the_metrics_once_and_in_one_outcome() {
        let mut leaf = Leaf::new();
        assert_eq!(leaf.count(0, 0), (counts(0, 0), false));
        assert_eq!(leaf.count(0, 5), (counts(0, 5), true));
        assert_eq!(leaf.count(0, 7), (counts(0, 2), false), "the second of its kind");
        assert_eq!(leaf.1.take_refusals(), 7);
        assert_eq!(leaf.1.take_refusals(), 0);
        assert_eq!(leaf.count(0, 8), (counts(0, 1), true), "the first after an answer");
        assert_eq!(leaf.count(2, 8), (counts(2, 0), true), "the first of another kind");
        assert_eq!(leaf.1.take_refusals(), 1);
        assert_eq!(leaf.1.take(), counts(2, 0), "kept for the kernel's end");
        assert_eq!(leaf.1.take(), counts(0, 0));
    }

    #[tokio::test]
    async fn counts_survive_the_removal_of_the_scope() {
        let mut leaf = Leaf::new();
        leaf.count(1, 3);
        let path = leaf.0.path().join("pids.events");
        fs::write(path, "").unwrap();
        assert_eq!(leaf.1.count(), (counts(0, 0), false));
        assert_eq!(leaf.1.take(), counts(1, 3));
    }
}
