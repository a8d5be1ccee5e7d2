//! Where a server in a session may send its client: below its own prefix.
//!
//! A client follows with its token, and with the method and body where the status says so. A place
//! outside would have it act on the API, or on another site, as tenant code likes.

use super::request::Front;

/// The path below the prefix that a `Location` means; `None` if it leads elsewhere.
pub(super) fn below(location: &str, front: &Front) -> Option<String> {
    // A client may take a backslash for a slash, and skip tabs: both mean nothing in a URI (RFC 3986).
    if !location
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>'))
    {
        return None;
    }
    let (reference, fragment) = split(location, '#');
    let (reference, query) = split(reference, '?');
    let path = match own_path(reference, front)? {
        "" => front.path().to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => {
            let directory = front.path().rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{directory}/{relative}")
        }
    };
    Some(format!("{}{}{query}{fragment}", front.prefix(), without_dots(&path)?))
}

/// Divides before the first of a character.
fn split(text: &str, at: char) -> (&str, &str) {
    text.split_at(text.find(at).unwrap_or(text.len()))
}

/// The path of a reference to the server itself, as it knows itself.
fn own_path<'a>(reference: &'a str, front: &Front) -> Option<&'a str> {
    let of_authority = |rest: &'a str| {
        let (authority, path) = split(rest, '/');
        let (host, port) = authority.rsplit_once(':')?;
        let is_own = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        (is_own && port.parse() == Ok(front.port())).then_some(if path.is_empty() {
            "/"
        } else {
            path
        })
    };
    if let Some(rest) = reference.strip_prefix("//") {
        return of_authority(rest);
    }
    let (first, _) = split(reference, '/');
    match first.split_once(':') {
        None => Some(reference),
        // A scheme.
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {
            of_authority(reference.get(scheme.len()..)?.strip_prefix("://")?)
        }
        Some(_) => None,
    }
}

/// The path without `.` and `..` (RFC 3986, 5.2.4); `None` if it leads above where it begins, or
/// begins with two slashes.
fn without_dots(path: &str) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let last = segments.len() - 1;
    for (index, segment) in segments.into_iter().enumerate() {
        // Clients decode the dots first (WHATWG URL, "double-dot path segment").
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            "." if index == last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop()?;
                if index == last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    let path = format!("/{}", kept.join("/"));
    (!path.starts_with("//")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::uri::PathAndQuery;

    fn below_of(location: &str) -> Option<String> {
        let target = PathAndQuery::from_static("/a/b?c");
        below(location, &Front::new(8000, "/v1/sessions/s/ports/8000".to_owned(), target))
    }

    #[test]
    fn places_of_the_server_are_below_its_prefix() {
        for (location, expected) in [
            ("/", "/"),
            ("/x/y?z#f", "/x/y?z#f"),
            ("x", "/a/x"),
            ("./x", "/a/x"),
            ("../x/", "/x/"),
            (".", "/a/"),
            ("..", "/"),
            ("x/../y/.", "/a/y/"),
            ("?q=//..", "/a/b?q=//.."),
            ("#f", "/a/b#f"),
            ("", "/a/b"),
            ("x:y/z", ""),
            ("/x:y", "/x:y"),
            ("http://localhost:8000", "/"),
            ("http://127.0.0.1:8000/x?y", "/x?y"),
            ("HTTP://[::1]:8000/x", "/x"),
            ("//localhost:8000/x", "/x"),
        ] {
            let found = below_of(location);
            if expected.is_empty() {
                assert_eq!(found, None, "{location}");
            } else {
                assert_eq!(
                    found.unwrap(),
                    format!("/v1/sessions/s/ports/8000{expected}"),
                    "{location}"
                );
            }
        }
    }

    #[test]
    fn places_elsewhere_are_none() {
        for location in [
            "../..",
            "/..",
            "/../../../v1/host",
            "../../../other/ports/1/",
            "/%2e%2e/x",
            "/.%2E/x",
            "/x/../../y",
            "//evil.example/x",
            "///evil.example/x",
            "/..//evil.example",
            "/.//evil.example",
            "http://evil.example:8000/",
            "http://localhost/",
            "http://localhost:8001/",
            "http://localhost:8000@evil.example/",
            "http://localhost:8000/../v1",
            "https://localhost:8000/",
            "http:x",
            "http:/x",
            "javascript:alert(1)",
            "data:text/html,x",
            "\\evil.example\\x",
            "/\\evil.example",
            "/\t/evil.example",
            " /x",
            "/x y",
            "/é",
        ] {
            assert_eq!(below_of(location), None, "{location}");
        }
    }
}
