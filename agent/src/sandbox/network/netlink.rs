//! Messages of netlink(7) to the kernel's packet filter, and what it answers.
//!
//! Attributes are written and read here, and mean nothing here. Numbers in attributes of nfnetlink are in
//! network order, those in headers in the host's.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

/// linux/netlink.h
pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACK: u16 = 0x4;
pub(super) const CREATE: u16 = 0x400;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const APPEND: u16 = 0x800;
pub(super) const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NESTED: u16 = 0x8000;
const KIND: u16 = 0x3fff;

const HEADER: usize = 16;
/// `struct nfgenmsg`.
const FAMILY_HEADER: usize = 4;
/// linux/netfilter/nfnetlink.h, `NFNL_SUBSYS_NFTABLES`.
pub(super) const SUBSYSTEM: u16 = 10;
const INET: u8 = 1;

/// Attributes, one after the other.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let len = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), b"\0"].concat())
    }

    pub(super) fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }
}

/// Attributes that were received, by kind. Those that are cut off are not there.
pub(super) fn read(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((len, kind)) = pair(bytes) {
        let len = usize::from(len);
        let Some(value) = bytes.get(4..len) else { break };
        found.push((kind & KIND, value));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The first attribute of this kind.
pub(super) fn find<'a>(attributes: &[(u16, &'a [u8])], kind: u16) -> Option<&'a [u8]> {
    attributes.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value)
}

pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

pub(super) fn text(value: &[u8]) -> Option<String> {
    let text = value.strip_suffix(b"\0")?;
    String::from_utf8(text.to_vec()).ok()
}

fn pair(bytes: &[u8]) -> Option<(u16, u16)> {
    match *bytes {
        [a, b, c, d, ..] => Some((u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))),
        _ => None,
    }
}

/// One message: a header, nfnetlink's own, attributes.
pub(super) fn message(kind: u16, flags: u16, attributes: &Attributes) -> Vec<u8> {
    let (family, resource) = if kind < SUBSYSTEM << 8 { (0, SUBSYSTEM) } else { (INET, 0) };
    let len = HEADER + FAMILY_HEADER + attributes.0.len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(u32::try_from(len).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | REQUEST).to_ne_bytes());
    bytes.extend([0; 8]); // no sequence, no port
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(&attributes.0);
    bytes
}

pub(super) struct Socket(OwnedFd);

/// A message that was received, without its headers.
pub(super) struct Received {
    pub(super) kind: u16,
    pub(super) attributes: Vec<u8>,
}

impl Socket {
    pub(super) fn open() -> io::Result<Self> {
        let protocol = SockProtocol::NetlinkNetFilter;
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Sends messages of which the kernel acknowledges `acks`, and waits for these.
    ///
    /// # Errors
    /// The kernel's, for the first message that it refused.
    pub(super) fn commit(&self, messages: &[u8], acks: usize) -> io::Result<()> {
        self.send(messages)?;
        let mut left = acks;
        while left > 0 {
            for (kind, body) in split(&self.receive()?) {
                if kind == ERROR {
                    check(body)?;
                    left = left.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    /// Asks for all of something.
    pub(super) fn dump(&self, kind: u16, attributes: &Attributes) -> io::Result<Vec<Received>> {
        self.send(&message(kind, DUMP, attributes))?;
        let mut found = Vec::new();
        loop {
            for (kind, body) in split(&self.receive()?) {
                match kind {
                    DONE => return Ok(found),
                    ERROR => check(body)?,
                    _ => {
                        let attributes = body.get(FAMILY_HEADER..).unwrap_or_default().to_vec();
                        found.push(Received { kind, attributes });
                    }
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let kernel = NetlinkAddr::new(0, 0);
        let sent = sendto(self.0.as_raw_fd(), bytes, &kernel, MsgFlags::empty())?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// One datagram. The kernel fills at most 32 KiB.
    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; 1 << 16];
        let len = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        buffer.truncate(len);
        if len < HEADER { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(buffer) }
    }
}

/// The messages of a datagram: the kind of each, and what follows its header.
fn split(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some(&[a, b, c, d, e, f]) = bytes.first_chunk() {
        let len = usize::try_from(u32::from_ne_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let Some(body) = bytes.get(HEADER..len) else { break };
        found.push((u16::from_ne_bytes([e, f]), body));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// An error message, which with 0 is an acknowledgement.
fn check(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().copied().map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let inner = Attributes::default().number(1, 7).text(2, "name");
        let all = Attributes::default().bytes(3, &[1]).nest(4, &inner);
        let found = read(&all.0);
        assert_eq!(found.first(), Some(&(3, &[1][..])));
        let inner = read(find(&found, 4).unwrap());
        assert_eq!(find(&inner, 1).and_then(number), Some(7));
        assert_eq!(find(&inner, 2).and_then(text).as_deref(), Some("name"));
    }

    #[test]
    fn what_is_cut_off_is_not_read() {
        let all = Attributes::default().bytes(1, &[1; 4]).bytes(2, &[2; 8]).0;
        for len in 0..all.len() {
            let found = read(all.get(..len).unwrap());
            assert!(found.len() <= 1, "{len}: {found:?}");
            assert!(split(all.get(..len).unwrap()).is_empty());
        }
        // A length that leads nowhere.
        assert!(read(&[0, 0, 1, 0, 0, 0, 1, 0]).is_empty());
        assert!(split(&[0; 64]).is_empty());
        assert!(check(&[0; 3]).is_err());
        check(&[0; 4]).unwrap();
        let refused = check(&(-1_i32).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }
}
