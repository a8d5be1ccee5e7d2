//! Putting an image into a process in the place of its own memory.
//!
//! All that can be checked is checked before anything is replaced. From then on an error ends the
//! process, which has nothing to go back to.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::sys::mman::ProtFlags;
use nix::sys::stat::Mode;
use nix::unistd::{getpid, read};
use vivarium_protocol::image::END;

use super::files::restore_files;
use super::format::{
    DIFFERENCE_BYTES, FINGERPRINT_BYTES, Header, ImageError, Kind, MAPPING_BYTES, Mapping,
    PAGE_BYTES, RUN_BYTES, Tables,
};
use super::layout::{SaveError, identity, is_sound, open_shared, read_whole, write_own};
use super::save::DIRECT_BYTES;
use super::template::template;
use super::{Areas, SCRATCH_BYTES};
use crate::sys::{self, LINE_BYTES, Piece, Replacing, Scratch, Sharing, SingleThreaded};

/// The rights with which a mapping is filled, and the same as an image has them.
const WRITABLE: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const READ_WRITE: u8 = 3;

/// The exit code of a process that could not become what its image says.
const EXIT_BROKEN: c_int = 73;

/// Why an image is not loaded, before anything was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("this kernel can not become another: {0}")]
    Own(#[from] SaveError),
    #[error("its files: {0}")]
    Files(io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Restores the files of an image, and becomes the process that it was taken of. Returns only if it can not,
/// with its memory as it was before.
pub(crate) fn load(_: SingleThreaded, file: BorrowedFd<'_>, number: u64) -> LoadError {
    let mut templates = [0; 2 * FINGERPRINT_BYTES];
    if let Err(error) = read_exactly(file, &mut templates) {
        return error;
    }
    let mut scratch = match Scratch::map(SCRATCH_BYTES) {
        Ok(scratch) => scratch,
        Err(error) => return error.into(),
    };
    let reserved = scratch.range();
    match prepare(Areas::of(&mut scratch), &reserved, file, number, &templates) {
        Ok(()) => scratch.stand_on(replace),
        Err(error) => match scratch.unmap() {
            Ok(()) => error,
            Err(unmapped) => unmapped.into(),
        },
    }
}

/// Reads an image's tables, and checks them against what this process has.
fn prepare(
    areas: Areas<'_>,
    reserved: &Range<usize>,
    file: BorrowedFd<'_>,
    number: u64,
    templates: &[u8],
) -> Result<(), LoadError> {
    let template = template().ok_or(SaveError::NoTemplate)?;
    let (from, to) = templates.split_at(FINGERPRINT_BYTES);
    let mut of_image = [0; FINGERPRINT_BYTES];
    read_exactly(file, &mut of_image)?;
    if to != template.identity().fingerprint || of_image != from {
        return Err(ImageError::Template.into());
    }
    restore_files(file).map_err(LoadError::Files)?;
    read_exactly(file, areas.header)?;
    let header = Header::read(areas.header)?;
    if header.template != of_image {
        return Err(ImageError::Template.into());
    }
    let lens = [header.mappings * MAPPING_BYTES, header.runs * RUN_BYTES, header.paths_bytes];
    let tables = [&mut *areas.mappings, &mut *areas.runs, &mut *areas.paths];
    for (area, len) in tables.into_iter().zip(lens) {
        read_exactly(file, area.get_mut(..len).ok_or(ImageError::TooLarge)?)?;
    }
    let text = read_whole(c"/proc/self/maps", areas.text)?;
    let own = write_own(text, template, reserved.start, areas.own_mappings, areas.own_paths)?;
    template.identity().write(areas.template);
    areas.fd.copy_from_slice(&file.as_raw_fd().to_ne_bytes());
    areas.number.copy_from_slice(&number.to_ne_bytes());
    areas.own_count.copy_from_slice(&own.0.to_ne_bytes());
    let image = areas.tables(&header);
    image.check(&header, reserved)?;
    compare(image, areas.own_tables()).map_err(LoadError::from)
}

/// Whether this process can become what the image says.
fn compare(image: Tables<'_>, own: Tables<'_>) -> Result<(), ImageError> {
    let is_same = |of: Tables<'_>, mapping: &Mapping, other: &Mapping| {
        mapping.range() == other.range()
            && mapping.kind == other.kind
            && of.path(mapping) == own.path(other)
    };
    for mapping in image.mappings() {
        let is_there = match mapping.kind {
            Kind::Fixed => own.mappings().any(|other| is_same(image, &mapping, &other)),
            Kind::Stack => {
                own.mappings().any(|other| other.kind == Kind::Stack && other.end == mapping.end)
            }
            Kind::Template => holder(own, image, &mapping).is_some(),
            Kind::Anonymous | Kind::Heap | Kind::File | Kind::Shared | Kind::SharedFile => !own
                .mappings()
                .filter(|other| matches!(other.kind, Kind::Fixed | Kind::Stack))
                .any(|other| mapping.start < other.end && other.start < mapping.end),
        };
        if !is_there {
            return Err(ImageError::Mappings);
        }
        let is_found = match mapping.kind {
            Kind::File if holder(own, image, &mapping).is_none() => {
                let path = sound_path(image, &mapping);
                path.and_then(|path| identity(path).ok()) == Some((mapping.size, mapping.changed))
            }
            Kind::SharedFile => shared_file(image, &mapping).is_ok(),
            _ => true,
        };
        if !is_found {
            return Err(ImageError::Files);
        }
    }
    // What is fixed stays, and so does the code that replaces the rest.
    let code = (put_in as *const ()).addr();
    let kept = own
        .mappings()
        .filter(|mapping| mapping.kind == Kind::Fixed || mapping.range().contains(&code));
    for mapping in kept {
        if !image.mappings().any(|other| is_same(image, &other, &mapping)) {
            return Err(ImageError::Mappings);
        }
    }
    Ok(())
}

/// The path of a mapping, if it can be one.
fn sound_path<'a>(image: Tables<'a>, mapping: &Mapping) -> Option<&'a [u8]> {
    image.path(mapping).filter(|path| is_sound(path))
}

