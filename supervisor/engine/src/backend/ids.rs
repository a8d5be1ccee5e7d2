//! Subordinate ids: a pair of host ids for each session, where the host grants some.
//!
//! `subuid(5)` and `subgid(5)` grant ranges; `newuidmap(1)` and `newgidmap(1)` write them into a
//! namespace of the daemon's once ([`super::id_namespace`]), and launchers from there into a session's. An id is used for user and group alike, so only what both files grant counts.
//! Host id 0 and our own id are never given out.

mod claims;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::unistd::{Uid, User};
use vivarium_protocol::policy::SubordinateIds;

use self::claims::Claims;

/// How many pairs are claimed from other daemons of the same user at one time.
const BLOCK_PAIRS: u32 = 64;

/// How many pairs are tried for one to reserve.
const TRIED: usize = 4096;

/// The ids granted to us, and which of them are in use.
#[derive(Debug)]
pub struct IdPool {
    ranges: Vec<(u32, u32)>,
    /// The user namespace that holds them, once it is made.
    namespace: OnceLock<OwnedFd>,
    /// Other daemons, and one-shot runs, of the same user are granted the same ranges.
    claims: Claims,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pairs that are claimed and not in use.
    free: Vec<SubordinateIds>,
    /// Pairs that are never leased.
    reserved: Vec<SubordinateIds>,
    /// The blocks that are claimed, for as long as we live.
    claimed: BTreeSet<u32>,
}

/// A pair of ids, in use until this is dropped: after the session's last process is gone.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<IdPool>,
    ids: SubordinateIds,
}

impl Lease {
    pub const fn ids(&self) -> SubordinateIds {
        self.ids
    }

    /// Keeps them in use for as long as this daemon lives.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.state.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.ids);
    }
}

impl IdPool {
    /// What this host grants to the user we are; `None` if nothing that we could use.
    pub fn of_this_host() -> Option<Arc<Self>> {
        let have = |program: &str| Path::new("/usr/bin").join(program).exists();
        if !have("newuidmap") || !have("newgidmap") {
            return None;
        }
        let uid = Uid::effective();
        let name = User::from_uid(uid).ok().flatten().map(|user| user.name).unwrap_or_default();
        let granted =
            |path: &str| parse(&fs::read_to_string(path).unwrap_or_default(), &name, uid.as_raw());
        let ranges = intersect(&granted("/etc/subuid"), &granted("/etc/subgid"));
        let usable = usable(ranges, uid.as_raw())?;
        match Claims::new() {
            Ok(claims) => Some(Arc::new(Self::new(usable, claims))),
            Err(error) => {
                tracing::warn!(%error, "no subordinate ids: those that others use can not be seen");
                None
            }
        }
    }

    fn new(ranges: Vec<(u32, u32)>, claims: Claims) -> Self {
        Self { ranges, namespace: OnceLock::new(), claims, state: Mutex::default() }
    }

    /// One of ids that nothing else here uses.
    #[cfg(test)]
    pub(crate) fn of_one_pair(first: u32) -> std::io::Result<Self> {
        Ok(Self::new(vec![(first, first.saturating_add(1))], Claims::new()?))
    }

    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// How many pairs are granted.
    pub fn pairs(&self) -> u32 {
        let pairs = |&(first, last): &(u32, u32)| last.saturating_sub(first).saturating_add(1) / 2;
        self.ranges.iter().map(pairs).fold(0, u32::saturating_add)
    }

    pub fn are_in(&self, namespace: OwnedFd) {
        // There is one at most: it is made as the daemon starts.
        self.namespace.get_or_init(|| namespace);
    }

    /// Another descriptor of that namespace, for a process that is to enter it; `None` if there
    /// is none.
    pub fn namespace(&self) -> io::Result<Option<OwnedFd>> {
        self.namespace.get().map(OwnedFd::try_clone).transpose()
    }

