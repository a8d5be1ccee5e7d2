//! The answer to [`crate::message::ToAgent::Connect`]: the errno of connect(2), or 0 and with it, as
//! its only descriptor (`SCM_RIGHTS`), the socket, which may still be connecting. That to
//! [`crate::message::ToAgent::Egress`] is the same with a socket that listens.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::stream::{recv_some, send_some};

const LEN: usize = size_of::<i32>();

/// Sends the answer. It is small, so that a fresh socket takes it whole.
///
/// # Errors
/// As of sendmsg(2).
pub fn answer(reply: impl AsFd, connected: Result<BorrowedFd<'_>, i32>) -> io::Result<()> {
    let (errno, socket) = match connected {
        Ok(socket) => (0, Some(socket)),
        Err(errno) => (errno, None),
    };
    send_some(reply, &i32::to_le_bytes(errno), socket.as_slice()).map(drop)
}

/// Receives the answer, without waiting. The inner error is connect(2)'s.
///
/// # Errors
/// As of recvmsg(2), and if there is no answer, or none of this form.
pub fn receive(reply: impl AsFd) -> io::Result<Result<OwnedFd, io::Error>> {
    let mut errno = [0; LEN];
    let (len, descriptors) = recv_some(reply, &mut errno)?;
    let mut descriptors = descriptors.into_iter();
    match (len, i32::from_le_bytes(errno), descriptors.next(), descriptors.next()) {
        (LEN, 0, Some(socket), None) => Ok(Ok(socket)),
        (LEN, errno @ 1.., None, None) => Ok(Err(io::Error::from_raw_os_error(errno))),
        (0, ..) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
#[cfg(not(miri))] // which has no sendmsg(2)
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn socket_or_errno_arrives() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        answer(&theirs, Ok(theirs.as_fd())).unwrap();
        receive(&ours).unwrap().unwrap();
        answer(&theirs, Err(111)).unwrap();
        let error = receive(&ours).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn anything_else_is_refused() {
        let refused = |bytes: &[u8], descriptors: usize| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let descriptors = vec![theirs.as_fd(); descriptors];
            send_some(&theirs, bytes, &descriptors).unwrap();
            receive(&ours).unwrap_err().kind()
        };
        let zero = [0; 4];
        for (bytes, descriptors) in
            [(&zero[..], 0), (&zero, 2), (&[111, 0, 0, 0], 1), (&[0, 0], 1), (&[255; 4], 0)]
        {
            let found = refused(bytes, descriptors);
            assert_eq!(found, io::ErrorKind::InvalidData, "{bytes:?} {descriptors}");
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(receive(&ours).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(theirs);
        assert_eq!(receive(&ours).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