/// Opens the file of a mapping that is shared.
fn shared_file(image: Tables<'_>, mapping: &Mapping) -> io::Result<OwnedFd> {
    open_shared(image.path(mapping).unwrap_or_default(), mapping.protection)
}

/// The process's own mapping that has all of this one already: of the same file, at the same place.
fn holder(own: Tables<'_>, image: Tables<'_>, mapping: &Mapping) -> Option<Mapping> {
    own.mappings().find(|other| {
        let is_within = other.start <= mapping.start && mapping.end <= other.end;
        is_within
            && other.kind == mapping.kind
            && (other.size, other.changed) == (mapping.size, mapping.changed)
            && own.path(other) == image.path(mapping)
            && (mapping.start - other.start) as u64 == mapping.offset.wrapping_sub(other.offset)
    })
}

/// On the scratch memory: replaces this process's memory. Returns the exit code if that fails.
fn replace(mut scratch: Scratch, replacing: Replacing) -> c_int {
    let mut areas = Areas::of(&mut scratch);
    let text = std::mem::take(&mut areas.text);
    let Ok(header) = Header::read(areas.header) else { return EXIT_BROKEN };
    let (image, own) = (areas.tables(&header), areas.own_tables());
    let fd = areas.fd.as_ref().try_into().map_or(-1, i32::from_ne_bytes);
    let template = template().map_or(0, |template| template.thread_id_address);
    match put_in(&replacing, &header, image, own, fd, text) {
        Ok(()) => {
            sys::set_thread_id(&replacing, template, getpid().as_raw());
            sys::restore(replacing, &header.registers)
        }
        Err(_) => EXIT_BROKEN,
    }
}

fn put_in(
    replacing: &Replacing,
    header: &Header,
    image: Tables<'_>,
    own: Tables<'_>,
    fd: i32,
    buffer: &mut [u8],
) -> io::Result<()> {
    if sys::heap_end() != header.heap_end {
        sys::set_heap_end(replacing, header.heap_end)?;
    }
    unmap_others(replacing, image, own)?;
    let mut runs = image.runs().peekable();
    for mapping in image.mappings() {
        let mut has_runs = false;
        while runs.next_if(|run| run.start < mapping.end).is_some() {
            has_runs = true;
        }
        let held = holder(own, image, &mapping);
        let (range, offset) = (mapping.range(), mapping.offset);
        match (mapping.kind, held) {
            (Kind::Fixed | Kind::Stack, _) => continue,
            (Kind::Anonymous, _) => {
                sys::replace_by_zeroes(replacing, range, WRITABLE, Sharing::Private)?;
            }
            (Kind::Shared, _) => {
                sys::replace_by_zeroes(replacing, range, WRITABLE, Sharing::Shared)?;
            }
            (Kind::SharedFile, _) => {
                let file = shared_file(image, &mapping)?;
                let (protection, sharing) = (protection(&mapping), Sharing::Shared);
                sys::replace_by_file(replacing, range, protection, sharing, file.as_fd(), offset)?;
            }
            (Kind::File, None) => {
                let path = image.path(&mapping).unwrap_or_default();
                let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
                let sharing = Sharing::Private;
                sys::replace_by_file(replacing, range, WRITABLE, sharing, file.as_fd(), offset)?;
            }
            (Kind::Heap | Kind::Template | Kind::File, _) => {
                let is_kept = held.is_none_or(|own| own.protection == mapping.protection);
                let is_readable_file = mapping.kind.is_of_a_file() && mapping.protection & 2 == 0;
                if is_readable_file && is_kept && !has_runs {
                    continue; // Nobody has written to it.
                }
                sys::forget_changes(replacing, range.clone())?;
                if held.is_none_or(|own| own.protection != READ_WRITE) {
                    sys::protect(replacing, range, WRITABLE)?;
                }
            }
        }
    }
    let mut input = Input { replacing, fd, buffer, start: 0, end: 0 };
    for (run, mapping) in image.runs_with_mappings() {
        if mapping.kind.is_of_a_file() {
            for page in (run.start..run.end()).step_by(PAGE_BYTES) {
                let set = input.next(size_of::<u64>())?.try_into().map_err(io::Error::other)?;
                let set = u64::from_le_bytes(set);
                let lines = input.next(set.count_ones() as usize * LINE_BYTES)?;
                sys::change_lines(replacing, page, set, lines);
            }
        } else {
            input.fill(run.start..run.end())?;
        }
    }
    read_differences(input, image)?;
    for mapping in image.mappings() {
        if matches!(mapping.kind, Kind::Fixed | Kind::Stack) || mapping.protection == READ_WRITE {
            continue;
        }
        sys::protect(replacing, mapping.range(), protection(&mapping))?;
    }
    Ok(())
}

