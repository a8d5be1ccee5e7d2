//! SOCKS5 (RFC 1928): no authentication, CONNECT alone, names and addresses.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use vivarium_egress::{Host, Reason};

use crate::buffered::Buffered;

pub(crate) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// Answers to a request: RFC 1928, 6.
pub(crate) const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const NO_SUCH_COMMAND: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

/// Why a client is not served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SocksError {
    /// It went away.
    Gone,
    /// It was answered so, as the last that it is.
    Answered(u8),
}

/// Bytes of a request that are its destination.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    More,
    Refused(u8),
    Connect { host: Host, port: u16, len: usize },
}

fn greeting(bytes: &[u8]) -> Option<(usize, bool)> {
    let [_, count, rest @ ..] = bytes else { return None };
    let methods = rest.get(..usize::from(*count))?;
    Some((2 + methods.len(), methods.contains(&NO_AUTHENTICATION)))
}

fn request(bytes: &[u8]) -> Request {
    let (command, kind, rest) = match bytes {
        [VERSION, command, 0, kind, rest @ ..] => (*command, *kind, rest),
        [] | [VERSION] | [VERSION, _] | [VERSION, _, 0] => return Request::More,
        _ => return Request::Refused(FAILED),
    };
    if command != CONNECT {
        return Request::Refused(NO_SUCH_COMMAND);
    }
    let (address_len, skipped) = match (kind, rest.first()) {
        (1, _) => (4, 0),
        (4, _) => (16, 0),
        (3, Some(len)) => (usize::from(*len), 1),
        (3, None) => return Request::More,
        _ => return Request::Refused(NO_SUCH_ADDRESS),
    };
    let rest = rest.get(skipped..).unwrap_or_default();
    let (Some(address), Some([high, low])) =
        (rest.get(..address_len), rest.get(address_len..address_len + 2))
    else {
        return Request::More;
    };
    let host = match kind {
        1 => address.first_chunk::<4>().map(|bytes| Host::Address(Ipv4Addr::from(*bytes).into())),
        4 => address.first_chunk::<16>().map(|bytes| Host::Address(Ipv6Addr::from(*bytes).into())),
        _ => std::str::from_utf8(address).ok().and_then(|text| text.parse().ok()),
    };
    let port = u16::from_be_bytes([*high, *low]);
    match host {
        Some(host) if port != 0 => {
            Request::Connect { host, port, len: 4 + skipped + address_len + 2 }
        }
        _ => Request::Refused(FAILED),
    }
}

/// Reads what a client wants.
pub(crate) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Buffered<S>,
) -> Result<(Host, u16), SocksError> {
    let gone = |_: io::Error| SocksError::Gone;
    let accepted = loop {
        if let Some((len, accepted)) = greeting(client.bytes()) {
            client.consume(len);
            break accepted;
        }
        if !client.fill().await.map_err(gone)? {
            return Err(SocksError::Gone);
        }
    };
    let method = if accepted { NO_AUTHENTICATION } else { NO_METHOD };
    client.write_all(&[VERSION, method]).await.map_err(gone)?;
    if !accepted {
        return Err(SocksError::Answered(NO_METHOD));
    }
    loop {
        match request(client.bytes()) {
            Request::Connect { host, port, len } => {
                client.consume(len);
                return Ok((host, port));
            }
            Request::Refused(code) => {
                client.write_all(&reply(code)).await.map_err(gone)?;
                return Err(SocksError::Answered(code));
            }
            Request::More => {}
        }
        if !client.fill().await.map_err(gone)? {
            return Err(SocksError::Gone);
        }
    }
}

/// The answer with a code. Where the gate connects from is nobody's business.
pub(crate) const fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

pub(crate) const fn code(reason: Reason) -> u8 {
    match reason {
        Reason::Unresolved | Reason::Unreachable => HOST_UNREACHABLE,
        Reason::BadRequest | Reason::Timeout => FAILED,
        _ => NOT_ALLOWED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_read_however_it_is_cut() {
        for (bytes, host) in [
            (&b"\x05\x01\x00\x03\x05a.com\x01\xbb"[..], "a.com"),
            (b"\x05\x01\x00\x01\x01\x02\x03\x04\x01\xbb", "1.2.3.4"),
            (b"\x05\x01\x00\x03\x091.2.3.4.5\x01\xbb", ""),
            (b"\x05\x01\x00\x03\x071.2.3.4\x01\xbb", "1.2.3.4"),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(request(&bytes[..cut]), Request::More, "{cut}");
            }
            let expected = match host.parse() {
                Ok(host) => Request::Connect { host, port: 443, len: bytes.len() },
                Err(_) => Request::Refused(FAILED),
            };
            assert_eq!(request(bytes), expected);
        }
    }

    #[test]
    fn only_connect_is_done() {
        for (bytes, code) in [
            (&b"\x05\x02\x00\x01"[..], NO_SUCH_COMMAND),
            (b"\x05\x03\x00\x01", NO_SUCH_COMMAND),
            (b"\x05\x01\x00\x02", NO_SUCH_ADDRESS),
            (b"\x05\x01\x01\x01", FAILED),
            (b"\x04\x01", FAILED),
            (b"\x05\x01\x00\x03\x00\x01\xbb", FAILED),
            (b"\x05\x01\x00\x01\x01\x02\x03\x04\x00\x00", FAILED),
        ] {
            assert_eq!(request(bytes), Request::Refused(code), "{bytes:?}");
        }
        assert_eq!(greeting(b"\x05\x02\x01\x00"), Some((4, true)));
        assert_eq!(greeting(b"\x05\x01\x02"), Some((3, false)));
        assert_eq!(greeting(b"\x05\x02\x00"), None);
    }

    proptest! {
        #[test]
        fn random_requests_never_panic(bytes in proptest::collection::vec(0..8_u8, 0..40)) {
            let _ = (greeting(&bytes), request(&bytes));
        }
    }
}
