//! What is mapped in this process: `proc_pid_maps(5)`, read without an allocation.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, stat};
use nix::unistd::read;

use super::SHARED_MAX_BYTES;
use super::format::{Kind, MAPPING_BYTES, Mapping};
use super::template::{FileId, Template};

/// What stands for the agent's library, wherever it is: an upgrade puts another into its place.
pub(super) const LIBRARY: &[u8] = b"/libvivarium_agent.so";

/// What the kernel puts after the path of a file that is gone (proc_pid_maps(5)).
const DELETED: &[u8] = b" (deleted)";

/// Where files without a name are memory of the session alone: mmap(2), MAP_ANONYMOUS; sem_overview(7) and
/// shm_overview(7); memfd_create(2).
const OF_NOBODY: [&[u8]; 3] = [b"/dev/zero", b"/dev/shm/", b"/memfd:"];

/// As long as a path can be that is opened without an allocation.
const PATH_MAX_BYTES: usize = 1000;

/// Why a kernel can not be saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error(
        "it shares memory, more than the 1 MiB that an image holds or what nobody can read ({0:#x})"
    )]
    SharedMemory(usize),
    #[error("it has mapped the same shared memory twice ({0:#x})")]
    SharedTwice(usize),
    #[error("it has mapped a file that is deleted, or whose path is too long ({0:#x})")]
    DeletedFile(usize),
    #[error("it shares a mapped file that it could not open again ({0:#x})")]
    SharedFile(usize),
    #[error("it has more mappings than an image holds")]
    TooMany,
    #[error("it was not forked from a template that allows images")]
    NoTemplate,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A line, with what of it matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    /// `PROT_*` of mmap(2).
    pub(super) protection: u8,
    pub(super) shared: bool,
    pub(super) offset: u64,
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Empty for anonymous memory.
    pub(super) name: &'a [u8],
}

impl Line<'_> {
    /// Whether both have a part of the same file.
    fn overlaps(&self, other: &Self) -> bool {
        let end = |line: &Self| line.offset.saturating_add((line.end - line.start) as u64);
        (self.shared, self.device, self.inode) == (other.shared, other.device, other.inode)
            && self.offset < end(other)
            && other.offset < end(self)
    }
}

/// Reads a file of /proc whole.
pub(super) fn read_whole<'a>(path: &std::ffi::CStr, into: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut len = 0;
    loop {
        let rest = into.get_mut(len..).unwrap_or_default();
        if rest.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match read(&file, rest)? {
            0 => break,
            count => len += count,
        }
    }
    Ok(into.get(..len).unwrap_or_default())
}

pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(line)
}

fn line(text: &[u8]) -> Option<Line<'_>> {
    // The name may have spaces in it.
    let mut fields = text.splitn(6, |byte| *byte == b' ');
    let mut range = fields.next()?.splitn(2, |byte| *byte == b'-').map(hexadecimal);
    let (start, end) = (range.next()??, range.next()??);
    let rights = fields.next()?;
    let has = |index: usize, right: u8| rights.get(index) == Some(&right);
    let protection =
        u8::from(has(0, b'r')) | u8::from(has(1, b'w')) << 1 | u8::from(has(2, b'x')) << 2;
    let offset = hexadecimal(fields.next()?)?;
    let mut device = fields.next()?.splitn(2, |byte| *byte == b':').map(hexadecimal);
    let device = device.next()?? << u32::BITS | device.next()??;
    let inode = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let name = fields.next().unwrap_or_default().trim_ascii_start();
    Some(Line {
        start: usize::try_from(start).ok()?,
        end: usize::try_from(end).ok()?,
        protection,
        shared: has(3, b's'),
        offset,
        device,
        inode,
        name,
    })
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// This process's mappings, written as an image has them. Returns how many, and how long their paths are.
///
/// `skipped` is where the scratch memory is.
pub(super) fn write_own(
    text: &[u8],
    template: &Template,
    skipped: usize,
    mappings: &mut [u8],
    paths: &mut [u8],
) -> Result<(usize, usize), SaveError> {
    let library = template.identity().library;
    let (mut count, mut paths_len) = (0, 0);
    // Most files have several mappings, one after the other.
    let mut last: (&[u8], _) = (&[], (0, 0));
    let mut shared_bytes = 0;
    for line in lines(text).filter(|line| line.start != skipped) {
        let line = Line { name: name_of(&line, library), ..line };
        let kind = kind(&line, template)?;
        if kind == Kind::Shared {
            shared_bytes += line.end - line.start;
            if shared_bytes > SHARED_MAX_BYTES || line.protection & 1 == 0 {
                return Err(SaveError::SharedMemory(line.start));
            }
            // Each would be memory of its own.
            if lines(text).any(|other| other.start < line.start && other.overlaps(&line)) {
                return Err(SaveError::SharedTwice(line.start));
            }
        }
        if kind == Kind::SharedFile && open_shared(line.name, line.protection).is_err() {
            return Err(SaveError::SharedFile(line.start));
        }
        let is_named = matches!(kind, Kind::File | Kind::SharedFile | Kind::Fixed);
        let name = if is_named { line.name } else { &[] };
        let (mut size, mut changed) = (0, 0);
        if kind == Kind::File {
            if last.0 != line.name {
                let identity = match identity(line.name) {
                    // It is the template's, whatever is there now.
                    _ if line.name == LIBRARY => (0, 0),
                    Ok(identity) if is_sound(line.name) => identity,
                    // Not in sight of sessions: an interpreter on a mount of its own.
                    Err(_) if template.files.iter().any(|name| name == line.name) => (0, 0),
                    _ => return Err(SaveError::DeletedFile(line.start)),
                };
                last = (line.name, identity);
            }
            (size, changed) = last.1;
        }
        let path = (
            u32::try_from(paths_len).map_err(|_| SaveError::TooMany)?,
            u16::try_from(name.len()).map_err(|_| SaveError::TooMany)?,
        );
        let to = paths.get_mut(paths_len..paths_len + name.len()).ok_or(SaveError::TooMany)?;
        to.copy_from_slice(name);
        paths_len += name.len();
        let slot = mappings
            .get_mut(count * MAPPING_BYTES..)
            .and_then(|rest| rest.first_chunk_mut::<MAPPING_BYTES>())
            .ok_or(SaveError::TooMany)?;
        let Line { start, end, protection, offset, .. } = line;
        let has_offset = matches!(kind, Kind::Template | Kind::File | Kind::SharedFile);
        let offset = if has_offset { offset } else { 0 };
        Mapping { start, end, offset, protection, kind, path, size, changed }.write(slot);
        count += 1;
    }
    Ok((count, paths_len))
}

