//! Connections to TCP servers inside a session.
//!
//! The agent makes the socket, since only there is the session's network, and hands it over on a
//! socket pair of the request's own. What comes may be anything if the agent is in tenant code's
//! hands: it must be a TCP socket, connected to the session's loopback address and port, and nothing
//! done with it may ever wait, as flags of a socket are shared with whoever else has it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream as StdStream};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::libc::linger;
use nix::sys::socket::{
    MsgFlags, Shutdown, SockType, getsockopt, recv, send, setsockopt, shutdown, sockopt,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use vivarium_protocol::discard;
use vivarium_protocol::message::{Connect, LoopbackAddress};
use vivarium_protocol::port;

use super::{Command, Session};

#[cfg(test)]
mod tests;

/// Connections to the ports of one session at one time.
pub const MAX_CONNECTIONS: usize = 64;

/// How long a connection waits for others to end where there are as many as may be.
const PERMIT_WITHIN: Duration = Duration::from_secs(10);

/// How long the agent and the server in the session may take together. A server that does not accept
/// is connected to by the host's kernel until its backlog is full.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Of each direction. The session pays for both, as for all its sockets.
const BUFFER_BYTES: usize = 256 << 10;

/// How often a connection that is used marks its session as used.
const TOUCH_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("as many connections to the session's ports are open as may be")]
    TooMany,
    #[error("the session ended")]
    Over,
    #[error("nothing listens on the port")]
    Closed,
    #[error("the port did not accept a connection in time")]
    TimedOut,
    #[error("the agent handed over {0}")]
    Unusable(&'static str),
    #[error("connect to a port: {0}")]
    Io(#[from] io::Error),
}

#[derive(Debug)]
pub struct ConnectCommand {
    pub(super) request: Connect,
    /// The agent's end of the socket over which it answers.
    pub(super) reply: OwnedFd,
}

impl Session {
    /// Connects to a port inside.
    pub async fn connect(self: &Arc<Self>, port: NonZeroU16) -> Result<PortStream, PortError> {
        let permit = match timeout(PERMIT_WITHIN, Arc::clone(&self.ports).acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) | Err(_) => return Err(PortError::TooMany),
        };
        self.touch();
        let connecting = async {
            match self.connect_to(port, LoopbackAddress::V4).await {
                Err(PortError::Closed) => self.connect_to(port, LoopbackAddress::V6).await,
                connected => connected,
            }
        };
        let stream =
            timeout(CONNECT_WITHIN, connecting).await.unwrap_or(Err(PortError::TimedOut))?;
        let session = Arc::clone(self);
        Ok(PortStream { stream, session, touched: Instant::now(), _permit: permit })
    }

    async fn connect_to(
        &self,
        port: NonZeroU16,
        address: LoopbackAddress,
    ) -> Result<TcpStream, PortError> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let command = ConnectCommand { request: Connect { port, address }, reply: theirs.into() };
        if !self.send(Command::Connect(command)).await {
            return Err(PortError::Over);
        }
        let answered = ours.async_io(Interest::READABLE, || port::receive(&ours)).await;
        let socket = match answered {
            Ok(Ok(socket)) => checked(socket)?,
            Ok(Err(error)) if is_refusal(&error) => return Err(PortError::Closed),
            Ok(Err(error)) => return Err(error.into()),
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::UnexpectedEof => PortError::Over,
                    io::ErrorKind::InvalidData => PortError::Unusable("no socket"),
                    _ => PortError::Io(error),
                });
            }
        };
        connected(TcpStream::from_std(socket)?, port, address).await
    }
}

/// Whether connect(2) says that nothing listens, or that there is no such address.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::AddrNotAvailable)
}

/// A TCP socket, set up so that it neither waits nor takes much memory.
fn checked(socket: OwnedFd) -> Result<StdStream, PortError> {
    let kind = getsockopt(&socket, sockopt::SockType);
    let listens = getsockopt(&socket, sockopt::AcceptConn);
    if (kind, listens) != (Ok(SockType::Stream), Ok(false)) {
        return Err(PortError::Unusable("no stream socket"));
    }
    let stream = StdStream::from(socket);
    if stream.local_addr().is_err() || stream.set_nodelay(true).is_err() {
        return Err(PortError::Unusable("no TCP socket"));
    }
    stream.set_nonblocking(true)?;
    for set in [
        setsockopt(&stream, sockopt::RcvBuf, &BUFFER_BYTES),
        setsockopt(&stream, sockopt::SndBuf, &BUFFER_BYTES),
        do_not_linger(&stream),
    ] {
        set.map_err(io::Error::from)?;
    }
    Ok(stream)
}

/// Has close(2) not wait for the peer: socket(7), `SO_LINGER`.
fn do_not_linger(stream: &impl AsFd) -> nix::Result<()> {
    setsockopt(stream, sockopt::Linger, &linger { l_onoff: 0, l_linger: 0 })
}

/// Waits until a socket is connected, to where it was to be.
async fn connected(
    stream: TcpStream,
    port: NonZeroU16,
    address: LoopbackAddress,
) -> Result<TcpStream, PortError> {
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) if is_refusal(&error) => return Err(PortError::Closed),
        Some(error) => return Err(error.into()),
        None => {}
    }
    let expected: SocketAddr = match address {
        LoopbackAddress::V4 => (Ipv4Addr::LOCALHOST, port.get()).into(),
        LoopbackAddress::V6 => (Ipv6Addr::LOCALHOST, port.get()).into(),
    };
    let found = stream.peer_addr().map_err(|_| PortError::Unusable("a socket without a peer"))?;
    if found != expected {
        return Err(PortError::Unusable("a socket that is connected elsewhere"));
    }
    // A client's port may be the very port it connects to, if nothing listens there: it then has
    // itself as its peer (RFC 9293, 3.5, simultaneous open).
    if stream.local_addr()? == found {
        return Err(PortError::Closed);
    }
    Ok(stream)
}

/// A connection to a port of a session.
#[derive(Debug)]
pub struct PortStream {
    stream: TcpStream,
    session: Arc<Session>,
    touched: Instant,
    _permit: OwnedSemaphorePermit,
}

impl PortStream {
    fn touch(&mut self) {
        if self.touched.elapsed() >= TOUCH_EVERY {
            self.touched = Instant::now();
            self.session.touch();
        }
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let stream = &self.stream;
            // Not the runtime's read, which would wait if somebody else cleared O_NONBLOCK.
            let read = stream.try_io(Interest::READABLE, || {
                let free = buffer.initialize_unfilled();
                Ok(recv(stream.as_raw_fd(), free, MsgFlags::MSG_DONTWAIT)?)
            });
            match read {
                Ok(len) => {
                    buffer.advance(len);
                    self.touch();
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            let stream = &self.stream;
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let sent =
                stream.try_io(Interest::WRITABLE, || Ok(send(stream.as_raw_fd(), bytes, flags)?));
            match sent {
                Ok(len) => {
                    self.touch();
                    return Poll::Ready(Ok(len));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        discard(shutdown(self.stream.as_raw_fd(), Shutdown::Write), "the peer may be gone");
        Poll::Ready(Ok(()))
    }
}

impl Drop for PortStream {
    fn drop(&mut self) {
        discard(do_not_linger(&self.stream), "it was so when it came");
    }
}
