//! Writing a kernel's memory, by a fork of it, so that it stands still no longer than that takes.

use std::fs::File;
use std::io;
use std::iter::Peekable;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use vivarium_protocol::image::END;

use super::format::{
    HEADER_BYTES, Header, Kind, MAPPING_BYTES, MAPPINGS_MAX, Mapping, PAGE_BYTES, RUN_BYTES, Run,
    Tables,
};
use super::layout::{SaveError, is_own, pagemap, read_whole, write_own};
use super::template::{Identity, Template, template};
use super::{Areas, SCRATCH_BYTES};
use crate::sys::{
    self, LINE_BYTES, Piece, Reader, Registers, Replacing, STACK_POINTER, Scratch, SingleThreaded,
};

/// So much that follows each other is written from where it is.
pub(super) const DIRECT_BYTES: usize = 64 << 10;

/// The most pages that a run is written with: as many are copied at a time.
const RUN_PAGES_MAX: usize = MAPPINGS_MAX * MAPPING_BYTES / PAGE_BYTES;

/// Below the stack pointer: what a function may use without moving it (System V ABI, x86-64).
const RED_ZONE_BYTES: usize = 128;

/// What became of the process that saves itself.
#[derive(Debug)]
pub(crate) enum Saved {
    /// It goes on; this child writes the image, and exits with 0 once it is whole.
    By(Pid),
    /// It is another one, into which the image was loaded, and answers under this number.
    Resumed(u64),
}

/// Writes this process's memory, as it is now, to `file`.
pub(crate) fn save(thread: SingleThreaded, file: BorrowedFd<'_>) -> Result<Saved, SaveError> {
    let template = template().ok_or(SaveError::NoTemplate)?;
    let mut scratch = Scratch::map(SCRATCH_BYTES)?;
    let counts = match find(&mut scratch, template) {
        Ok(counts) => counts,
        Err(error) => {
            scratch.unmap()?;
            return Err(error);
        }
    };
    let saved = sys::capture(|registers| match sys::fork_reader(thread)? {
        Reader::Parent(child) => Ok(child),
        Reader::Child(replacing) => {
            let written = write(
                &mut scratch,
                template.identity().fingerprint,
                registers,
                counts,
                file,
                replacing,
            );
            sys::exit_now(if written.is_ok() { 0 } else { 1 })
        }
    });
    let mut scratch = Scratch::left(SCRATCH_BYTES);
    let Some(saved) = saved else {
        let Areas { fd, number, template: now, .. } = Areas::of(&mut scratch);
        if let Some(identity) = Identity::read(now) {
            template.is_now(identity);
        }
        let number = number.as_ref().try_into().map_or(0, u64::from_ne_bytes);
        sys::close(fd.as_ref().try_into().map_or(-1, i32::from_ne_bytes));
        scratch.unmap()?;
        return Ok(Saved::Resumed(number));
    };
    scratch.unmap()?;
    saved.map(Saved::By).map_err(SaveError::Io)
}

/// Whether this process's memory could be saved now.
pub(crate) fn check() -> Result<(), SaveError> {
    let template = template().ok_or(SaveError::NoTemplate)?;
    let mut scratch = Scratch::map(SCRATCH_BYTES)?;
    let found = find(&mut scratch, template);
    scratch.unmap()?;
    found.map(drop)
}

/// Finds what is mapped, and copies what is shared. Returns how many mappings there are, and bytes of their paths.
fn find(scratch: &mut Scratch, template: &Template) -> Result<(usize, usize), SaveError> {
    let skipped = scratch.range().start;
    let Areas { text, mappings, paths, .. } = Areas::of(scratch);
    let text = read_whole(c"/proc/self/maps", text)?;
    let counts = write_own(text, template, skipped, mappings, paths)?;
    copy_shared(Areas::of(scratch), counts.0)?;
    Ok(counts)
}

