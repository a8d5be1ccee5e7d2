//! Closing and replacing descriptors by their numbers. A part of [`super`], where unsafe code may stand.

use std::ffi::{CString, c_int, c_long, c_uint};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{Pid, execveat, getpid};

use super::{check, owned};

/// Proof that this process may close and replace every descriptor by its number: it has just started, or is a
/// forked child. What owns descriptors in a child is a copy of its parent's: who uses up this proof never
/// drops or uses such a copy again, but forgets it, executes a program, or ends by `_exit`.
#[derive(Debug)]
pub(crate) struct DescriptorTable(());

impl DescriptorTable {
    /// Of the program that has just started, with the supervisor's socket, its standard input. `None` if
    /// they were taken before.
    pub(crate) fn at_start() -> Option<(Self, UnixStream)> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        // SAFETY: Rust's runtime sees to it that 0 is open, and nothing but this owns it.
        Some((Self(()), unsafe { inherited(&TAKEN, libc::STDIN_FILENO)? }))
    }

    /// Of the child of a fork that a function of [`super`] has made.
    pub(super) const fn of_child() -> Self {
        Self(())
    }

    /// Of a child that code of others forked from the process `parent`; `None` if this is not one.
    pub(crate) fn after_fork_of(parent: Pid) -> Option<Self> {
        (getpid() != parent).then_some(Self(()))
    }

    /// Closes every descriptor from `first` on: close_range(2).
    pub(crate) fn close_from(&self, first: c_uint) -> io::Result<()> {
        self.close(first, c_uint::MAX)
    }

    /// Closes every descriptor from 3 on but these.
    pub(crate) fn close_all_but(&self, kept: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut kept: Vec<_> = kept.iter().map(|fd| fd.as_raw_fd().cast_unsigned()).collect();
        kept.sort_unstable();
        let mut first = 3;
        for fd in kept {
            if first < fd {
                self.close(first, fd - 1)?;
            }
            first = fd + 1;
        }
        self.close_from(first)
    }

    fn close(&self, first: c_uint, last: c_uint) -> io::Result<()> {
        // SAFETY: plain numbers. `self` proves that nothing relies on what is open at them.
        // JUSTIFICATION: no safe wrapper, as closing what others may own is theirs to break.
        check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
    }

    /// Puts `fds` at the numbers 0, 1, 2, … and `last` after them, and closes every other descriptor but
    /// that of [`HELD_PROGRAM`]. Only these two close at execve(2).
    pub(crate) fn place(
        self,
        fds: &[BorrowedFd<'_>],
        last: BorrowedFd<'_>,
        program: Option<&HeldProgram>,
    ) -> io::Result<PlacedDescriptors> {
        // First all of them above the target range, so that placing one never overwrites another.
        let above = c_int::try_from(fds.len()).map_err(io::Error::other)?.saturating_add(1);
        let mut copies = Vec::with_capacity(fds.len() + 1);
        for fd in fds.iter().chain([&last]) {
            // SAFETY: plain numbers. JUSTIFICATION: nix's wrapper returns what it can not own.
            let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, above) };
            copies.push(c_int::try_from(check(c_long::from(copy))?).map_err(io::Error::other)?);
        }
        for (target, copy) in (0..).zip(copies) {
            let flags = if target + 1 == above { libc::O_CLOEXEC } else { 0 };
            // SAFETY: plain numbers. `self` proves that nothing relies on what is open at `target`.
            // JUSTIFICATION: a safe dup3 needs an OwnedFd of the target, which nobody has.
            check(c_long::from(unsafe { libc::dup3(copy, target, flags) }))?;
        }
        let mut first = c_uint::try_from(above).map_err(io::Error::other)?;
        if let Some(HeldProgram(held)) = program {
            let held = held.as_raw_fd().cast_unsigned();
            self.close(first, held.saturating_sub(1))?;
            first = held.saturating_add(1);
        }
        self.close_from(first)?;
        Ok(PlacedDescriptors((0..above).map(Some).collect()))
    }
}

/// The number at which a program is open that a process is to become: no descriptor that the process opens
/// later has it, as its `RLIMIT_NOFILE` is no higher.
pub(crate) const HELD_PROGRAM: RawFd = 1000;

/// A program that is open at [`HELD_PROGRAM`] until it is executed.
#[derive(Debug)]
pub(crate) struct HeldProgram(OwnedFd);

impl HeldProgram {
    /// Opens it: `O_PATH` of open(2), which execveat(2) is content with.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        // SAFETY: plain numbers. JUSTIFICATION: nix's wrapper returns what it can not own.
        let held = owned(c_long::from(unsafe {
            libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HELD_PROGRAM)
        }))?;
        if held.as_raw_fd() == HELD_PROGRAM {
            Ok(Self(held))
        } else {
            Err(io::Error::other(format!("descriptor {HELD_PROGRAM} is in use")))
        }
    }

    /// Has the process be this program.
    pub(crate) fn execute(&self, arguments: &[CString], environment: &[CString]) -> Errno {
        let Err(errno) = execveat(&self.0, c"", arguments, environment, AtFlags::AT_EMPTY_PATH);
        errno
    }
}

/// The descriptors of a process that has no others, each by its number until it is taken.
#[derive(Debug)]
pub(crate) struct PlacedDescriptors(Vec<Option<RawFd>>);

impl PlacedDescriptors {
    /// Takes ownership of the descriptor at `number`, once.
    pub(crate) fn take(&mut self, number: usize) -> io::Result<OwnedFd> {
        let fd = self.0.get_mut(number).and_then(Option::take);
        let fd = fd.ok_or_else(|| io::Error::other("it was not placed, or is taken"))?;
        // SAFETY: `DescriptorTable::place` has made this descriptor, and this gives it out once.
        // JUSTIFICATION: dup3 gives no OwnedFd.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The supervisor's socket of the Python that a zygote executes; `None` if it was taken before.
///
/// # Safety
/// A zygote has executed this process, and nothing else in it uses descriptor 3.
pub(crate) unsafe fn take_python_control() -> Option<UnixStream> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // SAFETY: the caller's promise; the zygote places the socket there.
    // JUSTIFICATION: as below.
    unsafe { inherited(&TAKEN, 3) }
}

/// Takes ownership of the socket at `number`, once.
///
/// # Safety
/// The socket was there when this process was executed, and nothing else in it owns or closes it.
unsafe fn inherited(taken: &AtomicBool, number: RawFd) -> Option<UnixStream> {
    if taken.swap(true, Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the caller's promise, and it is given out once.
    // JUSTIFICATION: an inherited descriptor is a number until somebody owns it.
    Some(UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Makes `target` another name of what `source` is open on: dup2(2). What `target` was open on is let go
/// of.
pub(crate) fn replace(target: BorrowedFd<'_>, source: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are open; the owner of `target` keeps owning a valid descriptor.
    // JUSTIFICATION: nix's dup2 wants the target as `&mut OwnedFd`, which a UnixStream hides.
    check(c_long::from(unsafe { libc::dup2(source.as_raw_fd(), target.as_raw_fd()) })).map(drop)
}

pub(crate) fn open_null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/dev/null")?.into())
}
