//! A process's own memory, read and replaced while it runs. A part of [`super`], where unsafe code may stand.
//!
//! Whoever replaces it stands on [`Scratch`], which is no part of what is replaced, and uses nothing
//! of it meanwhile: no allocation, and of statics only those that are the same before and after.

use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::ProtFlags;
use nix::unistd::Pid;

use super::{SingleThreaded, check};

mod pieces;
mod registers;

pub(crate) use pieces::{Piece, read_pieces, read_some, write_pieces};
use registers::vivarium_image_stand_on;
pub(crate) use registers::{Registers, STACK_POINTER, capture, restore};

/// Where the scratch memory is in every process: far from where the kernel maps by itself.
const SCRATCH_ADDRESS: usize = 0x1000_0000_0000;

/// Proof that the caller needs nothing of what it replaces: it stands on the scratch memory, or puts
/// back what was there.
#[derive(Debug)]
pub(crate) struct Replacing(());

impl Replacing {
    /// For a caller that replaces memory by files of the same content, and changes nothing of it meanwhile.
    pub(crate) const fn by_the_same(_: SingleThreaded) -> Self {
        Self(())
    }
}

/// Memory that no image contains.
#[derive(Debug)]
pub(crate) struct Scratch {
    bytes: usize,
}

impl Scratch {
    /// Maps it, zeroed, unless there is something already.
    pub(crate) fn map(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        map_at(SCRATCH_ADDRESS, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)?;
        Ok(Self { bytes })
    }

    /// Of this process after its memory was replaced.
    pub(crate) const fn left(bytes: usize) -> Self {
        Self { bytes }
    }

    pub(crate) const fn range(&self) -> Range<usize> {
        SCRATCH_ADDRESS..SCRATCH_ADDRESS + self.bytes
    }

    /// All of it but the stack.
    pub(crate) fn memory(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is there while `self` is, which is borrowed, and every byte is initialised;
        // the stack at its end is left out.
        // JUSTIFICATION: mmap(2) returns an address.
        unsafe {
            std::slice::from_raw_parts_mut(
                with_exposed_provenance_mut(SCRATCH_ADDRESS),
                self.bytes - STACK_BYTES,
            )
        }
    }

    pub(crate) fn unmap(self) -> io::Result<()> {
        // SAFETY: nothing refers to it, since `self` is used up.
        // JUSTIFICATION: nix's wrapper is unsafe as well.
        check(c_long::from(unsafe {
            libc::munmap(with_exposed_provenance_mut(SCRATCH_ADDRESS), self.bytes)
        }))
        .map(drop)
    }

    /// Calls `run` on a stack of its own, the last bytes of the scratch memory, for good.
    pub(crate) fn stand_on(self, run: fn(Self, Replacing) -> c_int) -> ! {
        let top = (self.range().end - 64) & !63;
        // SAFETY: the stack is the scratch memory's end, which nobody else uses. Nothing returns to this frame.
        // JUSTIFICATION: there is no other way to leave a stack that is about to be replaced.
        unsafe { vivarium_image_stand_on(top, enter, run as *const c_void, self.bytes) }
    }
}

/// How much of the scratch memory's end is the stack.
pub(crate) const STACK_BYTES: usize = 256 << 10;

extern "C" fn enter(run: *const c_void, bytes: usize) -> ! {
    // SAFETY: `stand_on` passes such a function.
    // JUSTIFICATION: a function goes through assembly as a pointer.
    let run: fn(Scratch, Replacing) -> c_int = unsafe { std::mem::transmute(run) };
    super::exit_now(run(Scratch { bytes }, Replacing(())))
}

/// fork(2) without what libc and libraries do for it, for a child that only reads memory, writes to
/// descriptors and ends. It is waited for with `__WALL`: the tenant's wait(2) does not find it.
pub(crate) fn fork_reader(_: SingleThreaded) -> io::Result<Reader> {
    // SAFETY: without CLONE_VM the child has a copy of everything; there is no other thread.
    // JUSTIFICATION: libc's fork runs handlers, which would change the memory that is to be read.
    let result = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    let pid = c_int::try_from(check(result)?).map_err(io::Error::other)?;
    Ok(if pid == 0 { Reader::Child(Replacing(())) } else { Reader::Parent(Pid::from_raw(pid)) })
}

#[derive(Debug)]
pub(crate) enum Reader {
    Parent(Pid),
    Child(Replacing),
}

