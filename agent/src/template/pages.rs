//! Large pages for what a template has in memory.
//!
//! A fork copies the page tables of what was written, some 15,000 entries for pandas and its kin,
//! and counts each page. As huge pages they are some thirty, so that the two forks of a birth
//! take a third less time. A page that a kernel writes to is still copied alone. madvise(2),
//! MADV_COLLAPSE: Linux 6.1, and synchronous; where there is none everything else is as it is.

use std::fs;

use crate::sys;

/// Of a huge page on the architectures that we run on.
const HUGE_BYTES: usize = 2 << 20;

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