    /// A pair that nobody else has; `None` if all are in use.
    #[must_use]
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free.is_empty()
            && let Err(error) = self.claim(&mut state)
        {
            tracing::error!(%error, "claim subordinate ids");
        }
        state.free.pop().map(|ids| Lease { pool: Arc::clone(self), ids })
    }

    /// Takes a pair for as long as the daemon lives, and leases it to nobody: `known`, if it is ours to
    /// take, or else one that nobody has.
    #[must_use]
    pub fn reserve(&self, known: Option<SubordinateIds>) -> Option<SubordinateIds> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count: u32 = self.ranges.iter().map(|(first, last)| (last - first).div_ceil(2)).sum();
        // From the other end than sessions', whose blocks others are then free to claim.
        let mut pairs = (0..count).rev().filter_map(|number| Some((number, self.pair(number)?)));
        let taken = match known {
            Some(known) => pairs
                .find(|(_, pair)| *pair == known)
                .filter(|(number, pair)| self.take(&mut state, *number, *pair)),
            None => pairs.take(TRIED).find(|(number, pair)| self.take(&mut state, *number, *pair)),
        };
        let taken = taken.map(|(_, pair)| pair);
        state.reserved.extend(taken);
        taken
    }

    fn take(&self, state: &mut State, number: u32, pair: SubordinateIds) -> bool {
        if state.reserved.contains(&pair) {
            return false;
        }
        if state.claimed.contains(&(number / BLOCK_PAIRS)) {
            let free = state.free.iter().position(|free| *free == pair);
            return free.map(|index| state.free.swap_remove(index)).is_some();
        }
        let claimed = self.claims.claim(&[pair]);
        claimed.unwrap_or_else(|error| {
            tracing::error!(%error, "claim subordinate ids");
            false
        })
    }

    /// Claims a block that nobody else has, if there is one.
    fn claim(&self, state: &mut State) -> io::Result<()> {
        let others = self.claims.of_others()?;
        for block in 0.. {
            let first: u32 = block * BLOCK_PAIRS;
            let last = first + BLOCK_PAIRS;
            // Taken from the end, so the lowest first.
            let pairs: Vec<_> =
                (first..last).rev().filter_map(|number| self.pair(number)).collect();
            if pairs.is_empty() {
                break;
            }
            let pairs: Vec<_> =
                pairs.into_iter().filter(|pair| !state.reserved.contains(pair)).collect();
            if state.claimed.contains(&block) || !claims::are_free(&pairs, &others) {
                continue;
            }
            if self.claims.claim(&pairs)? {
                state.claimed.insert(block);
                state.free = pairs;
                break;
            }
        }
        Ok(())
    }

    fn pair(&self, mut number: u32) -> Option<SubordinateIds> {
        for (first, last) in &self.ranges {
            let pairs = (last - first).div_ceil(2);
            if number < pairs {
                let agent = first + number * 2;
                return Some(SubordinateIds { agent, kernel: agent + 1 });
            }
            number -= pairs;
        }
        None
    }
}

/// What can be used of these ranges; `None` if nothing.
fn usable(ranges: Vec<(u32, u32)>, own: u32) -> Option<Vec<(u32, u32)>> {
    let usable: Vec<_> = ranges
        .into_iter()
        .filter(|(first, last)| !(*first..=*last).contains(&own))
        .map(|(first, last)| (first.max(1), last))
        .filter(|(first, last)| first < last)
        .collect();
    (!usable.is_empty()).then_some(usable)
}

/// The ranges, first and last id, that a file grants to a user by name or number.
fn parse(text: &str, name: &str, uid: u32) -> Vec<(u32, u32)> {
    let uid = uid.to_string();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.trim().split(':');
            let user = fields.next()?;
            let first: u32 = fields.next()?.parse().ok()?;
            let count: u32 = fields.next()?.parse().ok()?;
            let is_ours = user == uid || (!name.is_empty() && user == name);
            (is_ours && count > 0).then_some(())?;
            Some((first, first.checked_add(count - 1)?))
        })
        .collect()
}

