//! What of an answer of a server in a session reaches the client.
//!
//! The answer has the API's origin, and comes from tenant code. Nothing in it may act on that origin, or
//! on a reverse proxy in front of it.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::location;
use super::request::{Front, remove_hop_by_hop};

/// What `Content-Length` is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// Nothing: bodies are framed anew.
    None,
    /// The body that another request would get (RFC 9110, 8.6).
    OfAnother,
}

/// Has a page run no scripts, and be of no origin: the API trusts its own.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// What acts on the origin of an answer, or beyond it.
const OF_ORIGIN: [&str; 33] = [
    "accept-ch",
    "activate-storage-access",
    "alt-svc",
    "authentication-info",
    "clear-site-data",
    "content-location",
    "content-security-policy",
    "content-security-policy-report-only",
    "critical-ch",
    "cross-origin-embedder-policy",
    "cross-origin-embedder-policy-report-only",
    "cross-origin-opener-policy",
    "cross-origin-opener-policy-report-only",
    "cross-origin-resource-policy",
    "expect-ct",
    "link",
    "nel",
    "origin-agent-cluster",
    "origin-trial",
    "p3p",
    "permissions-policy",
    "public-key-pins",
    "public-key-pins-report-only",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "timing-allow-origin",
    "use-as-dictionary",
    "www-authenticate",
];

/// Headers by which a server commands a reverse proxy, or lets other origins in, by how they begin.
const PREFIXES: [&str; 7] = [
    "access-control-",
    "attribution-reporting-",
    "proxy-",
    "x-accel-",
    "x-lighttpd-",
    "x-reproxy-",
    "x-sendfile",
];

/// Removes what goes no further, and adds what keeps a page from acting as one of the API's.
pub(super) fn clean(headers: &mut HeaderMap, front: &Front, length: Length) {
    remove_hop_by_hop(headers);
    for name in OF_ORIGIN {
        headers.remove(name);
    }
    let commands: Vec<HeaderName> =
        headers.keys().filter(|name| is_command(name)).cloned().collect();
    for name in commands {
        headers.remove(name);
    }
    let length = Some(length)
        .filter(|length| *length == Length::OfAnother)
        .and_then(|_| one_length(headers));
    headers.remove(header::CONTENT_LENGTH);
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Some(found) = headers.remove(header::LOCATION)
        && let Some(below) = found.to_str().ok().and_then(|found| location::below(found, front))
        && let Ok(below) = HeaderValue::from_str(&below)
    {
        headers.insert(header::LOCATION, below);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
}

fn is_command(name: &HeaderName) -> bool {
    PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

fn one_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let first = lengths.next()?.to_str().ok()?.parse().ok()?;
    lengths.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::uri::PathAndQuery;

    fn cleaned(headers: &[(&str, &str)], length: Length) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        let front = Front::new(80, "/p".to_owned(), PathAndQuery::from_static("/"));
        clean(&mut map, &front, length);
        map
    }

    #[test]
    fn nothing_that_acts_on_the_origin_is_left() {
        let hostile = OF_ORIGIN.into_iter().chain([
            "Access-Control-Allow-Origin",
            "Access-Control-Allow-Credentials",
            "X-Accel-Redirect",
            "X-Sendfile",
            "Proxy-Authenticate",
            "X-Named",
        ]);
        let hostile: Vec<_> = hostile.map(|name| (name, "hostile")).collect();
        let twice = [&hostile[..], &hostile[..], &[("connection", "x-named"), ("x-kept", "kept")]];
        let found = cleaned(&twice.concat(), Length::None);
        let mut names: Vec<_> = found.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-security-policy", "x-content-type-options", "x-kept"]);
        assert_eq!(found["content-security-policy"], "sandbox");
        assert_eq!(found["x-content-type-options"], "nosniff");
    }

    #[test]
    fn length_is_told_only_of_a_body_that_does_not_follow() {
        let length = |values: &[&str], length| {
            let headers: Vec<_> = values.iter().map(|value| ("content-length", *value)).collect();
            cleaned(&headers, length)
                .get("content-length")
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(length(&["7"], Length::None), None);
        assert_eq!(length(&["7"], Length::OfAnother).as_deref(), Some("7"));
        for bad in [&["7", "8"][..], &["7", "7"], &["-7"], &["x"], &["7, 7"], &[]] {
            assert_eq!(length(bad, Length::OfAnother), None, "{bad:?}");
        }
    }
}
