//! The first message of TLS: whom a client wants to speak to (RFC 8446, 4.1.2; RFC 6066, 3).
//!
//! Reads what tenant code sends. It never holds more than [`MAX_BYTES`] of it, and reads the name
//! alone: everything else is for the destination.

use vivarium_egress::Name;

/// The most bytes until the message is whole, records' headers included. Clients with post-quantum
/// keys send some 2 KiB.
pub(crate) const MAX_BYTES: usize = 32 << 10;

/// The first byte of TLS: a handshake record.
pub(crate) const HANDSHAKE: u8 = 22;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const MAX_RECORD: usize = 1 << 14;

/// Why bytes are no ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HelloError {
    #[error("not the beginning of TLS")]
    NotTls,
    #[error("a ClientHello of over {MAX_BYTES} bytes")]
    TooLong,
    #[error("a malformed ClientHello")]
    Malformed,
}

/// The name in a ClientHello that begins `bytes`: `None` while more is to come, `Some(None)` if it
/// has none.
///
/// # Errors
/// As soon as the bytes can not become one.
pub(crate) fn server_name(bytes: &[u8]) -> Result<Option<Option<Name>>, HelloError> {
    let Some(message) = handshake_message(bytes)? else {
        return if bytes.len() >= MAX_BYTES { Err(HelloError::TooLong) } else { Ok(None) };
    };
    name_in(&message).ok_or(HelloError::Malformed)?.map(Some)
}

/// The body of the first handshake message, put together from its records.
fn handshake_message(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, HelloError> {
    let mut message = Vec::new();
    loop {
        if let Some((&kind, rest)) = message.split_first() {
            if kind != CLIENT_HELLO {
                return Err(HelloError::NotTls);
            }
            if let Some(([a, b, c], body)) = rest.split_first_chunk::<3>() {
                let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                if len > MAX_BYTES {
                    return Err(HelloError::TooLong);
                }
                if let Some(body) = body.get(..len) {
                    return Ok(Some(body.to_vec()));
                }
            }
        }
        match bytes {
            [] | [HANDSHAKE] | [HANDSHAKE, 3] => return Ok(None),
            [HANDSHAKE, 3, _] | [HANDSHAKE, 3, _, _] => return Ok(None),
            [HANDSHAKE, 3, _, high, low, rest @ ..] => {
                let len = usize::from(*high) << 8 | usize::from(*low);
                // A record without content is legal, and of use to nobody but one who hides.
                if len == 0 || len > MAX_RECORD {
                    return Err(HelloError::Malformed);
                }
                let Some((content, after)) = rest.split_at_checked(len) else {
                    return Ok(None);
                };
                message.extend_from_slice(content);
                bytes = after;
            }
            _ => return Err(HelloError::NotTls),
        }
    }
}

/// Reads on in a message: whatever is cut off ends it.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.take(2)?.first_chunk()?))
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let len = self.byte()?;
        self.take(usize::from(len))
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::from(len))
    }
}

/// `None` if the message is malformed; else the name, or why it is none.
fn name_in(message: &[u8]) -> Option<Result<Option<Name>, HelloError>> {
    let mut reader = Reader(message);
    reader.take(2 + 32)?; // version and random
    reader.short()?; // session
    reader.long()?; // cipher suites
    reader.short()?; // compression
    if reader.0.is_empty() {
        return Some(Ok(None));
    }
    let mut extensions = Reader(reader.long()?);
    if !reader.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long()?;
        if kind == SERVER_NAME {
            // Of two, a destination could take the other.
            if found.is_some() {
                return None;
            }
            found = Some(host_name(content)?);
        }
    }
    Some(Ok(found))
}

