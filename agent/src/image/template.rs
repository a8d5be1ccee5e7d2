//! A template's memory, put into a file that its kernels share.
//!
//! A kernel's own pages are then those that are not the file's any more, which the kernel tells apart
//! (proc_pid_pagemap(5), bit 61), and to forget them is to have the template's again. Without the file
//! a page that a kernel shares with its template may be one that the template has changed since.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::ProtFlags;
use nix::unistd::ftruncate;
use sha2::{Digest, Sha256};

use super::format::{FINGERPRINT_BYTES, PAGE_BYTES};
use super::layout::{LIBRARY, Line, is_own, lines, pagemap};
use crate::sys::{self, Piece, Replacing, Sharing, SingleThreaded};

/// How often the kernel is asked to seal the memory while others hold pages of it.
const MAX_SEAL_TRIES: usize = 20;

/// What kernels know of their template.
#[derive(Debug)]
pub(super) struct Template {
    identity: Mutex<Identity>,
    /// Where libc keeps the main thread's id.
    pub(super) thread_id_address: usize,
    /// The names of the files that it has mapped.
    pub(super) files: Vec<Vec<u8>>,
    /// What is shared with other processes, and can not be written to.
    pub(super) shared: Vec<Range<usize>>,
}

/// By which a file that is mapped is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) const fn of(line: &Line<'_>) -> Self {
        Self { device: line.device, inode: line.inode }
    }
}

/// What differs in two templates of one layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// Of the memory file.
    pub(super) inode: u64,
    /// SHA-256 of the same.
    pub(super) fingerprint: [u8; FINGERPRINT_BYTES],
    pub(super) library: FileId,
}

impl Identity {
    pub(super) const BYTES: usize = 3 * size_of::<u64>() + FINGERPRINT_BYTES;

    pub(super) fn write(&self, to: &mut [u8]) {
        let Self { inode, fingerprint, library } = self;
        let numbers = [*inode, library.device, library.inode].map(u64::to_ne_bytes);
        for (slot, byte) in to.iter_mut().zip(numbers.into_iter().flatten().chain(*fingerprint)) {
            *slot = byte;
        }
    }

    pub(super) fn read(from: &[u8]) -> Option<Self> {
        let (numbers, fingerprint) = from.split_at_checked(Self::BYTES - FINGERPRINT_BYTES)?;
        let mut numbers = numbers.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let inode = numbers.next()?;
        let library = FileId { device: numbers.next()?, inode: numbers.next()? };
        Some(Self { inode, fingerprint: fingerprint.try_into().ok()?, library })
    }
}

impl Template {
    pub(super) fn identity(&self) -> Identity {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process was forked from another one of the same layout than the memory that it got says.
    pub(super) fn is_now(&self, identity: Identity) {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = identity;
    }
}

static TEMPLATE: OnceLock<Template> = OnceLock::new();

static MEMORY: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// The memory file, for the supervisor: the content of every mapping that was moved to it, in their order; then
/// the layout, a line for each mapping (start, end, bytes held of it, offset, `PROT_*`, whether it is shared,
/// name, and by what the file is known to be the same), and one of no mapping, `[cpu]`; then the layout's length, eight
/// bytes.
pub(crate) fn take_memory() -> Option<OwnedFd> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner).take()
}

pub(super) fn template() -> Option<&'static Template> {
    TEMPLATE.get()
}

