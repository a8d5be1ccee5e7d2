//! How a kernel's image is written: the fingerprint of its template, its files as a tar archive, its memory, and
//! [`END`]. The memory is a header, tables, and pages.
//!
//! What a kernel reads has more around it: before the image two fingerprints, of the template that it was taken
//! under and of the one that it is put into; after it what pages of the two templates' memory differ in, a count
//! and as often an address and the exclusive or of both ([`DIFFERENCE_BYTES`] each).
//!
//! [`END`]: vivarium_protocol::image::END
//! [`LINE_BYTES`]: crate::sys::LINE_BYTES
//!
//! All numbers are little-endian. The header has [`HEADER_BYTES`]; then come the mappings
//! ([`MAPPING_BYTES`] each) in the order of their addresses, the runs of pages ([`RUN_BYTES`] each) in the
//! same order, the paths that mappings refer to, and the pages of all runs. A page of a file is written as what of
//! the file's it differs in: which of its lines, a bit of eight bytes for each, the first the lowest, and of those
//! lines the exclusive or of both ([`LINE_BYTES`] each). Other pages are written as they are.
//!
//! What is read is hostile. Reading allocates nothing, since it is done in the memory that is to be replaced.

use std::ops::Range;

use crate::sys::Registers;

pub(super) const HEADER_BYTES: usize = 384;
pub(super) const MAPPING_BYTES: usize = 56;
pub(super) const RUN_BYTES: usize = 16;

/// The most of each that an image has.
pub(super) const MAPPINGS_MAX: usize = 16 << 10;
pub(super) const RUNS_MAX: usize = 256 << 10;
pub(super) const PATHS_MAX_BYTES: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"vivarium";
const VERSION: u32 = 2;
const MACHINE: u32 = if cfg!(target_arch = "aarch64") { 183 } else { 62 }; // e_machine of elf(5)

pub(super) const PAGE_BYTES: usize = 4096;

pub(super) const FINGERPRINT_BYTES: usize = 32;

/// A page in which two templates differ: its address, and the exclusive or.
pub(super) const DIFFERENCE_BYTES: usize = 8 + PAGE_BYTES;

/// What a mapping is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The template's memory file.
    Template = 0,
    Anonymous = 1,
    /// A file, private to the process.
    File = 2,
    Stack = 3,
    /// The part of the heap that is not of the template's memory file.
    Heap = 4,
    /// What every kernel of a template has, and none can change: the kernel's own, shared read-only files.
    Fixed = 5,
    /// Memory that would be shared with children, if there were any: of no file, or of one without a name.
    Shared = 6,
    /// A file whose content it is.
    SharedFile = 7,
}

impl Kind {
    /// Whether its pages are written as what of the file's they differ in: the exclusive or of both.
    pub(super) const fn is_of_a_file(self) -> bool {
        matches!(self, Self::Template | Self::File)
    }

    const ALL: [Self; 8] = [
        Self::Template,
        Self::Anonymous,
        Self::File,
        Self::Stack,
        Self::Heap,
        Self::Fixed,
        Self::Shared,
        Self::SharedFile,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    /// In the file.
    pub(super) offset: u64,
    /// `PROT_*` of mmap(2).
    pub(super) protection: u8,
    pub(super) kind: Kind,
    /// Where the path is among the paths, and how long.
    pub(super) path: (u32, u16),
    /// Of a file: its size, and when it was changed, in seconds.
    pub(super) size: u64,
    pub(super) changed: u64,
}

impl Mapping {
    pub(super) const fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(super) fn write(&self, to: &mut [u8; MAPPING_BYTES]) {
        let numbers = [self.start as u64, self.end as u64, self.offset, self.size, self.changed];
        let (words, rest) = to.split_at_mut(40);
        for (slot, number) in words.chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        let (path, [len_low, len_high]) = (self.path.0.to_le_bytes(), self.path.1.to_le_bytes());
        let [a, b, c, d] = path;
        let bytes = [a, b, c, d, len_low, len_high, self.protection, self.kind as u8];
        for (slot, byte) in rest.iter_mut().zip(bytes) {
            *slot = byte;
        }
    }

