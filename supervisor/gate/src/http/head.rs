//! Heads of requests, read as strictly as two readers can agree on, and written anew.
//!
//! What two servers could read differently (RFC 9112, 11.2: request smuggling) is refused, not
//! repaired: bare line ends, folded lines, two lengths, two hosts. What goes to the destination is
//! put together from what was read, so nothing passes that was not understood.

use vivarium_egress::{Host, Secret};

/// The longest head.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// The most headers of a head, read or written.
const MAX_HEADERS: usize = 100;
/// Host, the length and Connection are written anew.
const MAX_PASSED_ON: usize = MAX_HEADERS - 3;
/// The longest head that goes out: values of secrets are longer than their placeholders.
const MAX_SENT_BYTES: usize = 2 * MAX_HEAD_BYTES;

/// Headers that are about one connection, RFC 9110, 7.6.1, and those that the gate writes itself.
const NOT_PASSED_ON: [&str; 12] = [
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Why bytes are no head that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("a line that does not end in CR LF, or a NUL")]
    LineEnd,
    #[error("a folded header line")]
    Folded,
    #[error(
        "a head of over {MAX_HEAD_BYTES} bytes, with over {MAX_HEADERS} headers or {MAX_PASSED_ON} to pass on"
    )]
    TooLong,
    #[error("not an HTTP/1 request")]
    Malformed,
    #[error("a target that is no http:// URL, path or authority")]
    Target,
    #[error("not exactly one Host, or one that differs from the target")]
    Host,
    #[error("a length that two readers could understand differently")]
    Length,
    #[error("a method that is not passed on")]
    Method,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// CONNECT: a host and port.
    Authority(Host, u16),
    /// `http://host[:port]/path`.
    Absolute(Host, u16, String),
    /// A path, as to a server.
    Path(String),
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// A request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) target: Target,
    pub(crate) framing: Framing,
    /// What `Host` says; only HTTP/1.0 may be without.
    host: Option<String>,
    /// What is passed on.
    headers: Vec<(String, Vec<u8>)>,
}

/// Where the head ends, after its empty line; `None` while more is to come. `checked` bytes were
/// looked at before.
///
/// # Errors
/// As soon as a line ends in another way than by CR LF.
pub(crate) fn find_end(bytes: &[u8], checked: usize) -> Result<Option<usize>, HeadError> {
    // What a line end's first half was seen of is looked at again.
    let from = checked.saturating_sub(3);
    let tail = bytes.get(from..).unwrap_or_default();
    for (at, byte) in tail.iter().enumerate() {
        let before = |back: usize| (from + at).checked_sub(back).and_then(|at| bytes.get(at));
        match byte {
            b'\n' if before(1) != Some(&b'\r') => return Err(HeadError::LineEnd),
            b'\n' if before(2) == Some(&b'\n') => return Ok(Some(from + at + 1)),
            b'\n' | b'\r' => {}
            0 => return Err(HeadError::LineEnd),
            _ if before(1) == Some(&b'\r') => return Err(HeadError::LineEnd),
            b' ' | b'\t' if before(1) == Some(&b'\n') => return Err(HeadError::Folded),
            _ => {}
        }
        if byte == &b'\r' && before(1) == Some(&b'\r') {
            return Err(HeadError::LineEnd);
        }
    }
    if bytes.len() >= MAX_HEAD_BYTES { Err(HeadError::TooLong) } else { Ok(None) }
}

/// Reads a whole head, as [`find_end`] found it.
///
/// # Errors
/// Any but [`HeadError::LineEnd`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Head, HeadError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLong),
        _ => return Err(HeadError::Malformed),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(HeadError::Malformed);
    };
    // TRACE has a server send back what it got, secrets included.
    if method.eq_ignore_ascii_case("TRACE") || method.len() > 32 {
        return Err(HeadError::Method);
    }
    let host = one_host(request.headers, version)?;
    let framing = framing(request.headers, version)?;
    let target = parse_target(method, target)?;
    if matches!(target, Target::Authority(..)) && framing != Framing::None {
        return Err(HeadError::Length);
    }
    let named = named_by_connection(request.headers)?;
    let is_passed_on =
        |name: &str| !NOT_PASSED_ON.contains(&name) && !named.iter().any(|one| one == name);
    let mut kept = Vec::new();
    for header in request.headers.iter() {
        let name = header.name.to_ascii_lowercase();
        if is_passed_on(&name) {
            kept.push((header.name.to_owned(), header.value.to_vec()));
        }
    }
    if kept.len() > MAX_PASSED_ON {
        return Err(HeadError::TooLong);
    }
    Ok(Head { method: method.to_owned(), target, framing, host, headers: kept })
}

fn values<'a>(
    headers: &'a [httparse::Header<'_>],
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |one| one.name.eq_ignore_ascii_case(name)).map(|one| one.value)
}

fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().filter(|text| text.is_ascii())
}

fn one_host(headers: &[httparse::Header<'_>], version: u8) -> Result<Option<String>, HeadError> {
    let mut hosts = values(headers, "host");
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Some(text(host).ok_or(HeadError::Host)?.to_owned())),
        (None, None) if version == 0 => Ok(None),
        _ => Err(HeadError::Host),
    }
}

