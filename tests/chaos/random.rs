//! Numbers that look random and follow from a seed: SplitMix64 (Steele, Lea and Flood, 2014).

use std::time::Duration;

/// A generator.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// One of this seed, and of this number among those of one run.
    pub(crate) const fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// One of these; `None` if there are none.
    pub(crate) fn one<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.below(all.len())) }
    }

    /// A time up to this.
    pub(crate) fn millis(&mut self, most: usize) -> Duration {
        Duration::from_millis(u64::try_from(self.below(most + 1)).unwrap())
    }
}
