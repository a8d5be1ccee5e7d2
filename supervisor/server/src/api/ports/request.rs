//! What of a request reaches a server in a session.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header};
use hyper::body::Body as _;

use crate::api::connections::Peer;

/// Where a session's server is seen from outside.
#[derive(Debug, Clone)]
pub(in crate::api) struct Front {
    port: u16,
    /// The path below which it is seen.
    prefix: String,
    /// What it is asked for.
    target: PathAndQuery,
    /// The scheme of the origin that it has to itself; `None` where the origin is the API's.
    own: Option<String>,
}

impl Front {
    pub(in crate::api) const fn new(port: u16, prefix: String, target: PathAndQuery) -> Self {
        Self { port, prefix, target, own: None }
    }

    /// One with an origin of its own.
    pub(in crate::api) const fn of_its_own(
        port: u16,
        target: PathAndQuery,
        scheme: String,
    ) -> Self {
        Self { port, prefix: String::new(), target, own: Some(scheme) }
    }

    pub(super) const fn has_own_origin(&self) -> bool {
        self.own.is_some()
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn path(&self) -> &str {
        self.target.path()
    }
}

/// What concerns one connection and not the next (RFC 9110, 7.6.1). Bodies are framed anew.
pub(super) const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// What is the daemon's to know or to say.
const OURS: [HeaderName; 4] =
    [header::AUTHORIZATION, header::EXPECT, header::CONTENT_LENGTH, header::HOST];

/// What is of the origin, where that is the API's.
const OF_ORIGIN: [HeaderName; 3] = [header::COOKIE, header::ORIGIN, header::REFERER];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Other ways to say the same as the `X-Forwarded` headers that are set here.
const FORWARDED: [HeaderName; 5] = [
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-forwarded-ssl"),
    HeaderName::from_static("x-real-ip"),
];

/// Whether a request asks to switch to `WebSocket` (RFC 6455, 4.1), and to nothing else. It has no body:
/// a server could switch before the end of one, and nobody would know where the messages begin.
pub(in super::super) fn wants_websocket(request: &Request) -> bool {
    let headers = request.headers();
    let mut upgrades = headers.get_all(header::UPGRADE).iter();
    let is_websocket =
        upgrades.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && request.body().is_end_stream()
        && is_websocket
        && upgrades.next().is_none()
        && options(headers).any(|option| option.eq_ignore_ascii_case("upgrade"))
}

/// Makes the request one to the server in the session.
pub(super) fn prepare(request: &mut Request, front: &Front, is_websocket: bool) {
    *request.uri_mut() = Uri::from(front.target.clone());
    *request.version_mut() = Version::HTTP_11;
    let peer = request.extensions().get::<Peer>().copied();
    let headers = request.headers_mut();
    let host = headers.get(header::HOST).cloned();
    remove_hop_by_hop(headers);
    for name in OURS.iter().chain(&FORWARDED) {
        headers.remove(name);
    }
    if !front.has_own_origin() {
        for name in OF_ORIGIN {
            headers.remove(name);
        }
    }
    forwarded(headers, host, peer, front);
    // What a server that listens on its own machine expects to be called. An origin has been found to
    // be its own.
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{}", front.port)) {
        headers.insert(header::HOST, host);
    }
    if headers.contains_key(header::ORIGIN)
        && let Ok(origin) = HeaderValue::from_str(&format!("http://localhost:{}", front.port))
    {
        headers.insert(header::ORIGIN, origin);
    }
    if is_websocket {
        ask_for_websocket(headers);
    } else {
        // One request, and the server need not wait for another.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    request.extensions_mut().clear();
}

pub(super) fn ask_for_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Removes the headers that concern the connection, also those that `Connection` names.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<_> =
        options(headers).filter_map(|name| name.parse::<HeaderName>().ok()).collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

fn options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

/// Says where the request came from. A reverse proxy in front of the daemon is believed: without one
/// it is the client who speaks, and only to a server of its own.
fn forwarded(
    headers: &mut HeaderMap,
    host: Option<HeaderValue>,
    peer: Option<Peer>,
    front: &Front,
) {
    let address = match peer {
        Some(Peer::Address(address)) => address,
        // Over a Unix socket.
        Some(Peer::User(_)) | None => IpAddr::from([127, 0, 0, 1]),
    };
    let before = headers.get(X_FORWARDED_FOR).and_then(|value| value.to_str().ok());
    let chain = before.map_or_else(|| address.to_string(), |before| format!("{before}, {address}"));
    for (name, value) in [(X_FORWARDED_FOR, chain), (X_FORWARDED_PREFIX, front.prefix.clone())] {
        headers.remove(&name);
        if let Ok(value) = HeaderValue::from_str(&value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
    if !headers.contains_key(X_FORWARDED_HOST)
        && let Some(host) = host
    {
        headers.insert(X_FORWARDED_HOST, host);
    }
    if let Some(scheme) = front.own.as_ref().and_then(|scheme| HeaderValue::from_str(scheme).ok()) {
        headers.insert(X_FORWARDED_PROTO, scheme);
    } else if !headers.contains_key(X_FORWARDED_PROTO) {
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/v1/sessions/s/ports/80/a/b?c=d");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn front() -> Front {
        let prefix = "/v1/sessions/s/ports/80".to_owned();
        Front::new(80, prefix, PathAndQuery::from_static("/a/b?c=d"))
    }

    fn prepared(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut request = request(headers);
        prepare(&mut request, &front(), false);
        assert_eq!(request.uri(), "/a/b?c=d");
        let all = request.headers().iter();
        let mut all: Vec<_> = all
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        all.sort();
        all
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn server_learns_what_was_asked_and_not_who_asked() {
        let found = prepared(&[
            ("host", "vivarium.example"),
            ("authorization", "Bearer secret"),
            ("cookie", "a=secret"),
            ("cookie", "b=secret"),
            ("proxy-authorization", "secret"),
            ("origin", "http://secret.example"),
            ("referer", "http://secret.example"),
            ("forwarded", "for=secret"),
            ("x-real-ip", "secret"),
            ("x-forwarded-prefix", "/secret"),
            ("x-kept", "a"),
            ("x-kept", "b"),
            ("accept-encoding", "gzip"),
        ]);
        let expected = [
            ("accept-encoding", "gzip"),
            ("connection", "close"),
            ("host", "localhost:80"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-host", "vivarium.example"),
            ("x-forwarded-prefix", "/v1/sessions/s/ports/80"),
            ("x-forwarded-proto", "http"),
            ("x-kept", "a"),
            ("x-kept", "b"),
        ];
        assert_eq!(found, pairs(&expected));
    }

    #[test]
    fn headers_of_the_connection_go_no_further() {
        let found = prepared(&[
            ("connection", "keep-alive, X-Secret"),
            ("connection", "te ,upgrade"),
            ("keep-alive", "5"),
            ("x-secret", "secret"),
            ("te", "trailers"),
            ("trailer", "x-later"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("upgrade", "h2c"),
            ("http2-settings", "secret"),
            ("expect", "100-continue"),
        ]);
        let expected = [
            ("connection", "close"),
            ("host", "localhost:80"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-prefix", "/v1/sessions/s/ports/80"),
            ("x-forwarded-proto", "http"),
        ];
        assert_eq!(found, pairs(&expected));
    }

    #[test]
    fn reverse_proxy_is_believed() {
        let found = prepared(&[
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "app.example"),
        ]);
        for expected in [
            ("x-forwarded-for", "192.0.2.1, 127.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "app.example"),
        ] {
            assert!(found.contains(&pairs(&[expected])[0]), "{found:?}");
        }
    }

    #[test]
    fn only_a_plain_request_for_websocket_is_one() {
        let both = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
        assert!(wants_websocket(&request(&both)));
        for headers in [
            &both[..1],
            &both[1..],
            &[("connection", "upgrade"), ("upgrade", "h2c")],
            &[("connection", "upgrade"), ("upgrade", "websocket, h2c")],
            &[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")],
        ] {
            assert!(!wants_websocket(&request(headers)), "{headers:?}");
        }
        let mut posted = request(&both);
        *posted.method_mut() = Method::POST;
        assert!(!wants_websocket(&posted));
        let mut full = request(&both);
        *full.body_mut() = Body::from("body");
        assert!(!wants_websocket(&full));
        let mut old = request(&both);
        *old.version_mut() = Version::HTTP_10;
        assert!(!wants_websocket(&old));
    }
}
