//! How a template holds what it has in memory, so that kernels copy little of it.
//!
//! A kernel copies each page that it writes to, and to take a piece of memory from between others
//! is to write to all of these. So free pieces are taken before, and what kernels take is new.
//!
//! A fork copies the page tables of what was written, some 15,000 entries for pandas and its kin,
//! and counts each page. Half of them can be in huge pages, so that a fork takes a third less time.
//! A page that a kernel writes to is still copied alone. madvise(2), MADV_COLLAPSE: Linux 6.1, and
//! synchronous; where there is none everything else is as it is.

use std::fs;
use std::hint::black_box;

use vivarium_protocol::discard;

use crate::sys;

const HUGE_BYTES: usize = 2 << 20;

/// The largest piece that comes from the heap and not from a mapping of its own (mallopt(3),
/// M_MMAP_THRESHOLD).
const LARGEST_BYTES: usize = 120 << 10;

/// Up to here there are pieces of every multiple of [`UNIT_BYTES`].
const SMALL_BYTES: usize = 1024;
const UNIT_BYTES: usize = 16;

/// No more than so many pieces of a size are taken, whatever the allocator does.
const MOST_PIECES: usize = 1 << 20;

/// Takes all free memory that lies between other memory in the heap, for good.
pub(crate) fn fill_gaps() {
    let end = sys::end_of_heap();
    let large = std::iter::successors(Some(LARGEST_BYTES), |bytes| Some(bytes / 8 * 7));
    let large = large.take_while(|bytes| *bytes > SMALL_BYTES);
    let small = (1..=SMALL_BYTES / UNIT_BYTES).rev().map(|units| units * UNIT_BYTES);
    for bytes in large.chain(small) {
        let pieces = std::iter::repeat_with(|| black_box(Vec::<u8>::with_capacity(bytes)));
        // The first that is new goes back, and says that there is none of this size in between.
        let gaps = pieces.take_while(|piece| piece.as_ptr().addr() < end);
        gaps.take(MOST_PIECES).for_each(std::mem::forget);
    }
}

/// Python takes up to 512 bytes from pools of 16 KiB (4 before 3.10) with blocks of one size, a multiple of 16, after a
/// header: Include/internal/pycore_obmalloc.h.
const POOL_BYTES: usize = 16 << 10;
const POOL_HEADER_BYTES: usize = 48;
const POOLED_BYTES: usize = 512;

const SMALL_POOL_BYTES: usize = 4 << 10;

/// No more is taken of a size, should this be another allocator, as that of a debug build.
const MOST_POOLED_BYTES: usize = 2 << 20;

/// Takes blocks that are free in pools with others, for good. `allocate` returns an address, or 0.
pub(crate) fn fill_pools(allocate: impl Fn(usize) -> usize, free: impl Fn(usize)) {
    for bytes in (1..=POOLED_BYTES / UNIT_BYTES).rev().map(|units| units * UNIT_BYTES) {
        // A pool that was empty gives its blocks in the order in which they lie, from the first on.
        let whole = (SMALL_POOL_BYTES - POOL_HEADER_BYTES) / bytes;
        let mut row = Vec::with_capacity(whole);
        for _ in 0..MOST_POOLED_BYTES / bytes {
            let block = allocate(bytes);
            if row.last().is_none_or(|last| last + bytes != block) {
                row.clear();
            }
            if !row.is_empty() || block % POOL_BYTES == POOL_HEADER_BYTES {
                row.push(block);
            }
            if row.len() == whole || block == 0 {
                break;
            }
        }
        // The last is the first that the allocator gives again.
        row.into_iter().rev().for_each(&free);
    }
}

/// Makes huge pages of the memory that is anonymous, private and writable, as far as it is aligned.
pub(super) fn collapse() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    for (from, to) in maps.lines().filter_map(anonymous) {
        let first = from.next_multiple_of(HUGE_BYTES);
        for page in (first..to).step_by(HUGE_BYTES).filter(|page| to - page >= HUGE_BYTES) {
            // It fails for a page that is not wholly there, for example.
            discard(sys::collapse(page, HUGE_BYTES), "it is about speed only");
        }
    }
}

/// The range of a mapping, if it is anonymous, private and writable: proc_pid_maps(5).
fn anonymous(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_whitespace();
    let (range, rights) = (fields.next()?, fields.next()?);
    let name = fields.nth(3).unwrap_or("[heap]");
    if !rights.starts_with("rw") || !rights.ends_with('p') || name != "[heap]" {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn all_that_is_free_in_pools_with_others_is_taken() {
        // Blocks of one size. In two pools every second block is free, and in a new one all are.
        const BYTES: usize = 48;
        let in_pool = |pool: usize| {
            (pool * POOL_BYTES + POOL_HEADER_BYTES..(pool + 1) * POOL_BYTES - BYTES).step_by(BYTES)
        };
        let old: Vec<usize> =
            [2, 4].into_iter().flat_map(|pool| in_pool(pool).step_by(2)).collect();
        let new: Vec<usize> = in_pool(5).collect();
        let given: Vec<usize> = old.iter().chain(&new).rev().copied().collect();
        let free = RefCell::new(given);
        let allocate = |bytes| match bytes {
            BYTES => free.borrow_mut().pop().unwrap_or(0),
            _ => 0,
        };

        fill_pools(allocate, |block| free.borrow_mut().push(block));

        let left: Vec<usize> = free.take().into_iter().rev().collect();
        assert_eq!(left, new);
    }

    #[test]
    fn no_more_than_a_bound_is_taken_of_an_allocator_that_has_no_pools() {
        fill_pools(|_| 0, |block| panic!("{block} was never given"));
        let taken = Cell::new(0);
        let address = |bytes| {
            taken.set(taken.get() + bytes);
            taken.get() * POOL_BYTES
        };
        fill_pools(address, |_| ());
        assert!(taken.get() <= MOST_POOLED_BYTES * 32, "{}", taken.get());
    }

    #[test]
    fn the_heap_and_what_has_no_name_are_anonymous() {
        for line in [
            "7f00-7fff rw-p 00000000 00:00 0",
            "7f00-7fff rw-p 00000000 00:00 0                          [heap]",
        ] {
            assert_eq!(anonymous(line), Some((0x7f00, 0x7fff)), "{line}");
        }
        for line in [
            "7f00-7fff r--p 00000000 00:00 0",
            "7f00-7fff rw-s 00000000 00:00 0",
            "7f00-7fff rw-p 00000000 08:01 12 /usr/lib/libc.so.6",
            "7f00-7fff rw-p 00000000 00:00 0                          [stack]",
        ] {
            assert_eq!(anonymous(line), None, "{line}");
        }
    }
}