/// The name of a mapping.
fn name_of<'a>(line: &Line<'a>, library: FileId) -> &'a [u8] {
    if FileId::of(line) == library { LIBRARY } else { line.name }
}

fn kind(line: &Line<'_>, template: &Template) -> Result<Kind, SaveError> {
    Ok(match line.name {
        b"[stack]" => Kind::Stack,
        b"[heap]" => Kind::Heap,
        // Named by prctl(2), PR_SET_VMA.
        name if name.is_empty() || name.starts_with(b"[anon:") => Kind::Anonymous,
        [b'[', ..] => Kind::Fixed,
        _ if line.shared && template.shared.contains(&(line.start..line.end)) => Kind::Fixed,
        // Without children nobody shares it.
        name if line.shared && name.ends_with(DELETED) => {
            if !OF_NOBODY.iter().any(|place| name.starts_with(place)) {
                return Err(SaveError::DeletedFile(line.start));
            }
            Kind::Shared
        }
        _ if line.shared => Kind::SharedFile,
        name if name.starts_with(b"/memfd:") && line.inode == template.identity().inode => {
            Kind::Template
        }
        name if name.ends_with(DELETED) => return Err(SaveError::DeletedFile(line.start)),
        _ => Kind::File,
    })
}

/// By which a file is known to be the same: its size, and when it was changed, in seconds, as the session's own
/// files come back with no more.
pub(super) fn identity(path: &[u8]) -> io::Result<(u64, u64)> {
    let found = stat(path)?;
    let number = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok((number(found.st_size), number(found.st_mtime)))
}

/// Opens a file that is to be shared, for writing too if that can be.
pub(super) fn open_shared(path: &[u8], protection: u8) -> io::Result<OwnedFd> {
    if !is_sound(path) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    match open(path, flags | OFlag::O_RDWR, Mode::empty()) {
        Err(_) if protection & 2 == 0 => Ok(open(path, flags | OFlag::O_RDONLY, Mode::empty())?),
        opened => Ok(opened?),
    }
}

/// Whether a mapping can have this path.
pub(super) fn is_sound(path: &[u8]) -> bool {
    path.starts_with(b"/") && path.len() < PATH_MAX_BYTES && !path.contains(&0)
}

/// The entries of this process's pagemap for pages from `first` on: proc_pid_pagemap(5).
pub(super) fn pagemap(
    file: BorrowedFd<'_>,
    first: usize,
    pages: usize,
    into: &mut [u8],
) -> io::Result<usize> {
    let bytes = (pages * 8).min(into.len() / 8 * 8);
    let into = into.get_mut(..bytes).unwrap_or_default();
    let offset = i64::try_from(first * 8).map_err(io::Error::other)?;
    let count = nix::sys::uio::pread(file, into, offset)? / 8;
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}

/// Whether a page is this process's own, and not as the file has it: present or swapped, of no file, and no
/// guard region, which cannot be read.
pub(super) const fn is_own(entry: u64) -> bool {
    entry >> 62 != 0 && entry & (1 << 61 | 1 << 58) == 0
}
