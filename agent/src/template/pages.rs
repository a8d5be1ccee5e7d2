//! How a template holds what it has in memory, so that kernels copy little of it.
//!
//! A kernel copies each page that it writes to, and to take a piece of memory from between others
//! is to write to all of these. So free pieces are taken before, and what kernels take is new.
//!
//! A fork copies the page tables of what was written, some 15,000 entries for pandas and its kin,
//! and counts each page. As huge pages they are some thirty, so that the two forks of a birth
//! take a third less time. A page that a kernel writes to is still copied alone. madvise(2),
//! MADV_COLLAPSE: Linux 6.1, and synchronous; where there is none everything else is as it is.

use std::fs;
use std::hint::black_box;

use crate::sys;

/// Of a huge page on the architectures that we run on.
const HUGE_BYTES: usize = 2 << 20;

/// The largest piece that comes from the heap and not from a mapping of its own (mallopt(3),
/// M_MMAP_THRESHOLD).
const LARGEST_BYTES: usize = 120 << 10;

/// Up to this size freed pieces, [`KEPT_ASIDE`] of each, are not free to the allocator but kept for
/// the thread that freed them, and taken first (mallopt(3), glibc's tcache).
const KEPT_ASIDE_BYTES: usize = 1024;

/// See [`KEPT_ASIDE_BYTES`].
const KEPT_ASIDE: usize = 7;

/// No more than so many pieces of a size are taken, whatever the allocator does.
const MOST_PIECES: usize = 1 << 16;

/// Takes all free memory that lies between other memory in the heap, for good.
pub(super) fn fill_gaps() {
    let large = std::iter::successors(Some(LARGEST_BYTES), |bytes| Some(bytes / 8 * 7));
    for bytes in large.take_while(|bytes| *bytes > KEPT_ASIDE_BYTES) {
        (0..MOST_PIECES).find(|_| !take(bytes));
    }
    // Every size that there is of small ones. Those kept aside go first, and come again.
    for bytes in (1..=KEPT_ASIDE_BYTES / 16).rev().map(|units| units * 16) {
        let mut others = 0;
        (0..MOST_PIECES).find(|_| {
            others = if take(bytes) { 0 } else { others + 1 };
            others > KEPT_ASIDE
        });
    }
}

/// Takes a piece of memory for good; whether it was a gap.
fn take(bytes: usize) -> bool {
    let before = sys::gaps_in_heap();
    let piece = black_box(Vec::<u8>::with_capacity(bytes));
    let is_gap = sys::gaps_in_heap() < before;
    if is_gap || bytes <= KEPT_ASIDE_BYTES {
        // Never freed, in the template and in its kernels.
        std::mem::forget(piece);
    }
    is_gap
}

/// Makes huge pages of the memory that is anonymous, private and writable, as far as it is aligned.
/// It is about speed only, so what can not be had is left.
pub(super) fn collapse() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    for (from, to) in maps.lines().filter_map(anonymous) {
        let first = from.next_multiple_of(HUGE_BYTES);
        for page in (first..to).step_by(HUGE_BYTES).filter(|page| to - page >= HUGE_BYTES) {
            // One that is not wholly there, for example: the others are as good.
            let _left = sys::collapse(page, HUGE_BYTES).is_err();
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
    use super::*;

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
