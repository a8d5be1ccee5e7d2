//! Descriptors that go with the bytes of a Unix socket: `SCM_RIGHTS`, unix(7).

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};

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