    fn read(from: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(from.get(at..at + 8)?.try_into().ok()?));
        let address = |at: usize| usize::try_from(number(at)?).ok();
        let kind = *from.get(47)?;
        Some(Self {
            start: address(0)?,
            end: address(8)?,
            offset: number(16)?,
            size: number(24)?,
            changed: number(32)?,
            path: (
                u32::from_le_bytes(from.get(40..44)?.try_into().ok()?),
                u16::from_le_bytes(from.get(44..46)?.try_into().ok()?),
            ),
            protection: *from.get(46)?,
            kind: Kind::ALL.into_iter().find(|known| *known as u8 == kind)?,
        })
    }
}

/// Pages that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) pages: usize,
}

impl Run {
    pub(super) const fn end(&self) -> usize {
        self.start.saturating_add(self.bytes())
    }

    pub(super) const fn bytes(&self) -> usize {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    pub(super) fn write(&self, to: &mut [u8; RUN_BYTES]) {
        let (start, pages) = to.split_at_mut(8);
        start.copy_from_slice(&(self.start as u64).to_le_bytes());
        pages.copy_from_slice(&(self.pages as u64).to_le_bytes());
    }

    fn read(from: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            usize::try_from(u64::from_le_bytes(from.get(at..at + 8)?.try_into().ok()?)).ok()
        };
        Some(Self { start: number(0)?, pages: number(8)? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Of the template's memory file: SHA-256.
    pub(super) template: [u8; 32],
    pub(super) heap_end: usize,
    pub(super) mappings: usize,
    pub(super) runs: usize,
    pub(super) paths_bytes: usize,
    pub(super) registers: Registers,
}

/// Why bytes are no image that this process could become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("not an image")]
    Magic,
    #[error("an image of another version of the format")]
    Version,
    #[error("an image of another machine")]
    Machine,
    #[error("an image of another template")]
    Template,
    #[error("an image with more in it than any has")]
    TooLarge,
    #[error("an image whose mappings are none that a kernel has")]
    Mappings,
    #[error("an image with pages outside of its mappings")]
    Runs,
    #[error("an image of files that are other ones here")]
    Files,
    #[error("an image that ends too early")]
    Truncated,
}

impl Header {
    pub(super) fn write(&self, to: &mut [u8; HEADER_BYTES]) {
        let counts =
            [self.heap_end, self.mappings, self.runs, self.paths_bytes].map(|count| count as u64);
        let fields = MAGIC
            .into_iter()
            .chain(VERSION.to_le_bytes())
            .chain(MACHINE.to_le_bytes())
            .chain(self.template)
            .chain(counts.into_iter().flat_map(u64::to_le_bytes))
            .chain(self.registers.0.into_iter().flat_map(u64::to_le_bytes));
        for (slot, byte) in to.iter_mut().zip(fields) {
            *slot = byte;
        }
    }

    pub(super) fn read(from: &[u8]) -> Result<Self, ImageError> {
        if from.len() < HEADER_BYTES {
            return Err(ImageError::Truncated);
        }
        let bytes = |at: usize, len: usize| from.get(at..at + len).unwrap_or_default();
        let word = |at: usize| u64::from_le_bytes(bytes(at, 8).try_into().unwrap_or_default());
        let half = |at: usize| u32::from_le_bytes(bytes(at, 4).try_into().unwrap_or_default());
        if bytes(0, 8) != MAGIC {
            return Err(ImageError::Magic);
        }
        if half(8) != VERSION {
            return Err(ImageError::Version);
        }
        if half(12) != MACHINE {
            return Err(ImageError::Machine);
        }
        let count = |at: usize, max: usize| {
            usize::try_from(word(at)).ok().filter(|count| *count <= max).ok_or(ImageError::TooLarge)
        };
        let mut registers = Registers::default();
        for (index, register) in registers.0.iter_mut().enumerate() {
            *register = word(80 + index * 8);
        }
        Ok(Self {
            template: bytes(16, 32).try_into().unwrap_or_default(),
            heap_end: count(48, usize::MAX)?,
            mappings: count(56, MAPPINGS_MAX)?,
            runs: count(64, RUNS_MAX)?,
            paths_bytes: count(72, PATHS_MAX_BYTES)?,
            registers,
        })
    }
}

/// An image's tables, in the bytes that they were read into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) mappings: &'a [u8],
    pub(super) runs: &'a [u8],
    pub(super) paths: &'a [u8],
}

impl<'a> Tables<'a> {
    /// Those that are whole: [`Tables::check`] says whether all are.
    pub(super) fn mappings(self) -> impl Iterator<Item = Mapping> + Clone + 'a {
        self.mappings.chunks_exact(MAPPING_BYTES).map_while(Mapping::read)
    }