fn framing(headers: &[httparse::Header<'_>], version: u8) -> Result<Framing, HeadError> {
    let mut lengths = values(headers, "content-length");
    let mut encodings = values(headers, "transfer-encoding");
    match (lengths.next(), encodings.next()) {
        (None, None) => Ok(Framing::None),
        (Some(length), None) if lengths.next().is_none() => {
            let digits = text(length).ok_or(HeadError::Length)?;
            let is_number = (1..=18).contains(&digits.len())
                && digits.bytes().all(|digit| digit.is_ascii_digit());
            let length = digits.parse().ok().filter(|_| is_number).ok_or(HeadError::Length)?;
            Ok(Framing::Length(length))
        }
        (None, Some(encoding))
            if version == 1
                && encodings.next().is_none()
                && encoding.eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(Framing::Chunked)
        }
        _ => Err(HeadError::Length),
    }
}

fn named_by_connection(headers: &[httparse::Header<'_>]) -> Result<Vec<String>, HeadError> {
    let mut named = Vec::new();
    for value in values(headers, "connection") {
        let value = text(value).ok_or(HeadError::Malformed)?;
        named.extend(value.split(',').map(|name| name.trim().to_ascii_lowercase()));
    }
    Ok(named)
}

fn parse_target(method: &str, target: &str) -> Result<Target, HeadError> {
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Ok(Target::Authority(host, port));
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
        return Err(HeadError::Target);
    }
    if target.starts_with('/') {
        return Ok(Target::Path(target.to_owned()));
    }
    let scheme = target.get(..7).ok_or(HeadError::Target)?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err(HeadError::Target);
    }
    let rest = target.get(7..).unwrap_or_default();
    let (place, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = authority(place, Some(80))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Target::Absolute(host, port, path))
}

/// `host[:port]`, as a URL has it.
fn authority(text: &str, default: Option<u16>) -> Result<(Host, u16), HeadError> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let is_number = port.bytes().all(|digit| digit.is_ascii_digit());
            let port = port.parse().ok().filter(|port| is_number && *port != 0);
            (host, port.ok_or(HeadError::Target)?)
        }
        _ => (text, default.ok_or(HeadError::Target)?),
    };
    // Without brackets, an address of IPv6 and a port can not be told apart.
    if host.contains(':') && !host.starts_with('[') {
        return Err(HeadError::Target);
    }
    Ok((host.parse().map_err(|_| HeadError::Target)?, port))
}

impl Head {
    /// Checks that `Host` says the destination; `scheme_port` is what it may leave out.
    ///
    /// # Errors
    /// [`HeadError::Host`].
    pub(crate) fn check_host(
        &self,
        host: &Host,
        port: u16,
        scheme_port: u16,
    ) -> Result<(), HeadError> {
        let Some(said) = &self.host else { return Ok(()) };
        match authority(said, Some(scheme_port)) {
            Ok((said, its_port)) if said == *host && its_port == port => Ok(()),
            _ => Err(HeadError::Host),
        }
    }

    /// The value of a header that is passed on, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        named.next().and_then(|(_, value)| text(value))
    }

    /// The head for the destination, with the values of `secrets` in place of their placeholders.
    ///
    /// # Errors
    /// [`HeadError::TooLong`], of which no more than that was put together.
    pub(crate) fn for_destination<'a>(
        &self,
        path: &str,
        host: &Host,
        port: Option<u16>,
        secrets: impl Iterator<Item = &'a Secret> + Clone,
    ) -> Result<Vec<u8>, HeadError> {
        let mut out = format!("{} {path} HTTP/1.1\r\nHost: {host}", self.method).into_bytes();
        if let Some(port) = port {
            out.extend_from_slice(format!(":{port}").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            let own = secrets.clone().filter(|secret| secret.header.eq_ignore_ascii_case(name));
            replace(value, own, &mut out)?;
            out.extend_from_slice(b"\r\n");
        }
        match self.framing {
            Framing::None => {}
            Framing::Length(len) => {
                out.extend_from_slice(format!("Content-Length: {len}\r\n").as_bytes());
            }
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        Ok(out)
    }
}

/// Writes `value` with each placeholder replaced, and looks into no replacement.
fn replace<'a>(
    value: &[u8],
    secrets: impl Iterator<Item = &'a Secret> + Clone,
    out: &mut Vec<u8>,
) -> Result<(), HeadError> {
    let mut rest = value;
    loop {
        let found = secrets.clone().filter_map(|secret| {
            let at = memchr::memmem::find(rest, secret.placeholder.as_bytes())?;
            Some((at, secret))
        });
        let Some((at, secret)) = found.min_by_key(|(at, _)| *at) else {
            out.extend_from_slice(rest);
            return Ok(());
        };
        if out.len() + at + secret.value.len() > MAX_SENT_BYTES {
            return Err(HeadError::TooLong);
        }
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        out.extend_from_slice(secret.value.as_bytes());
        rest = rest.get(at + secret.placeholder.len()..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
