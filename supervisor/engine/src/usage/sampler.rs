//! CPU time and memory of tenants, from their cgroups.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Instant;

use super::{Figures, Sources};
use crate::cgroup::{TenantMeter, Tree};

/// What the cgroups said last time.
#[derive(Debug)]
pub(super) struct Sampler {
    /// `None` on a host without the cgroup layer.
    tree: Option<Weak<Tree>>,
    last: Option<Instant>,
    cpu_us: BTreeMap<String, u64>,
    /// Whether a first look has been taken: what was used before that is not ours to count.
    has_begun: bool,
}

impl Sampler {
    pub(super) fn new(tree: Option<Weak<Tree>>) -> Self {
        Self { tree, last: None, cpu_us: BTreeMap::new(), has_begun: false }
    }

    /// What each tenant has used since the last time.
    pub(super) fn sample(&mut self, now: Instant) -> BTreeMap<String, Figures> {
        let Some(tree) = self.tree.as_ref().and_then(Weak::upgrade) else { return BTreeMap::new() };
        let meters = tree.meters();
        drop(tree);
        self.since(meters, now)
    }

    fn since(&mut self, meters: Vec<TenantMeter>, now: Instant) -> BTreeMap<String, Figures> {
        let passed = self.last.replace(now).map(|last| now.saturating_duration_since(last));
        let passed_ms = passed.map_or(0, |passed| u64::try_from(passed.as_millis()).unwrap_or(0));
        let mut used = BTreeMap::new();
        for TenantMeter { tenant, cpu_us, memory_bytes } in meters {
            let mut figures = Figures::default();
            if let Some(now_us) = cpu_us {
                let before = self.cpu_us.insert(tenant.clone(), now_us);
                let before = before.unwrap_or(if self.has_begun { 0 } else { now_us });
                // A counter that has fallen is that of a directory that was made anew.
                figures.cpu_us = now_us.checked_sub(before).unwrap_or(now_us);
                figures.cpu_from = Sources::CGROUP;
            }
            if let Some(bytes) = memory_bytes {
                figures.memory_byte_ms = bytes.saturating_mul(passed_ms);
                figures.memory_from = Sources::CGROUP;
            }
            used.insert(tenant, figures);
        }
        self.has_begun = true;
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn meter(tenant: &str, cpu_us: u64, memory_bytes: u64) -> TenantMeter {
        TenantMeter {
            tenant: tenant.to_owned(),
            cpu_us: Some(cpu_us),
            memory_bytes: Some(memory_bytes),
        }
    }

    #[test]
    fn what_was_used_between_two_looks_is_counted_once() {
        let mut sampler = Sampler::new(None);
        let start = Instant::now();
        let first = sampler.since(vec![meter("old", 700, 10)], start);
        assert_eq!((first["old"].cpu_us, first["old"].memory_byte_ms), (0, 0));
        let later = start + Duration::from_secs(2);
        let second = sampler.since(vec![meter("old", 1000, 10), meter("new", 50, 3)], later);
        assert_eq!((second["old"].cpu_us, second["old"].memory_byte_ms), (300, 20_000));
        assert_eq!((second["new"].cpu_us, second["new"].memory_byte_ms), (50, 6_000));
        let again = sampler.since(vec![meter("old", 40, 0)], later + Duration::from_secs(1));
        assert_eq!(again["old"].cpu_us, 40, "made anew");
    }

    #[test]
    fn nothing_is_said_to_be_of_a_cgroup_that_says_nothing() {
        let mut sampler = Sampler::new(None);
        let meter = TenantMeter { tenant: "a".to_owned(), cpu_us: None, memory_bytes: None };
        let used = sampler.since(vec![meter], Instant::now());
        assert_eq!(used["a"], Figures::default());
    }
}