    pub(super) fn runs(self) -> impl Iterator<Item = Run> + Clone + 'a {
        self.runs.chunks_exact(RUN_BYTES).map_while(Run::read)
    }

    /// Of tables that were checked: each run, and its mapping.
    pub(super) fn runs_with_mappings(self) -> impl Iterator<Item = (Run, Mapping)> + Clone + 'a {
        let mut mappings = self.mappings().peekable();
        self.runs().map_while(move |run| {
            while mappings.next_if(|mapping| mapping.end <= run.start).is_some() {}
            Some((run, *mappings.peek()?))
        })
    }

    /// Where a page of shared memory is, if all of that is one after the other.
    pub(super) fn shared_offset(self, page: usize) -> usize {
        let shared = self.mappings().filter(|mapping| mapping.kind == Kind::Shared);
        let before = shared.take_while(|mapping| mapping.start <= page);
        before.map(|mapping| mapping.end.min(page) - mapping.start).sum()
    }

    pub(super) fn path(self, mapping: &Mapping) -> Option<&'a [u8]> {
        let (at, len) = (usize::try_from(mapping.path.0).ok()?, usize::from(mapping.path.1));
        self.paths.get(at..at.checked_add(len)?)
    }

    /// Whether they are in order and agree with each other. `free` is what no mapping may touch.
    pub(super) fn check(self, header: &Header, free: &Range<usize>) -> Result<(), ImageError> {
        let mut end = 0;
        let mut count = 0;
        for mapping in self.mappings() {
            let Mapping { start, protection, .. } = mapping;
            let is_free = mapping.end <= free.start || start >= free.end;
            let is_aligned = start % PAGE_BYTES == 0
                && mapping.end % PAGE_BYTES == 0
                && mapping.offset % PAGE_BYTES as u64 == 0;
            let has_path = self.path(&mapping).is_some();
            if start < end
                || start >= mapping.end
                || !is_aligned
                || !is_free
                || !has_path
                || protection > 7
            {
                return Err(ImageError::Mappings);
            }
            (end, count) = (mapping.end, count + 1);
        }
        if count != header.mappings {
            return Err(ImageError::Mappings);
        }
        let mut mappings = self
            .mappings()
            .filter(|mapping| !matches!(mapping.kind, Kind::Fixed | Kind::SharedFile));
        let (mut within, mut end, mut count) = (mappings.next(), 0, 0);
        for run in self.runs() {
            while within.is_some_and(|mapping| mapping.end <= run.start) {
                within = mappings.next();
            }
            let is_within = within
                .is_some_and(|mapping| mapping.start <= run.start && run.end() <= mapping.end);
            if run.start < end || run.pages == 0 || run.start % PAGE_BYTES != 0 || !is_within {
                return Err(ImageError::Runs);
            }
            (end, count) = (run.end(), count + 1);
        }
        if count == header.runs { Ok(()) } else { Err(ImageError::Runs) }
    }
}