/// Puts the process's memory into a file, and maps that in its place. Once, before it forks kernels.
pub(crate) fn share_memory(thread: SingleThreaded) -> io::Result<()> {
    let thread_id_address = usize::try_from(sys::thread_id_address()?).map_err(io::Error::other)?;
    let text = fs::read("/proc/self/maps")?;
    let (mut shared, mut files) = (Vec::new(), Vec::new());
    let mut moved: Vec<(Range<usize>, ProtFlags, u64)> = Vec::new();
    let mut layout = Vec::new();
    let mut len = 0;
    let code = (share_memory as *const ()).addr();
    let library = lines(&text).find(|line| (line.start..line.end).contains(&code));
    let library = library.as_ref().map(FileId::of).ok_or(io::ErrorKind::NotFound)?;
    for line in lines(&text) {
        if line.name.starts_with(b"/") && files.iter().all(|name| name != line.name) {
            files.push(line.name.to_vec());
        }
        let range = line.start..line.end;
        let mut held = 0;
        if line.shared {
            shared.push(range);
        } else if is_moved(&line)? {
            held = range.len() as u64;
            let protection = ProtFlags::from_bits_truncate(i32::from(line.protection));
            moved.push((range, protection, len));
        }
        let is_library = FileId::of(&line) == library;
        let Line { start, end, protection, shared, offset, .. } = line;
        write!(layout, "{start:x} {end:x} {held:x} {offset:x} {protection} {shared} ")?;
        layout.extend_from_slice(if is_library { LIBRARY } else { line.name });
        layout.push(b' ');
        // What is moved is compared as memory.
        if !is_library || held == 0 {
            write_identity(&line, is_library, &mut layout)?;
        }
        layout.push(b'\n');
        len += held;
    }
    writeln!(layout, "0 0 0 0 0 false [cpu] {}", hexadecimal(&cpu_features()?))?;
    let layout_bytes = layout.len() as u64;
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = fs::File::from(memfd_create(c"vivarium-template", flags)?);
    let inode = file.metadata()?.ino();
    let whole = len + layout_bytes + size_of_val(&layout_bytes) as u64;
    ftruncate(&file, i64::try_from(whole).map_err(io::Error::other)?)?;
    // From here to the end of the loop after it nothing allocates: what was written is what is there.
    for (range, ..) in &moved {
        sys::write_pieces(file.as_fd(), &mut [Piece::new(range)])?;
    }
    let replacing = Replacing::by_the_same(thread);
    for (range, protection, offset) in &moved {
        let private = Sharing::Private;
        sys::replace_by_file(
            &replacing,
            range.clone(),
            *protection,
            private,
            file.as_fd(),
            *offset,
        )?;
    }
    file.write_all(&layout)?;
    file.write_all(&layout_bytes.to_le_bytes())?;
    seal(&file)?;
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
    let fingerprint = hash.finalize().into();
    let identity = Mutex::new(Identity { inode, fingerprint, library });
    let template = Template { identity, thread_id_address, files, shared };
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    *memory = Some(file.into());
    TEMPLATE.set(template).map_err(|_| io::Error::other("the memory is in a file already"))
}

/// What the functions need that libraries have chosen for this CPU, and that their memory points to: ld.so(8), ifunc.
fn cpu_features() -> io::Result<Vec<u8>> {
    let text = fs::read("/proc/cpuinfo")?;
    let is_of_features = |line: &&[u8]| line.starts_with(b"flags") || line.starts_with(b"Features");
    let features = text.split(|byte| *byte == b'\n').find(is_of_features);
    Ok(Sha256::digest(features.unwrap_or_default()).to_vec())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a file: its size and time, or the SHA-256 of what is mapped, where it has no path or is the agent's library. So too
/// of vdso(7), the functions of the kernel that libc's memory points to.
fn write_identity(line: &Line<'_>, is_library: bool, to: &mut Vec<u8>) -> io::Result<()> {
    if line.inode == 0 && line.name != b"[vdso]" {
        return Ok(());
    }
    let found = fs::metadata(OsStr::from_bytes(line.name));
    match found {
        Ok(found) if found.ino() == line.inode && !is_library => {
            write!(to, "{} {}.{}", found.size(), found.mtime(), found.mtime_nsec())
        }
        _ if line.protection & 1 == 0 => Ok(()),
        _ => {
            let mut content = vec![0; line.end - line.start];
            let memory = fs::File::open("/proc/self/mem")?;
            memory.read_exact_at(&mut content, line.start as u64)?;
            to.extend(hexadecimal(&Sha256::digest(&content)).into_bytes());
            Ok(())
        }
    }
}

/// Whether a private mapping has, or may get, pages of the process's own. Not the stack, which grows.
fn is_moved(line: &Line<'_>) -> io::Result<bool> {
    let is_special =
        line.name.starts_with(b"[") && line.name != b"[heap]" && !line.name.starts_with(b"[anon:");
    if line.protection & 1 == 0 || is_special {
        return Ok(false);
    }
    if line.protection & 2 != 0 {
        return Ok(true);
    }
    // What was relocated, and then protected (ld.so(8), RELRO).
    let file = fs::File::open("/proc/self/pagemap")?;
    let (mut page, end) = (line.start / PAGE_BYTES, line.end / PAGE_BYTES);
    let mut entries = vec![0; 64 << 10];
    while page < end {
        let count = pagemap(file.as_fd(), page, end - page, &mut entries)?;
        let (words, _) = entries.as_chunks::<8>();
        if words.iter().take(count).any(|entry| is_own(u64::from_ne_bytes(*entry))) {
            return Ok(true);
        }
        page += count;
    }
    Ok(false)
}

/// Lets nobody change it any more. Who reads the memory of processes holds pages for a moment: the kernel
/// waits 150 ms for them, and then answers EBUSY (`memfd_wait_for_pins` in mm/memfd.c).
fn seal(file: &fs::File) -> io::Result<()> {
    let seals = SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SEAL;
    let mut sealed = fcntl(file, FcntlArg::F_ADD_SEALS(seals));
    for _ in 1..MAX_SEAL_TRIES {
        if sealed != Err(Errno::EBUSY) {
            break;
        }
        sealed = fcntl(file, FcntlArg::F_ADD_SEALS(seals));
    }
    sealed?;
    Ok(())
}
