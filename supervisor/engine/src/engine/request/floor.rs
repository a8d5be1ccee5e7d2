//! The least that a session needs to start: with less no kernel gets as far as a tenant's first line,
//! which would look like a fault of the host.

use vivarium_protocol::policy::Limits;
use vivarium_protocol::units::Limit;

/// MiB: Python's own code and heap. Without a memory controller it is address space, of which an
/// executed Python takes 16.
pub(super) const MIN_MEMORY_MB: u64 = 32;

/// A kernel or command inherits the agent's descriptors until it is confined: some 30, and more with
/// each operation on files that is under way.
const MIN_OPEN_FDS: u64 = 64;

/// The directories of a session take a part of them.
const MIN_INODES: u64 = 16;

/// The first limit that is too low for any session, and what to say of it.
pub fn too_low(limits: &Limits) -> Option<(&'static str, String)> {
    let floors: [(&'static str, Limit, u64); 3] = [
        ("max_memory_mb", limits.max_memory_mb, MIN_MEMORY_MB),
        ("max_open_fds", limits.max_open_fds, MIN_OPEN_FDS),
        ("max_inodes", limits.max_inodes, MIN_INODES),
    ];
    let is_low = |limit: Limit, least: u64| limit.get().is_some_and(|limit| limit < least);
    let (name, limit, least) =
        floors.into_iter().find(|(_, limit, least)| is_low(*limit, *least))?;
    Some((name, format!("{limit} is too low: a session needs at least {least} to start")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::settings;

    type Set = fn(&mut Limits, Limit);

    #[test]
    fn the_least_that_works_passes_and_one_less_is_named() {
        let own = settings().sandbox.limits;
        assert_eq!(too_low(&own), None);
        let with = |set: Set, value| {
            let mut limits = own.clone();
            set(&mut limits, Limit::new(value).unwrap());
            too_low(&limits).map(|(name, _)| name)
        };
        let cases: [(&str, u64, Set); 3] = [
            ("max_memory_mb", MIN_MEMORY_MB, |limits, value| limits.max_memory_mb = value),
            ("max_open_fds", MIN_OPEN_FDS, |limits, value| limits.max_open_fds = value),
            ("max_inodes", MIN_INODES, |limits, value| limits.max_inodes = value),
        ];
        for (name, least, set) in cases {
            assert_eq!(with(set, least), None);
            assert_eq!(with(set, least - 1), Some(name));
        }
    }
}
