//! Images: what a kernel has in memory beyond its template, written by the kernel itself and put into a
//! fresh one by that itself, under all layers and with no right that it had not before.
//!
//! [`mod@template`] has the template's memory in a file that its kernels share; [`mod@save`] writes what
//! a kernel has changed of it; [`mod@load`] makes another kernel of the template the same. [`mod@format`] is how
//! it is written, [`mod@layout`] what the kernel says is mapped, [`mod@files`] takes the session's files along. A process that loads can have its memory in no
//! place that is replaced: it works in [`Areas`] of [`Scratch`].
//!
//! An image holds memory and registers. What else a process has (descriptors, signal handlers, timers) is
//! the kernel program's to save and to bring back.

mod files;
mod format;
mod layout;
mod load;
mod save;
mod template;

pub(crate) use files::save_files;
pub(crate) use load::load;
pub(crate) use save::{Saved, check, save};
pub(crate) use template::{share_memory, take_memory};

use self::format::{
    HEADER_BYTES, Header, MAPPING_BYTES, MAPPINGS_MAX, PATHS_MAX_BYTES, RUN_BYTES, RUNS_MAX, Tables,
};
use self::template::Identity;
use crate::sys::Scratch;

/// What the text of /proc/self/maps may have, and a piece of /proc/self/pagemap.
const TEXT_BYTES: usize = 2 << 20;

/// The most shared memory that an image has: it is copied while the process stands still, to where a process that
/// is loaded has its own paths.
const SHARED_MAX_BYTES: usize = PATHS_MAX_BYTES;

/// What the areas below and the stack take: address space, of which a session may have little.
const SCRATCH_BYTES: usize = 11 << 20;

/// The parts of the scratch memory.
struct Areas<'a> {
    header: &'a mut [u8],
    /// The number of the image's descriptor, where it is loaded.
    fd: &'a mut [u8],
    /// Under which number the process that is loaded answers.
    number: &'a mut [u8],
    /// Which template that is forked from.
    template: &'a mut [u8],
    /// How many mappings the process has, into which it is loaded.
    own_count: &'a mut [u8],
    mappings: &'a mut [u8],
    runs: &'a mut [u8],
    paths: &'a mut [u8],
    own_mappings: &'a mut [u8],
    own_paths: &'a mut [u8],
    text: &'a mut [u8],
}

impl<'a> Areas<'a> {
    fn of(scratch: &'a mut Scratch) -> Self {
        let mut rest = scratch.memory();
        let mut take = |bytes: usize| {
            let (area, others) = std::mem::take(&mut rest).split_at_mut(bytes);
            rest = others;
            area
        };
        Self {
            header: take(HEADER_BYTES),
            fd: take(size_of::<i32>()),
            number: take(size_of::<u64>()),
            template: take(Identity::BYTES),
            own_count: take(size_of::<usize>()),
            mappings: take(MAPPINGS_MAX * MAPPING_BYTES),
            runs: take(RUNS_MAX * RUN_BYTES),
            paths: take(PATHS_MAX_BYTES),
            own_mappings: take(MAPPINGS_MAX * MAPPING_BYTES),
            own_paths: take(PATHS_MAX_BYTES),
            text: take(TEXT_BYTES),
        }
    }

    /// The tables of the image, which has this header.
    fn tables(&self, header: &Header) -> Tables<'_> {
        let [mappings, runs] = [header.mappings * MAPPING_BYTES, header.runs * RUN_BYTES];
        Tables {
            mappings: self.mappings.get(..mappings).unwrap_or_default(),
            runs: self.runs.get(..runs).unwrap_or_default(),
            paths: self.paths.get(..header.paths_bytes).unwrap_or_default(),
        }
    }

    /// Those of the process that is to become it.
    fn own_tables(&self) -> Tables<'_> {
        let count = self.own_count.as_ref().try_into().map_or(0, usize::from_ne_bytes);
        let bytes = count.saturating_mul(MAPPING_BYTES);
        Tables {
            mappings: self.own_mappings.get(..bytes).unwrap_or_default(),
            runs: &[],
            paths: self.own_paths,
        }
    }
}
