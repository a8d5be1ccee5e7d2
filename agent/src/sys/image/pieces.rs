//! Pieces of memory, written to descriptors and filled from them by readv(2) and writev(2). A part of [`super`].

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::with_exposed_provenance_mut;

use super::Replacing;

/// A piece of this process's memory, by its address.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Piece(libc::iovec);

impl Piece {
    pub(crate) fn new(at: &Range<usize>) -> Self {
        let iov_base = with_exposed_provenance_mut(at.start);
        Self(libc::iovec { iov_base, iov_len: at.len() })
    }
}

/// Writes all pieces.
pub(crate) fn write_pieces(fd: BorrowedFd<'_>, pieces: &mut [Piece]) -> io::Result<()> {
    transfer(pieces, |pieces, count| {
        // SAFETY: writing reads memory, and none that is not there (EFAULT).
        // JUSTIFICATION: slices of memory that other code owns would not be sound.
        unsafe { libc::writev(fd.as_raw_fd(), pieces, count) }
    })
}

/// Fills all pieces.
pub(crate) fn read_pieces(_: &Replacing, fd: RawFd, pieces: &mut [Piece]) -> io::Result<()> {
    transfer(pieces, |pieces, count| {
        // SAFETY: `Replacing`. JUSTIFICATION: as above.
        unsafe { libc::readv(fd, pieces, count) }
    })
}

/// Reads at least a byte, and as many as there are.
pub(crate) fn read_some(fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: `into` outlives the call, which fills no more of it than it has.
        // JUSTIFICATION: nix wants an owner of the descriptor, which is in memory that was replaced.
        let count = unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) };
        match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

fn transfer(
    pieces: &mut [Piece],
    call: impl Fn(*const libc::iovec, c_int) -> isize,
) -> io::Result<()> {
    let mut first = 0;
    while let Some(rest) = pieces.get_mut(first..).filter(|rest| !rest.is_empty()) {
        let count = c_int::try_from(rest.len()).map_err(io::Error::other)?;
        let mut done = match usize::try_from(call(rest.as_ptr().cast(), count)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(done) => done,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
        };
        for Piece(piece) in rest {
            if done < piece.iov_len {
                piece.iov_base = piece.iov_base.wrapping_byte_add(done);
                piece.iov_len -= done;
                break;
            }
            done -= piece.iov_len;
            first += 1;
        }
    }
    Ok(())
}