fn protection(mapping: &Mapping) -> ProtFlags {
    ProtFlags::from_bits_truncate(i32::from(mapping.protection))
}

/// Changes what two templates differ in, where the image has the template's memory at all.
fn read_differences(mut input: Input<'_>, image: Tables<'_>) -> io::Result<()> {
    if input.next(END.len())? != END {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let count = input.next(size_of::<u64>())?.try_into().map_err(io::Error::other)?;
    let mut mappings = image.mappings().peekable();
    for _ in 0..u64::from_le_bytes(count) {
        let replacing = input.replacing;
        let (address, difference) = input.next(DIFFERENCE_BYTES)?.split_at(size_of::<u64>());
        let address = u64::from_le_bytes(address.try_into().map_err(io::Error::other)?);
        let page = usize::try_from(address).map_err(io::Error::other)?;
        while mappings.next_if(|mapping| mapping.end <= page).is_some() {}
        let within = mappings.peek().filter(|mapping| mapping.start <= page);
        let Some(mapping) = within.filter(|mapping| mapping.kind == Kind::Template) else {
            continue;
        };
        if page % PAGE_BYTES == 0 {
            if mapping.protection & 2 == 0 {
                sys::protect(replacing, page..page + PAGE_BYTES, WRITABLE)?;
            }
            sys::change_lines(replacing, page, u64::MAX, difference);
        }
    }
    Ok(())
}

/// What follows in an image, read much at a time: pages are scattered, and each read waits for who writes.
struct Input<'a> {
    replacing: &'a Replacing,
    fd: i32,
    buffer: &'a mut [u8],
    /// What of the buffer was read, and is not used yet.
    start: usize,
    end: usize,
}

impl Input<'_> {
    /// The next bytes, of which the buffer holds so many.
    fn next(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.start < count {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            while self.end < count {
                let rest = self.buffer.get_mut(self.end..).unwrap_or_default();
                self.end += sys::read_some(self.fd, rest)?;
            }
        }
        let bytes = self.buffer.get(self.start..self.start + count);
        self.start += count;
        bytes.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Fills memory with the next bytes.
    fn fill(&mut self, memory: Range<usize>) -> io::Result<()> {
        let mut at = memory.start;
        while at < memory.end {
            let (left, ready) = (memory.end - at, self.end - self.start);
            if ready == 0 && left >= DIRECT_BYTES {
                return sys::read_pieces(
                    self.replacing,
                    self.fd,
                    &mut [Piece::new(&(at..memory.end))],
                );
            }
            let replacing = self.replacing;
            let bytes = self.next(if ready == 0 { left } else { ready.min(left) })?;
            sys::write_memory(replacing, at, bytes);
            at += bytes.len();
        }
        Ok(())
    }
}

fn read_exactly(file: BorrowedFd<'_>, mut into: &mut [u8]) -> Result<(), LoadError> {
    while !into.is_empty() {
        match read(file, into).map_err(io::Error::from)? {
            0 => return Err(ImageError::Truncated.into()),
            count => into = into.get_mut(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Unmaps what the image does not have.
fn unmap_others(replacing: &Replacing, image: Tables<'_>, own: Tables<'_>) -> io::Result<()> {
    let mut wanted = image.mappings().peekable();
    let others = own
        .mappings()
        .filter(|mapping| !matches!(mapping.kind, Kind::Fixed | Kind::Stack | Kind::Heap));
    for mapping in others {
        let mut at = mapping.start;
        while at < mapping.end {
            while wanted.next_if(|next| next.end <= at).is_some() {}
            let next = wanted.peek().map_or(mapping.end..mapping.end, Mapping::range);
            let gap = at..next.start.clamp(at, mapping.end);
            at = if gap.is_empty() { next.end } else { gap.end };
            if !gap.is_empty() {
                sys::unmap(replacing, gap)?;
            }
        }
    }
    Ok(())
}
