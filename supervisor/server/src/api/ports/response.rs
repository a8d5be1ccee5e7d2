//! What of an answer of a server in a session reaches the client.
//!
//! It comes from tenant code. Where it has the API's origin nothing in it may act on that, and nowhere on
//! other hosts of the site or on a reverse proxy.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::location;
use super::request::{Front, remove_hop_by_hop};
use crate::api::preview;

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

/// Keeps a page's process apart from those of the other hosts of its site (HTML, "origin-keyed agent
/// clusters").
const ORIGIN_AGENT_CLUSTER: HeaderName = HeaderName::from_static("origin-agent-cluster");

/// What acts beyond the origin of an answer: on all of its site or host, or on the reverse proxy; or is
/// of no use, as the daemon keeps credentials.
const BEYOND: [&str; 13] = [
    "alt-svc",
    "authentication-info",
    "clear-site-data",
    "expect-ct",
    "nel",
    "p3p",
    "public-key-pins",
    "public-key-pins-report-only",
    "report-to",
    "reporting-endpoints",
    "set-cookie2",
    "strict-transport-security",
    "www-authenticate",
];

/// What acts on the origin, where that is the API's.
const OF_ORIGIN: [&str; 20] = [
    "accept-ch",
    "activate-storage-access",
    "content-location",
    "content-security-policy",
    "content-security-policy-report-only",
    "critical-ch",
    "cross-origin-embedder-policy",
    "cross-origin-embedder-policy-report-only",
    "cross-origin-opener-policy",
    "cross-origin-opener-policy-report-only",
    "cross-origin-resource-policy",
    "link",
    "origin-agent-cluster",
    "origin-trial",
    "permissions-policy",
    "refresh",
    "service-worker-allowed",
    "set-cookie",
    "timing-allow-origin",
    "use-as-dictionary",
];

/// Headers by which a server commands a reverse proxy, by how they begin.
const COMMANDS: [&str; 5] = ["proxy-", "x-accel-", "x-lighttpd-", "x-reproxy-", "x-sendfile"];

/// Headers by which a server lets other origins in, by how they begin.
const TO_OTHERS: [&str; 2] = ["access-control-", "attribution-reporting-"];

/// Removes what goes no further, and adds what keeps a page from acting as one of the API's.
pub(super) fn clean(headers: &mut HeaderMap, front: &Front, length: Length) {
    remove_hop_by_hop(headers);
    let is_shared = !front.has_own_origin();
    let removed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_removed(name.as_str(), &BEYOND, &COMMANDS))
        .chain(
            headers
                .keys()
                .filter(|name| is_shared && is_removed(name.as_str(), &OF_ORIGIN, &TO_OTHERS)),
        )
        .cloned()
        .collect();
    for name in removed {
        headers.remove(name);
    }
    let length = Some(length)
        .filter(|length| *length == Length::OfAnother)
        .and_then(|_| one_length(headers));
    headers.remove(header::CONTENT_LENGTH);
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Some(found) = headers.remove(header::LOCATION) {
        let below = found.to_str().ok().and_then(|found| location::below(found, front));
        let below = below.and_then(|below| HeaderValue::from_str(&below).ok());
        // With an origin of its own it may send a browser anywhere, as any site.
        if let Some(location) = below.or_else(|| (!is_shared).then_some(found)) {
            headers.insert(header::LOCATION, location);
        }
    }
    if is_shared {
        headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    } else {
        keep_cookies_of_host(headers);
        headers.insert(ORIGIN_AGENT_CLUSTER, HeaderValue::from_static("?1"));
    }
}

/// Whether a header is one of these, or begins like one of those.
fn is_removed(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    names.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Drops cookies that are for other hosts too, and those that would take the place of the daemon's.
fn keep_cookies_of_host(headers: &mut HeaderMap) {
    let header::Entry::Occupied(all) = headers.entry(header::SET_COOKIE) else { return };
    let (_, all) = all.remove_entry_mult();
    let kept: Vec<_> = all.filter(is_of_host).collect();
    for cookie in kept {
        headers.append(header::SET_COOKIE, cookie);
    }
}

fn is_of_host(cookie: &HeaderValue) -> bool {
    let Ok(cookie) = cookie.to_str() else { return false };
    let mut parts = cookie.split(';').map(|part| part.split('=').next().unwrap_or_default().trim());
    let is_other = parts.next().is_some_and(|name| !name.eq_ignore_ascii_case(preview::COOKIE));
    is_other && !parts.any(|attribute| attribute.eq_ignore_ascii_case("domain"))
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

    fn front() -> Front {
        Front::new(80, "/p".to_owned(), PathAndQuery::from_static("/"))
    }

    fn cleaned(headers: &[(&str, &str)], length: Length) -> HeaderMap {
        cleaned_for(&front(), headers, length)
    }

    fn cleaned_for(front: &Front, headers: &[(&str, &str)], length: Length) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        clean(&mut map, front, length);
        map
    }

    #[test]
    fn nothing_that_acts_on_the_origin_is_left() {
        let hostile = OF_ORIGIN.into_iter().chain(BEYOND).chain([
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
    fn origin_of_its_own_is_the_servers_and_its_site_is_not() {
        let front = Front::of_its_own(80, PathAndQuery::from_static("/"), "https".to_owned());
        let kept = [
            ("content-security-policy", "default-src *"),
            ("access-control-allow-origin", "*"),
            ("service-worker-allowed", "/"),
            ("set-cookie", "a=b; Path=/; HttpOnly"),
            ("set-cookie", "domain=x"),
            ("location", "https://elsewhere.example/"),
        ];
        let dropped = [
            ("set-cookie", "a=b; Domain=example.org"),
            ("set-cookie", "a=b;DOMAIN =.org"),
            ("set-cookie", "__Host-vivarium-preview=x; Path=/; Secure"),
            ("set-cookie", "__host-Vivarium-preview =x"),
            ("clear-site-data", "*"),
            ("strict-transport-security", "max-age=9"),
            ("x-accel-redirect", "/etc/passwd"),
        ];
        let found = cleaned_for(&front, &[&kept[..], &dropped].concat(), Length::None);
        let mut left: Vec<_> = found
            .iter()
            .filter(|(name, _)| *name != ORIGIN_AGENT_CLUSTER)
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        left.sort_unstable();
        let mut expected = kept;
        expected.sort_unstable();
        assert_eq!(left, expected);
        let own = [("location", "http://localhost:80/x?y")];
        assert_eq!(cleaned_for(&front, &own, Length::None)["location"], "/x?y");
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
