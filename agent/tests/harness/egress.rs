//! The socket on which the egress gate accepts.

use std::net::TcpListener;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::port;

use super::*;

impl Session {
    /// Asks for the socket on which the egress gate accepts, and for the errno if there is none.
    pub(crate) fn egress_listener(&self) -> Result<TcpListener, i32> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_with(&self.socket, &ToAgent::Egress, &[theirs], MAX_FRAME_BYTES).unwrap();
        let mut fds = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(60_000u16)).unwrap();
        match port::receive(&ours).unwrap() {
            Ok(socket) => Ok(socket.into()),
            Err(error) => Err(error.raw_os_error().unwrap()),
        }
    }
}
