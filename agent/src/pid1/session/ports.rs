//! Connections to servers that tenant code runs, for the supervisor, and the socket on which the egress
//! gate accepts.
//!
//! The agent only makes the sockets, inside the session's network namespace, and hands them over: it
//! neither waits for a connection nor reads or writes a byte of it.

use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, connect, socket,
};
use vivarium_protocol::discard;
use vivarium_protocol::message::{Connect, LoopbackAddress};
use vivarium_protocol::port;

use super::Session;
use crate::sandbox::Context;

impl Session<'_> {
    /// Hands a connecting socket, or why there is none, to whoever has the other end of the socket
    /// that came with the message.
    pub(super) fn connect(&mut self, Connect { port, address }: Connect) {
        // Without one nobody can be told.
        let Ok(reply) = self.control.descriptor() else { return };
        let connecting = begin(self.sandbox, port, address);
        let answer = connecting.as_ref().map(AsFd::as_fd).map_err(|errno| *errno as i32);
        discard(port::answer(&reply, answer), "who asked may be gone");
    }

    /// The same with the socket on which the egress gate accepts.
    pub(super) fn hand_out_egress(&mut self) {
        let Ok(reply) = self.control.descriptor() else { return };
        let listener = self.egress.as_ref().map(AsFd::as_fd);
        let answer = listener.ok_or(Errno::ENETUNREACH as i32);
        discard(port::answer(&reply, answer), "who asked may be gone");
    }
}

fn begin(context: &Context, port: NonZeroU16, address: LoopbackAddress) -> Result<OwnedFd, Errno> {
    // Any other network is the host's, or has nothing that listens.
    if !context.policy.has_own_loopback() {
        return Err(Errno::ENETUNREACH);
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = |family| socket(family, SockType::Stream, flags, None);
    let (socket, begun) = match address {
        LoopbackAddress::V4 => {
            let socket = stream(AddressFamily::Inet)?;
            let to = SockaddrIn::new(127, 0, 0, 1, port.get());
            let begun = connect(socket.as_raw_fd(), &to);
            (socket, begun)
        }
        LoopbackAddress::V6 => {
            let socket = stream(AddressFamily::Inet6)?;
            let to = std::net::SocketAddrV6::new(std::net::Ipv6Addr::LOCALHOST, port.get(), 0, 0);
            let begun = connect(socket.as_raw_fd(), &SockaddrIn6::from(to));
            (socket, begun)
        }
    };
    match begun {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;

    use vivarium_protocol::policy::Network;

    use super::*;
    use crate::sandbox::fixture;

    fn begin_with(network: Network, port: u16, to: LoopbackAddress) -> Result<OwnedFd, Errno> {
        let context = fixture::context(&[], network, Path::new("/"));
        begin(&context, NonZeroU16::new(port).unwrap(), to)
    }

    #[test]
    fn socket_leads_to_the_port_of_either_address() {
        for (listen, to) in [("127.0.0.1:0", LoopbackAddress::V4), ("[::1]:0", LoopbackAddress::V6)]
        {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().unwrap().port();
            let mut ours = TcpStream::from(begin_with(Network::Loopback, port, to).unwrap());
            ours.set_nonblocking(false).unwrap();
            listener.accept().unwrap().0.write_all(b"x").unwrap();
            let mut bytes = Vec::new();
            ours.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, b"x", "{listen}");
        }
    }

    #[test]
    fn only_sessions_with_a_loopback_of_their_own_have_ports() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for network in [Network::None, Network::Full] {
            let refused = begin_with(network, port, LoopbackAddress::V4).unwrap_err();
            assert_eq!(refused, Errno::ENETUNREACH, "{network:?}");
        }
    }
}