/// Waits for the child of [`fork_reader`]: its exit code, or -1 if a signal ended it.
pub(crate) fn wait_reader(pid: Pid) -> io::Result<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call, which fills it. JUSTIFICATION: nix does not know __WALL here.
        let waited = unsafe { libc::waitpid(pid.as_raw(), &raw mut status, libc::__WALL) };
        match check(c_long::from(waited)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 });
            }
        }
    }
}

/// Whether a page of this process's memory has nothing but zeroes.
pub(crate) fn is_zero(page: usize, bytes: usize) -> bool {
    // SAFETY: the caller has the address from the kernel's list of this process's readable mappings, and
    // the process has one thread.
    // JUSTIFICATION: there is no other way to memory by its address.
    let page: &[u8] = unsafe { std::slice::from_raw_parts(with_exposed_provenance(page), bytes) };
    are_zero(page)
}

/// In pieces that are compared at once.
pub(crate) fn are_zero(bytes: &[u8]) -> bool {
    let (pieces, rest) = bytes.as_chunks::<64>();
    pieces.iter().all(|piece| *piece == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// Copies memory from `address` on.
pub(crate) fn read_memory(_: &Replacing, address: usize, into: &mut [u8]) {
    // SAFETY: the kernel lists it as readable memory of this process, and the scratch memory is not in it.
    // JUSTIFICATION: as above.
    unsafe {
        with_exposed_provenance::<u8>(address).copy_to_nonoverlapping(into.as_mut_ptr(), into.len())
    }
}

/// Copies bytes to memory from `address` on.
pub(crate) fn write_memory(_: &Replacing, address: usize, bytes: &[u8]) {
    // SAFETY: the caller has made it writable, and nothing refers to it (`Replacing`); `bytes` are in the scratch
    // memory, which is not in it. JUSTIFICATION: as above.
    unsafe {
        with_exposed_provenance_mut::<u8>(address)
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
    }
}

/// Changes bytes to their exclusive or with memory from `address` on.
pub(crate) fn exclusive_or_with_memory(_: &Replacing, address: usize, bytes: &mut [u8]) {
    // SAFETY: the kernel lists it as readable memory of this process, and `bytes` are in the scratch memory, which is
    // not in it. JUSTIFICATION: as above.
    let memory: &[u8] =
        unsafe { std::slice::from_raw_parts(with_exposed_provenance(address), bytes.len()) };
    exclusive_or(bytes, memory);
}

fn exclusive_or(bytes: &mut [u8], others: &[u8]) {
    for (byte, other) in bytes.iter_mut().zip(others) {
        *byte ^= other;
    }
}

/// A part of a page. A page has as many as a number of 64 bits has.
pub(crate) const LINE_BYTES: usize = 64;

/// Which lines of a page are not zero.
pub(crate) fn lines_in(page: &[u8]) -> u64 {
    let (lines, _) = page.as_chunks::<LINE_BYTES>();
    lines.iter().rev().fold(0, |set, line| set << 1 | u64::from(*line != [0; LINE_BYTES]))
}

/// Those lines of a page.
pub(crate) fn lines_of(page: &[u8], set: u64) -> impl Iterator<Item = &[u8; LINE_BYTES]> {
    let (lines, _) = page.as_chunks::<LINE_BYTES>();
    lines.iter().enumerate().filter(move |(number, _)| set >> number & 1 == 1).map(|(_, line)| line)
}

/// Changes lines of a page by the exclusive or with `lines`, one for each. A page of which none changes goes on being
/// shared.
pub(crate) fn change_lines(_: &Replacing, page: usize, set: u64, lines: &[u8]) {
    let (lines, _) = lines.as_chunks::<LINE_BYTES>();
    let numbers = (0..LINE_BYTES).filter(|number| set >> number & 1 == 1);
    for (number, line) in numbers.zip(lines) {
        let start = page + number * LINE_BYTES;
        let (first, rest) = line.split_first_chunk().unwrap_or((&[0; size_of::<u64>()], &[]));
        // Read and written at once, which is one fault: to read it first would be another.
        // SAFETY: as below, and a line is aligned. JUSTIFICATION: as above.
        let word = unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(start)) };
        word.fetch_xor(u64::from_ne_bytes(*first), Ordering::Relaxed);
        // SAFETY: the caller has made it writable, and nothing refers to it (`Replacing`). JUSTIFICATION: as above.
        let memory: &mut [u8] = unsafe {
            let start = with_exposed_provenance_mut(start + size_of::<u64>());
            std::slice::from_raw_parts_mut(start, rest.len())
        };
        exclusive_or(memory, rest);
    }
}