/// Copies shared memory, which a fork has not as it was.
fn copy_shared(areas: Areas<'_>, mappings: usize) -> Result<(), SaveError> {
    let mappings = areas.mappings.get(..mappings * MAPPING_BYTES).unwrap_or_default();
    let mut rest = areas.own_paths;
    let all = (Tables { mappings, runs: &[], paths: &[] }).mappings();
    let mut shared = all.filter(|mapping| mapping.kind == Kind::Shared).peekable();
    if shared.peek().is_none() {
        return Ok(());
    }
    // Not by its address: what is beyond the end of its file would end this process.
    let memory = File::open("/proc/self/mem")?;
    for mapping in shared {
        let unreadable = || SaveError::SharedMemory(mapping.start);
        let parts = rest.split_at_mut_checked(mapping.range().len());
        let (part, others) = parts.ok_or_else(unreadable)?;
        memory.read_exact_at(part, mapping.start as u64).map_err(|_| unreadable())?;
        rest = others;
    }
    Ok(())
}

/// In the child: finds the pages that are the process's own, and writes all.
fn write(
    scratch: &mut Scratch,
    template: [u8; 32],
    registers: &Registers,
    (mappings, paths_bytes): (usize, usize),
    file: BorrowedFd<'_>,
    replacing: Replacing,
) -> io::Result<()> {
    let areas = Areas::of(scratch);
    let mappings = areas.mappings.get(..mappings * MAPPING_BYTES).unwrap_or_default();
    let paths = areas.paths.get(..paths_bytes).unwrap_or_default();
    let mut runs = Runs { bytes: areas.runs, count: 0, last: None };
    let entries = open(c"/proc/self/pagemap", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let stack_pointer = registers.0.get(STACK_POINTER).copied().unwrap_or_default();
    let stack = usize::try_from(stack_pointer).map_err(io::Error::other)?;
    let shared = &*areas.own_paths;
    let tables = Tables { mappings, runs: &[], paths };
    for mapping in tables.mappings() {
        let Some(range) = saved_part(&mapping, stack.saturating_sub(RED_ZONE_BYTES)) else {
            continue;
        };
        if mapping.kind == Kind::Shared {
            for page in range.step_by(PAGE_BYTES) {
                let at = tables.shared_offset(page);
                if shared.get(at..at + PAGE_BYTES).is_some_and(|page| !sys::are_zero(page)) {
                    runs.add(page)?;
                }
            }
            runs.end()?;
            continue;
        }
        // Zeroes are what such memory has to begin with.
        let is_empty = |page| {
            matches!(mapping.kind, Kind::Anonymous | Kind::Heap) && sys::is_zero(page, PAGE_BYTES)
        };
        let mut start = range.start;
        while start < range.end {
            let pages = (range.end - start) / PAGE_BYTES;
            let count = pagemap(entries.as_fd(), start / PAGE_BYTES, pages, areas.text)?;
            let (words, _) = areas.text.as_chunks::<8>();
            for (index, entry) in words.iter().take(count).enumerate() {
                let page = start + index * PAGE_BYTES;
                if is_own(u64::from_ne_bytes(*entry)) && !is_empty(page) {
                    runs.add(page)?;
                }
            }
            start += count * PAGE_BYTES;
        }
        runs.end()?;
    }
    let (count, runs) = (runs.count, runs.bytes);
    let runs = runs.get(..count * RUN_BYTES).unwrap_or_default();
    let header = Header {
        template,
        heap_end: sys::heap_end(),
        mappings: mappings.len() / MAPPING_BYTES,
        runs: count,
        paths_bytes: paths.len(),
        registers: *registers,
    };
    let mut bytes = [0; HEADER_BYTES];
    header.write(&mut bytes);
    for part in [&bytes[..], mappings, runs, paths] {
        let start = part.as_ptr().expose_provenance();
        sys::write_pieces(file, &mut [Piece::new(&(start..start + part.len()))])?;
    }
    // This process reads nothing that it or its template wrote after the file was made: all it needs is on
    // the stack and in the scratch memory, and the pages of files can be what they were in the files.
    let mut out = Output::new(file, areas.text);
    let mut runs = (Tables { runs, ..tables }).runs_with_mappings().peekable();
    while let Some((_, mapping)) = runs.peek()
        && let kind = mapping.kind
    {
        if kind.is_of_a_file() {
            write_changes(&mut runs, areas.own_mappings, &replacing, &mut out)?;
            continue;
        }
        let Some((run, _)) = runs.next() else { break };
        let mut at = run.start;
        while at < run.end() {
            let left = run.end() - at;
            if kind != Kind::Shared && left >= DIRECT_BYTES {
                out.flush()?;
                sys::write_pieces(file, &mut [Piece::new(&(at..run.end()))])?;
                break;
            }
            let room = out.room(left)?;
            if kind == Kind::Shared {
                let from = tables.shared_offset(at);
                let copied = shared.get(from..from + room.len());
                room.copy_from_slice(copied.ok_or(io::ErrorKind::InvalidData)?);
            } else {
                sys::read_memory(&replacing, at, room);
            }
            at += room.len();
        }
    }
    out.room(END.len())?.copy_from_slice(&END);
    out.flush()
}

/// Writes the next pages of a mapping of a file as what of the file's they differ in, as many as `pages` has room for.
/// They are taken back, to see what the file has.
fn write_changes(
    runs: &mut Peekable<impl Iterator<Item = (Run, Mapping)> + Clone>,
    pages: &mut [u8],
    replacing: &Replacing,
    out: &mut Output<'_>,
) -> io::Result<()> {
    let (all, Some((first, of))) = (runs.clone(), runs.peek().copied()) else { return Ok(()) };
    let (mut used, mut end) = (0, first.start);
    while let Some((run, _)) = runs
        .next_if(|(run, mapping)| mapping.start == of.start && used + run.bytes() <= pages.len())
    {
        let copy = pages.get_mut(used..used + run.bytes()).ok_or(io::ErrorKind::InvalidData)?;
        sys::read_memory(replacing, run.start, copy);
        (used, end) = (used + copy.len(), run.end());
    }
    // What lies between them is the file's.
    sys::forget_changes(replacing, first.start..end)?;
    let addresses = all.flat_map(|(run, _)| (run.start..run.end()).step_by(PAGE_BYTES));
    for (page, address) in pages.chunks_exact_mut(PAGE_BYTES).take(used / PAGE_BYTES).zip(addresses)
    {
        sys::exclusive_or_with_memory(replacing, address, page);
        let set = sys::lines_in(page);
        out.room(size_of::<u64>())?.copy_from_slice(&set.to_le_bytes());
        for line in sys::lines_of(page, set) {
            out.room(LINE_BYTES)?.copy_from_slice(line);
        }
    }
    Ok(())
}

/// Bytes on their way to a file, many at a time: pages are scattered, and each write wakes who reads.
struct Output<'a> {
    file: BorrowedFd<'a>,
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Output<'a> {
    const fn new(file: BorrowedFd<'a>, buffer: &'a mut [u8]) -> Self {
        Self { file, buffer, len: 0 }
    }

    /// Room for the next bytes, in whole pages where it is for less than all `wanted`.
    fn room(&mut self, wanted: usize) -> io::Result<&mut [u8]> {
        let wanted = wanted.min(self.buffer.len() / PAGE_BYTES * PAGE_BYTES);
        let mut room = self.buffer.len() - self.len;
        if room < wanted.min(PAGE_BYTES) {
            self.flush()?;
            room = self.buffer.len();
        }
        let count = if room < wanted { room / PAGE_BYTES * PAGE_BYTES } else { wanted };
        let start = self.len;
        self.len += count;
        self.buffer.get_mut(start..start + count).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let start = self.buffer.as_ptr().expose_provenance();
        let written = sys::write_pieces(self.file, &mut [Piece::new(&(start..start + self.len))]);
        self.len = 0;
        written
    }
}

/// What of a mapping can have pages to be saved.
fn saved_part(mapping: &Mapping, stack: usize) -> Option<Range<usize>> {
    match mapping.kind {
        Kind::Fixed | Kind::SharedFile => None,
        Kind::Stack => Some(stack / PAGE_BYTES * PAGE_BYTES..mapping.end),
        _ if mapping.protection & 1 == 0 => None,
        _ => Some(mapping.range()),
    }
}

/// Runs of pages, as they are found.
struct Runs<'a> {
    bytes: &'a mut [u8],
    count: usize,
    last: Option<Run>,
}

impl Runs<'_> {
    fn add(&mut self, page: usize) -> io::Result<()> {
        match &mut self.last {
            Some(last) if last.end() == page && last.pages < RUN_PAGES_MAX => last.pages += 1,
            _ => {
                self.end()?;
                self.last = Some(Run { start: page, pages: 1 });
            }
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(run) = self.last.take() else { return Ok(()) };
        let slot = self
            .bytes
            .get_mut(self.count * RUN_BYTES..)
            .and_then(|rest| rest.first_chunk_mut::<RUN_BYTES>())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        run.write(slot);
        self.count += 1;
        Ok(())
    }
}
