//! Descriptors: sending them with the bytes of a Unix socket (`SCM_RIGHTS`, unix(7)), and knowing
//! when none are left.

use std::error::Error;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

/// Sends what goes at once of `bytes`, with all of `descriptors`, without waiting: sendmsg(2). How
/// many bytes that is.
///
/// # Errors
/// As of sendmsg(2); nothing was sent then.
pub(crate) fn send_some(
    socket: &impl AsRawFd,
    bytes: &[u8],
    descriptors: &[OwnedFd],
) -> io::Result<usize> {
    let numbers: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)?)
}

/// Whether this, or what caused it, is that this process or the host has no descriptor left
/// (`EMFILE`, `ENFILE`).
pub(crate) fn are_exhausted(error: &(dyn Error + 'static)) -> bool {
    matches!(errno(error), Some(Errno::EMFILE | Errno::ENFILE))
}

/// The system's word for this, or for what caused it.
pub(crate) fn errno(error: &(dyn Error + 'static)) -> Option<Errno> {
    let of_io = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    let errno = of_io.map(Errno::from_raw).or_else(|| error.downcast_ref::<Errno>().copied());
    errno.or_else(|| error.source().and_then(self::errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::LaunchError;

    #[test]
    fn exhaustion_is_found_behind_what_it_caused() {
        let of = |errno: Errno| LaunchError::Socket(io::Error::from(errno));
        assert!(are_exhausted(&of(Errno::EMFILE)));
        assert!(are_exhausted(&of(Errno::ENFILE)));
        assert!(are_exhausted(&Errno::EMFILE));
        assert!(!are_exhausted(&of(Errno::ENOMEM)));
        assert!(!are_exhausted(&io::Error::other("EMFILE")));
    }
}