fn map_at(
    address: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> io::Result<()> {
    // SAFETY: the callers say why nothing is lost that is there.
    // JUSTIFICATION: nix's wrapper is unsafe as well.
    let mapped = unsafe {
        libc::mmap(with_exposed_provenance_mut(address), bytes, protection, flags, fd, offset)
    };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether what is written to a mapping is the process's own, or its children's and the file's too.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Sharing {
    Private = libc::MAP_PRIVATE,
    Shared = libc::MAP_SHARED,
}

/// Puts the file's content in the place of what is there.
pub(crate) fn replace_by_file(
    _: &Replacing,
    at: Range<usize>,
    protection: ProtFlags,
    sharing: Sharing,
    file: BorrowedFd<'_>,
    offset: u64,
) -> io::Result<()> {
    let offset = i64::try_from(offset).map_err(io::Error::other)?;
    let flags = sharing as c_int | libc::MAP_FIXED;
    map_at(at.start, at.len(), protection.bits(), flags, file.as_raw_fd(), offset)
}

/// Puts zeroes in the place of what is there.
pub(crate) fn replace_by_zeroes(
    _: &Replacing,
    at: Range<usize>,
    protection: ProtFlags,
    sharing: Sharing,
) -> io::Result<()> {
    let flags = sharing as c_int | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    map_at(at.start, at.len(), protection.bits(), flags, -1, 0)
}

/// Takes back what was written to a private mapping: madvise(2), MADV_DONTNEED.
pub(crate) fn forget_changes(_: &Replacing, at: Range<usize>) -> io::Result<()> {
    // SAFETY: `Replacing`. JUSTIFICATION: nix's wrapper is unsafe as well.
    check(c_long::from(unsafe {
        libc::madvise(with_exposed_provenance_mut(at.start), at.len(), libc::MADV_DONTNEED)
    }))
    .map(drop)
}

pub(crate) fn unmap(_: &Replacing, at: Range<usize>) -> io::Result<()> {
    // SAFETY: `Replacing`. JUSTIFICATION: nix's wrapper is unsafe as well.
    check(c_long::from(unsafe { libc::munmap(with_exposed_provenance_mut(at.start), at.len()) }))
        .map(drop)
}

pub(crate) fn protect(_: &Replacing, at: Range<usize>, protection: ProtFlags) -> io::Result<()> {
    // SAFETY: `Replacing`. JUSTIFICATION: nix's wrapper is unsafe as well.
    check(c_long::from(unsafe {
        libc::mprotect(with_exposed_provenance_mut(at.start), at.len(), protection.bits())
    }))
    .map(drop)
}

/// Closes a descriptor that the process has by its number only.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: it was opened for this, and no owner of it is in memory.
    // JUSTIFICATION: whoever owned it is no more.
    unsafe { libc::close(fd) };
}

/// Where the heap ends: brk(2).
pub(crate) fn heap_end() -> usize {
    // SAFETY: only asks. JUSTIFICATION: no library has it.
    unsafe { libc::sbrk(0) }.addr()
}

pub(crate) fn set_heap_end(_: &Replacing, end: usize) -> io::Result<()> {
    // SAFETY: `Replacing`. JUSTIFICATION: as above.
    check(c_long::from(unsafe { libc::brk(with_exposed_provenance_mut(end)) })).map(drop)
}

/// Writes a number to where libc keeps the calling thread's id.
pub(crate) fn set_thread_id(_: &Replacing, address: usize, id: i32) {
    // SAFETY: the address is the kernel's own, from before libc could have moved it, which it never does.
    // JUSTIFICATION: libc has no function for it.
    unsafe { with_exposed_provenance_mut::<i32>(address).write_volatile(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    #[test]
    fn the_lines_that_differ_make_of_one_page_the_other() {
        let mut memory = Box::new(Page([7; 4096]));
        let mut other = memory.0;
        // The first byte of all, one within a line, the last of all.
        for changed in [0, 5 * LINE_BYTES + 9, 4095] {
            other[changed] = 8;
        }
        let mut difference = other;
        exclusive_or(&mut difference, &memory.0);
        let set = lines_in(&difference);
        assert_eq!(set, 1 | 1 << 5 | 1 << 63);
        let lines: Vec<u8> = lines_of(&difference, set).flatten().copied().collect();
        assert_eq!(lines.len(), 3 * LINE_BYTES);
        change_lines(&Replacing(()), memory.0.as_mut_ptr().expose_provenance(), set, &lines);
        assert_eq!(memory.0, other);
        // Of nothing, and of fewer lines than are said to differ, nothing else changes.
        for set in [0, u64::MAX] {
            change_lines(&Replacing(()), memory.0.as_mut_ptr().expose_provenance(), set, &[]);
            assert_eq!(memory.0, other);
        }
    }
}
