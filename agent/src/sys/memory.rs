//! Memory that is overwritten when it is done with. A part of [`super`], where unsafe code may stand.
//!
//! A process that is forked from a template becomes a tenant's with all its memory, and what it has
//! received until then is not the tenant's to know: the path of its cgroup, with the tenant's name.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::SingleThreaded;

/// The system's allocator. What is freed is overwritten, where [`overwrite_freed_memory`] says so.
struct Overwriting;

#[global_allocator]
static ALLOCATOR: Overwriting = Overwriting;

static OVERWRITES: AtomicBool = AtomicBool::new(false);

/// Whether from now on this library overwrites what it frees.
pub(crate) fn overwrite_freed_memory(does: bool) {
    OVERWRITES.store(does, Ordering::Relaxed);
}

// SAFETY: all of it is the system's allocator, which is given what it gave; a block is written to
// before it is freed, within its size.
// JUSTIFICATION: the trait is unsafe to implement.
unsafe impl GlobalAlloc for Overwriting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise. JUSTIFICATION: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise. JUSTIFICATION: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block has this size and is nobody's any more. JUSTIFICATION: as above.
        unsafe {
            if OVERWRITES.load(Ordering::Relaxed) {
                libc::explicit_bzero(block.cast(), layout.size());
            }
            System.dealloc(block, layout);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: the size is not 0 and does not overflow with the alignment;
        // both blocks have the bytes that are copied. JUSTIFICATION: as above.
        unsafe {
            if !OVERWRITES.load(Ordering::Relaxed) {
                return System.realloc(block, layout, size);
            }
            let moved = System.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// What a process was executed with, where execve(2) has put it.
#[derive(Debug, Clone)]
pub(crate) struct StartedWith {
    /// The arguments after the first, which is the program's name.
    arguments: Range<usize>,
    environment: Range<usize>,
}

impl StartedWith {
    /// Where it is: `arg_start` to `env_end` of `proc_pid_stat(5)`.
    pub(crate) fn find() -> io::Result<Self> {
        let unknown = || io::Error::other("/proc/self/stat does not say where the arguments are");
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // The name in parentheses may have anything in it; `state`, field 3, follows it.
        let (_, fields) = stat.rsplit_once(')').ok_or_else(unknown)?;
        let numbers = fields.split_whitespace().skip(48 - 3).take(4);
        let numbers: Vec<usize> =
            numbers.map(str::parse).collect::<Result<_, _>>().map_err(|_| unknown())?;
        let [start, end, environment, environment_end] = numbers[..] else {
            return Err(unknown());
        };
        if start == 0 || start > end || environment == 0 || environment > environment_end {
            return Err(unknown());
        }
        // SAFETY: the first argument, which ends in NUL, is where the kernel says.
        // JUSTIFICATION: there is no other way to memory by its address.
        let name = unsafe { std::ffi::CStr::from_ptr(std::ptr::with_exposed_provenance(start)) };
        let arguments = (start + name.count_bytes() + 1).min(end)..end;
        Ok(Self { arguments, environment: environment..environment_end })
    }

    /// Overwrites it with zeroes. What still refers to it reads empty strings: Python has copied its
    /// arguments, and the environment is another.
    pub(crate) fn overwrite(&self, _: SingleThreaded) {
        for span in [&self.arguments, &self.environment] {
            let start = std::ptr::with_exposed_provenance_mut(span.start);
            // SAFETY: the kernel's own account of where the strings are, on the stack, which nobody
            // has unmapped and Rust has no reference to; every byte stays a C string's, and no other
            // thread reads one meanwhile.
            // JUSTIFICATION: as above.
            unsafe { libc::explicit_bzero(start, span.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn at(span: &Range<usize>) -> &'static [u8] {
        let start = std::ptr::with_exposed_provenance(span.start);
        // SAFETY: as of `StartedWith::overwrite`. JUSTIFICATION: as there.
        unsafe { std::slice::from_raw_parts(start, span.len()) }
    }

    #[test]
    fn arguments_and_environment_are_found() {
        let found = StartedWith::find().unwrap();
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        let joined: Vec<u8> =
            arguments.iter().flat_map(|one| [one.as_bytes(), b"\0"].concat()).collect();
        assert_eq!(at(&found.arguments), joined);
        let (name, value) = std::env::vars_os().next().unwrap();
        let variable = [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
        assert!(at(&found.environment).windows(variable.len()).any(|at| at == variable));
    }
}
