//! The socket inside a session on which the egress gate accepts.
//!
//! What the agent hands over may be anything if it is in tenant code's hands: it must be a TCP socket
//! that listens where it should. Whoever accepts on it must not wait for it, as flags of a socket are
//! shared with whoever else has it.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use nix::sys::socket::{SockType, getsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;
use vivarium_protocol::egress::{ADDRESS, PORT};
use vivarium_protocol::port;

use super::port::PortError;
use super::{Command, Session};

impl Session {
    /// Has the agent hand the socket over, for which it may be waited as long as for its start.
    pub async fn egress_listener(&self) -> Result<OwnedFd, PortError> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        if !self.send(Command::Egress(theirs.into())).await {
            return Err(PortError::Over);
        }
        let answered = ours.async_io(Interest::READABLE, || port::receive(&ours));
        let within = self.timing.start_timeout + ANSWER_WITHIN;
        match timeout(within, answered).await {
            Ok(Ok(Ok(socket))) => checked(socket),
            Ok(Ok(Err(error))) => Err(error.into()),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(PortError::Over)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(PortError::TimedOut),
        }
    }
}

/// Of an agent that is up.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

fn checked(socket: OwnedFd) -> Result<OwnedFd, PortError> {
    let kind = getsockopt(&socket, sockopt::SockType);
    let listens = getsockopt(&socket, sockopt::AcceptConn);
    if (kind, listens) != (Ok(SockType::Stream), Ok(true)) {
        return Err(PortError::Unusable("no socket that listens"));
    }
    let listener = TcpListener::from(socket);
    match listener.local_addr() {
        Ok(address) if address == SocketAddr::from((ADDRESS, PORT)) => Ok(listener.into()),
        _ => Err(PortError::Unusable("a socket that listens elsewhere")),
    }
}
