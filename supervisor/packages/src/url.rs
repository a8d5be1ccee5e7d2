//! Addresses upstream: `http` and `https`, and what references in a page lead to (RFC 3986, 5.2).

use std::fmt;

use serde::{Deserialize, Serialize};

/// An absolute `http` or `https` URL, without user information and fragment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    is_https: bool,
    /// Host, and port if one is given.
    authority: String,
    /// Path and query; starts with `/`.
    path: String,
}

/// Why a text is no URL of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("it does not start with http:// or https://")]
    Scheme,
    /// No host, or characters that have no place in a URL.
    #[error("it is not a URL")]
    Malformed,
    /// A user name or password.
    #[error("a user name or password in an index's URL is not supported")]
    User,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return Err(UrlError::Scheme);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        let in_authority = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if authority.is_empty()
            || !authority.chars().all(in_authority)
            || !path
                .bytes()
                .all(|byte| (0x21..0x7f).contains(&byte) && !b"\"<>\\^`{|}".contains(&byte))
        {
            return Err(UrlError::Malformed);
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let authority = authority.to_ascii_lowercase();
        Ok(Self { is_https, authority, path: without_dots(&format!("{slash}{path}")) })
    }

    /// What `reference` means in a document that was at this URL.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        let reference = reference.split('#').next().unwrap_or_default();
        let scheme = if self.is_https { "https" } else { "http" };
        let absolute = if reference.contains("://") {
            reference.to_owned()
        } else if let Some(rest) = reference.strip_prefix("//") {
            format!("{scheme}://{rest}")
        } else if reference.starts_with('/') {
            format!("{scheme}://{}{reference}", self.authority)
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{scheme}://{}{directory}/{reference}", self.authority)
        };
        Self::parse(&absolute)
    }

    /// Whether a connection to it is encrypted.
    #[must_use]
    pub const fn is_https(&self) -> bool {
        self.is_https
    }

    /// Host, and port if one is given.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query; starts with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and port; `None` if the port is none.
    #[must_use]
    pub fn place(&self) -> Option<(&str, u16)> {
        match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                Some((host, port.parse().ok().filter(|port| *port != 0)?))
            }
            _ => Some((&self.authority, if self.is_https { 443 } else { 80 })),
        }
    }

    /// Whether both are of one server: scheme, host and port.
    #[must_use]
    pub fn has_origin_of(&self, other: &Self) -> bool {
        self.is_https == other.is_https
            && self.place().is_some_and(|place| Some(place) == other.place())
    }
}

/// A path with `.` and `..` applied, which never climbs above the root.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut parts: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    parts.pop();
                }
                if is_last {
                    parts.push("");
                }
            }
            _ => parts.push(segment),
        }
    }
    format!("/{}{query}", parts.join("/"))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl TryFrom<String> for Url {
    type Error = UrlError;

    fn try_from(text: String) -> Result<Self, UrlError> {
        Self::parse(&text)
    }
}

impl From<Url> for String {
    fn from(url: Url) -> Self {
        url.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_where_browsers_go() {
        let page = Url::parse("https://Index.test:8443/root/simple/foo/?x#y").unwrap();
        for (reference, expected) in [
            ("../../files/foo.whl#sha256=1", "https://index.test:8443/root/files/foo.whl"),
            ("foo.whl", "https://index.test:8443/root/simple/foo/foo.whl"),
            ("/a/./b/../c?q=..", "https://index.test:8443/a/c?q=.."),
            ("//other.test/x", "https://other.test/x"),
            ("http://other.test", "http://other.test/"),
            ("../../../../../etc", "https://index.test:8443/etc"),
            ("..", "https://index.test:8443/root/simple/"),
        ] {
            assert_eq!(page.join(reference).unwrap().to_string(), expected, "{reference}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert_eq!(url("https://A.test/x").place(), Some(("a.test", 443)));
        assert_eq!(url("http://[::1]:8080").place(), Some(("[::1]", 8080)));
        assert_eq!(url("http://[::1]/").place(), Some(("[::1]", 80)));
        for port in ["0", "65536", "x", ""] {
            assert_eq!(url(&format!("http://a:{port}/")).place(), None, "{port}");
        }
        let index = url("https://a.test/simple");
        assert!(url("https://a.test:443/files").has_origin_of(&index));
        for other in
            ["http://a.test/", "https://b.test/", "https://a.test:444/", "https://a.test.b/"]
        {
            assert!(!url(other).has_origin_of(&index), "{other}");
        }
        assert!(!url("https://a:x/").has_origin_of(&url("https://b:x/")));
    }

    #[test]
    fn others_are_no_urls_of_an_index() {
        for text in ["ftp://a/b", "file:///etc/passwd", "a", "", "javascript:1"] {
            assert_eq!(Url::parse(text), Err(UrlError::Scheme), "{text}");
        }
        assert_eq!(Url::parse("https://user:pw@host/"), Err(UrlError::User));
        for text in ["http://", "http:///x", "http://a b/", "http://a/\r\nHost: b", "http://a/é"] {
            assert_eq!(Url::parse(text), Err(UrlError::Malformed), "{text}");
        }
    }
}
