//! Keeping web pages away from a loopback listener.
//!
//! Any page that a person on this machine opens can make its browser send requests to
//! 127.0.0.1. Two checks stop that: the request must be addressed to this host by a name that
//! is certain to mean it (a page that rebinds its own DNS name to 127.0.0.1 sends that name as
//! `Host`), and an `Origin`, if there is one, must be this very server's (RFC 6454). Requests over a
//! Unix socket do not come from pages, nor do those that present a tenant's token, which no browser
//! adds by itself: they may use any name that leads here.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, StatusCode, Uri, header, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::connections::Activity;
use super::{Problem, Shared, auth, preview};

/// The address that a request's connection was accepted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Local {
    Tcp(SocketAddr),
    Unix,
}

pub(super) async fn check(State(api): State<Shared>, request: Request, next: Next) -> Response {
    if is_full(request.extensions())
        && !(is_health_check(request.uri()) || request.uri().path() == "/metrics")
    {
        return ([(header::CONNECTION, "close")], full()).into_response();
    }
    // Neither kind of host ever reaches what is behind the other.
    if api.preview.is_for(&request) {
        return preview::serve(&api, request).await;
    }
    match refusal(&api, request.extensions(), request.uri(), request.headers()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

/// Whether this connection is one that is kept for health checks.
pub(super) fn is_full(extensions: &Extensions) -> bool {
    extensions.get::<Activity>().is_some_and(|activity| activity.is_reserve)
}

/// What is answered where every other connection is busy.
pub(super) fn full() -> Problem {
    let detail = "every connection has a request that is being answered";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, "too_many_connections", detail).retry_after(1)
}

/// Why a request is refused that a page may have caused.
pub(super) fn refusal(
    api: &Shared,
    extensions: &Extensions,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<Problem> {
    let local = extensions.get::<Local>().copied();
    let is_tenant = || auth::authenticate(&api.engine.settings(), headers).is_ok();
    refuse(local, uri, headers)
        .filter(|problem| problem.status != StatusCode::FORBIDDEN || !is_tenant())
}

fn is_health_check(uri: &Uri) -> bool {
    matches!(uri.path(), "/healthz" | "/readyz")
}

fn refuse(local: Option<Local>, uri: &Uri, headers: &HeaderMap) -> Option<Problem> {
    // For an unknown address the stricter rule holds.
    let own = match local {
        Some(Local::Unix) => return None,
        Some(Local::Tcp(address)) => Some(address.ip()),
        None => None,
    };
    // Browsers always say which host they mean; load balancers may not.
    let says_no_host = !headers.contains_key(header::HOST) && uri.authority().is_none();
    if says_no_host && is_health_check(uri) && !headers.contains_key(header::ORIGIN) {
        return None;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = text(header::HOST).and_then(|host| host.parse::<Authority>().ok()) else {
        let detail = "the request has no usable Host header";
        return Some(Problem::new(StatusCode::BAD_REQUEST, "bad_host", detail));
    };
    // A target in absolute form names the host too, and counts instead (RFC 9112, 3.2.2).
    let target = uri.authority().unwrap_or(&host);
    let is_one = headers.get_all(header::HOST).iter().count() == 1;
    if !is_one || !is_this_host(host.host(), own) || !is_this_host(target.host(), own) {
        let host = if is_this_host(host.host(), own) { target } else { &host };
        let detail = format!("{host} is not a name of this host: use its address or localhost");
        return Some(Problem::new(StatusCode::FORBIDDEN, "host_not_allowed", detail));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = text(header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        if !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str())) {
            let detail = "requests from web pages of another origin are refused";
            return Some(Problem::new(StatusCode::FORBIDDEN, "cross_origin", detail));
        }
    }
    None
}

/// Whether a name can only mean this host. RFC 6761 keeps `localhost` from being anything else.
fn is_this_host(host: &str, own: Option<IpAddr>) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || Some(address) == own,
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(local: Option<Local>, pairs: &[(&'static str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        code_of(local, "/v1/host", &headers)
    }

    fn code_of(local: Option<Local>, target: &str, headers: &HeaderMap) -> Option<String> {
        let uri: Uri = target.parse().unwrap();
        refuse(local, &uri, headers).map(|problem| problem.code.to_owned())
    }

    #[test]
    fn health_checks_need_no_host_but_may_not_have_a_wrong_one() {
        let mut headers = HeaderMap::new();
        for path in ["/healthz", "/readyz"] {
            assert_eq!(code_of(LOOPBACK, path, &headers), None, "{path}");
        }
        assert_eq!(code_of(LOOPBACK, "/v1/host", &headers).as_deref(), Some("bad_host"));
        headers.insert("host", "evil.example".parse().unwrap());
        let wrong = code_of(LOOPBACK, "/healthz", &headers);
        assert_eq!(wrong.as_deref(), Some("host_not_allowed"));
    }

    #[test]
    fn absolute_target_is_checked_like_the_host_header() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "localhost:8470".parse().unwrap());
        assert_eq!(code_of(LOOPBACK, "http://127.0.0.1:8470/v1/host", &headers), None);
        let rebound = code_of(LOOPBACK, "http://evil.example/v1/host", &headers);
        assert_eq!(rebound.as_deref(), Some("host_not_allowed"));
        headers.insert("host", "evil.example".parse().unwrap());
        let hidden = code_of(LOOPBACK, "http://localhost:8470/v1/host", &headers);
        assert_eq!(hidden.as_deref(), Some("host_not_allowed"));
    }

    const LOOPBACK: Option<Local> =
        Some(Local::Tcp(SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8470)));

    #[test]
    fn own_host_names_pass() {
        for host in ["localhost", "LOCALHOST:8470", "127.0.0.1:8470", "127.9.9.9", "[::1]:8470"] {
            assert_eq!(code(LOOPBACK, &[("host", host)]), None, "{host}");
        }
        let own: SocketAddr = "192.0.2.7:8470".parse().unwrap();
        assert_eq!(code(Some(Local::Tcp(own)), &[("host", "192.0.2.7:8470")]), None);
    }

    #[test]
    fn rebound_names_are_refused() {
        for host in
            ["evil.example", "localhost.evil.example", "192.0.2.7", "127.0.0.1.evil.example"]
        {
            let found = code(LOOPBACK, &[("host", host)]);
            assert_eq!(found.as_deref(), Some("host_not_allowed"), "{host}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(code(None, &two).as_deref(), Some("host_not_allowed"));
        assert_eq!(code(LOOPBACK, &[]).as_deref(), Some("bad_host"));
        assert_eq!(code(LOOPBACK, &[("host", "a b")]).as_deref(), Some("bad_host"));
    }

    #[test]
    fn only_our_own_origin_passes() {
        let with = |origin: &str| code(LOOPBACK, &[("host", "localhost:8470"), ("origin", origin)]);
        assert_eq!(with("http://localhost:8470"), None);
        for origin in
            ["http://evil.example", "null", "http://localhost:1", "https://localhost:8470"]
        {
            assert_eq!(with(origin).as_deref(), Some("cross_origin"), "{origin}");
        }
    }

    #[test]
    fn unix_socket_requests_may_name_any_host() {
        assert_eq!(code(Some(Local::Unix), &[("host", "anything")]), None);
    }
}