/// The one name of the extension.
fn host_name(extension: &[u8]) -> Option<Name> {
    let mut reader = Reader(extension);
    let mut list = Reader(reader.long()?);
    let kind = list.byte()?;
    let name = list.long()?;
    if !reader.0.is_empty() || !list.0.is_empty() || kind != HOST_NAME {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn long(content: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(content.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), long(content)].concat()
    }

    pub(crate) fn sni(name: &str) -> Vec<u8> {
        let entry = [vec![HOST_NAME], long(name.as_bytes())].concat();
        extension(SERVER_NAME, &long(&entry))
    }

    pub(crate) fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(long(&[0x13, 0x01]));
        body.extend([1, 0]);
        body.extend(long(extensions));
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO, len[1], len[2], len[3]], &body[..]].concat()
    }

    /// In records of at most `piece` bytes.
    pub(crate) fn records(message: &[u8], piece: usize) -> Vec<u8> {
        message
            .chunks(piece)
            .flat_map(|part| [vec![HANDSHAKE, 3, 1], long(part)].concat())
            .collect()
    }

    fn read(bytes: &[u8]) -> Result<Option<Option<String>>, HelloError> {
        server_name(bytes).map(|name| name.map(|name| name.map(String::from)))
    }

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        let message = message(
            &[extension(43, &[2, 3, 4]), sni("API.example.com"), extension(51, &[0; 1200])]
                .concat(),
        );
        let expected = Ok(Some(Some("api.example.com".to_owned())));
        for piece in [1, 2, 3, 50, 4096] {
            let bytes = records(&message, piece);
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Ok(None), "{piece} {cut}");
            }
            assert_eq!(read(&bytes), expected, "{piece}");
            assert_eq!(read(&[&bytes[..], b"more"].concat()), expected);
        }
    }

    #[test]
    fn a_hello_without_a_name_says_so() {
        assert_eq!(read(&records(&message(&[]), 4096)), Ok(Some(None)));
        assert_eq!(read(&records(&message(&extension(43, &[2, 3, 4])), 4096)), Ok(Some(None)));
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        let malformed = |extensions: Vec<u8>| {
            assert_eq!(read(&records(&message(&extensions), 4096)), Err(HelloError::Malformed));
        };
        malformed([sni("a.com"), sni("b.com")].concat());
        let two = [vec![HOST_NAME], long(b"a.com"), vec![HOST_NAME], long(b"b.com")].concat();
        malformed(extension(SERVER_NAME, &long(&two)));
        malformed(extension(SERVER_NAME, &long(&[vec![1], long(b"a.com")].concat())));
        malformed(sni(""));
        malformed(sni("127.0.0.1"));
        malformed(sni("a.com\0b.com"));
        malformed(vec![0, 0, 0]);
        assert_eq!(read(&[HANDSHAKE, 3, 1, 0, 0]), Err(HelloError::Malformed));
        assert_eq!(read(&[HANDSHAKE, 3, 1, 0xff, 0xff]), Err(HelloError::Malformed));
    }

    #[test]
    fn other_protocols_are_told_at_once() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"SSH-2.0", &[0x80, 0x2e, 1], &[21, 3, 1], &[22, 2]] {
            assert_eq!(read(bytes), Err(HelloError::NotTls), "{bytes:?}");
        }
        assert_eq!(read(&records(&[2, 0, 0, 1, 0], 4096)), Err(HelloError::NotTls));
    }

    #[test]
    fn an_endless_hello_is_refused() {
        assert_eq!(read(&records(&[1, 0xff, 0xff, 0xff, 0], 10)), Err(HelloError::TooLong));
        // Within its length, but in records of one byte each.
        let slow = records(&message(&vec![0; 10_000])[..6_000], 1);
        assert_eq!(read(&slow[..MAX_BYTES - 1]), Ok(None));
        assert!(slow.len() < MAX_BYTES || read(&slow) == Err(HelloError::TooLong));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(server_name(&bytes));
            drop(server_name(&records(&message(&bytes), 7)));
        }

        #[test]
        fn an_answer_does_not_change_as_more_comes(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), cut in 0..300_usize,
        ) {
            let whole = records(&message(&[bytes, sni("a.com")].concat()), 9);
            let part = &whole[..cut.min(whole.len())];
            match server_name(part) {
                Ok(None) => {}
                other => prop_assert_eq!(other, server_name(&whole)),
            }
        }
    }
}