/// What is in a range of both.
fn intersect(users: &[(u32, u32)], groups: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let both = |a: &(u32, u32), b: &(u32, u32)| (a.0.max(b.0), a.1.min(b.1));
    let mut shared: Vec<_> = users
        .iter()
        .flat_map(|user| groups.iter().map(move |group| both(user, group)))
        .filter(|(first, last)| first <= last)
        .collect();
    // Lines may overlap; an id in two ranges would be given to two sessions.
    shared.sort_unstable();
    let mut apart: Vec<(u32, u32)> = Vec::new();
    for (first, last) in shared {
        match apart.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => apart.push((first, last)),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_and_by_number() {
        let text =
            "alice:100000:65536\n# no\n1000:200000:10\nbob:1:1\n\nalice:x:1\nalice:4294967295:2";
        assert_eq!(parse(text, "alice", 1000), [(100_000, 165_535), (200_000, 200_009)]);
        assert_eq!(parse(text, "", 7), []);
    }

    #[test]
    fn only_ids_granted_by_both_files_are_used() {
        assert_eq!(intersect(&[(10, 20)], &[(15, 30), (40, 50)]), [(15, 20)]);
        assert_eq!(intersect(&[(10, 20)], &[]), []);
        assert_eq!(intersect(&[(10, 20), (15, 40)], &[(0, 99)]), [(10, 40)]);
    }

    #[test]
    fn pairs_are_distinct_and_come_back() {
        let ranges = usable(vec![(0, 4), (100, 101)], 9).unwrap();
        let pool = Arc::new(IdPool::new(ranges, Claims::new().unwrap()));
        let a = pool.lease().unwrap();
        let b = pool.lease().unwrap();
        let c = pool.lease().unwrap();
        let all: Vec<_> =
            [&a, &b, &c].iter().flat_map(|l| [l.ids().agent, l.ids().kernel]).collect();
        assert_eq!(all, [1, 2, 3, 4, 100, 101]);
        assert!(pool.lease().is_none());
        drop(b);
        assert_eq!(pool.lease().unwrap().ids().agent, 3);
    }

    #[test]
    fn two_daemons_of_one_user_never_have_the_same_ids() {
        // Not in the ranges of other tests, which claim at the same time.
        let pool =
            || Arc::new(IdPool::new(vec![(3_000_000_001, 3_000_000_256)], Claims::new().unwrap()));
        let (one, other) = (pool(), pool());
        let first = one.lease().unwrap();
        assert_eq!(first.ids().agent, 3_000_000_001);
        assert_eq!(other.lease().unwrap().ids().agent, 3_000_000_129);
        assert!(pool().lease().is_none(), "both blocks are claimed");
        drop((one, first));
        assert_eq!(pool().lease().unwrap().ids().agent, 3_000_000_001, "and let go of at the end");
        // One that had found none free finds those that are let go of.
        drop(other);
        assert!(pool().lease().is_some());
    }

    #[test]
    fn reserved_pairs_are_leased_to_nobody() {
        let range = || vec![(3_000_001_001, 3_000_001_008)];
        let pool = Arc::new(IdPool::new(range(), Claims::new().unwrap()));
        let kept = pool.reserve(None).unwrap();
        assert_eq!(kept.agent, 3_000_001_007, "from the other end than sessions'");
        let leases: Vec<_> = (0..3).map(|_| pool.lease().unwrap()).collect();
        assert!(leases.iter().all(|lease| lease.ids() != kept));
        assert!(pool.lease().is_none());
        assert!(pool.reserve(None).is_none(), "all are in use");
        drop(leases);
        // Also of a block that sessions use already.
        let second = pool.reserve(None).unwrap();
        assert_ne!(second, kept);
        assert!(pool.reserve(Some(second)).is_none(), "twice");

        // Another daemon keeps off it, and gets it back by its record when this one is gone.
        let other = Arc::new(IdPool::new(range(), Claims::new().unwrap()));
        assert!(other.reserve(Some(kept)).is_none());
        drop(pool);
        assert_eq!(other.reserve(Some(kept)), Some(kept));
        let foreign = SubordinateIds { agent: 7, kernel: 8 };
        assert!(other.reserve(Some(foreign)).is_none(), "it is not granted");
    }

    #[test]
    fn a_range_with_our_own_id_is_not_used() {
        assert!(usable(vec![(1000, 2000)], 1500).is_none());
        assert!(usable(vec![(5, 5)], 1500).is_none());
    }
}
