//! The entries of an allow-list: `example.com`, `*.example.org:443`, `GET,HEAD example.com:80`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::{Host, Name, NameError};

/// Where HTTP is, which the gate reads.
pub const HTTP_PORT: u16 = 80;
/// Where TLS is, of which the gate reads the beginning.
pub const HTTPS_PORT: u16 = 443;

/// Why text is no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowError {
    /// The host is none.
    #[error(transparent)]
    Host(#[from] NameError),
    /// A port is not a number from 1 to 65535.
    #[error("{0:?} is not a port")]
    Port(String),
    /// A method is not upper-case letters.
    #[error("{0:?} is not a method")]
    Method(String),
    /// More than a list of methods and a host.
    #[error("not of the form `[METHOD,…] HOST[:PORT]`")]
    Form,
}

/// The hosts of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostPattern {
    /// This one.
    Exact(Host),
    /// `*.domain`: all names below the domain, at any depth, and not the domain itself.
    Below(Name),
}

impl HostPattern {
    /// Whether a host is meant.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(exact), host) => exact == host,
            (Self::Below(domain), Host::Name(name)) => name.is_below(domain),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }

    /// Whether all hosts that `other` means are meant.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (own, Self::Exact(host)) => own.matches(host),
            (Self::Below(domain), Self::Below(name)) => name == domain || name.is_below(domain),
            (Self::Exact(_), Self::Below(_)) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.strip_prefix("*.") {
            Some(domain) => domain.parse().map(Self::Below),
            None => text.parse().map(Self::Exact),
        }
    }
}

impl TryFrom<String> for HostPattern {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

/// An entry of the allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Allow {
    /// The hosts.
    pub hosts: HostPattern,
    /// The one port; 80 and 443 if none is given.
    pub port: Option<u16>,
    /// The only methods; all if none is given.
    pub methods: BTreeSet<String>,
}

impl Allow {
    /// Whether this entry is about a host and port, whatever the method.
    #[must_use]
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.has_port(port) && self.hosts.matches(host)
    }

    /// Whether a port is one of this entry's.
    #[must_use]
    pub const fn has_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => matches!(port, HTTP_PORT | HTTPS_PORT),
        }
    }

    /// Whether a method is allowed by this entry.
    #[must_use]
    pub fn has_method(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }
}

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, AllowError> {
        let words: Vec<&str> = text.split(' ').collect();
        let (methods, place) = match words.as_slice() {
            [place] => (BTreeSet::new(), *place),
            [methods, place] => (methods.split(',').map(method).collect::<Result<_, _>>()?, *place),
            _ => return Err(AllowError::Form),
        };
        let (hosts, port) = split_port(place)?;
        Ok(Self { hosts: hosts.parse()?, port, methods })
    }
}

fn method(text: &str) -> Result<String, AllowError> {
    let is_method = !text.is_empty()
        && text.len() <= 32
        && text.chars().all(|c| c.is_ascii_uppercase() || c == '-' || c == '_');
    if is_method { Ok(text.to_owned()) } else { Err(AllowError::Method(text.to_owned())) }
}

/// Cuts the port off. An IPv6 address with a port is in brackets.
fn split_port(place: &str) -> Result<(&str, Option<u16>), AllowError> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => return Ok((place, None)),
    };
    let is_number = !port.is_empty() && port.chars().all(|digit| digit.is_ascii_digit());
    match port.parse() {
        Ok(number @ 1..) if is_number => Ok((host, Some(number))),
        _ => Err(AllowError::Port(port.to_owned())),
    }
}

impl TryFrom<String> for Allow {
    type Error = AllowError;

    fn try_from(text: String) -> Result<Self, AllowError> {
        text.parse()
    }
}

impl From<Allow> for String {
    fn from(allow: Allow) -> Self {
        allow.to_string()
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            let methods: Vec<&str> = self.methods.iter().map(String::as_str).collect();
            write!(f, "{} ", methods.join(","))?;
        }
        self.hosts.fmt(f)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allow(text: &str) -> Allow {
        text.parse().unwrap()
    }

    fn matches(entry: &str, host: &str, port: u16) -> bool {
        allow(entry).matches(&host.parse().unwrap(), port)
    }

    #[test]
    fn entries_mean_their_hosts_and_ports_alone() {
        assert!(matches("example.com", "example.com", 80));
        assert!(matches("Example.COM.", "example.com", 443));
        assert!(!matches("example.com", "example.com", 22));
        assert!(!matches("example.com", "a.example.com", 443));
        assert!(!matches("example.com", "example.com.evil.net", 443));
        assert!(matches("*.example.com", "a.example.com", 443));
        assert!(matches("*.example.com", "b.a.example.com", 443));
        assert!(!matches("*.example.com", "example.com", 443));
        assert!(!matches("*.example.com", "badexample.com", 443));
        assert!(matches("example.com:8443", "example.com", 8443));
        assert!(!matches("example.com:8443", "example.com", 443));
        assert!(matches("[2606:4700::1]:443", "[2606:4700::1]", 443));
        assert!(matches("2606:4700::1", "[2606:4700::1]", 443));
        assert!(matches("1.1.1.1:53", "1.1.1.1", 53));
        assert!(!matches("*.1.com", "1.1.1.1", 443));
    }

    #[test]
    fn methods_are_a_list_before_the_host() {
        let entry = allow("GET,HEAD example.com:80");
        assert!(entry.has_method("GET") && !entry.has_method("POST") && !entry.has_method("get"));
        assert!(allow("example.com").has_method("BREW"));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a.*.com",
            "**.com",
            "https://example.com",
            "example.com/",
            "a.com:0",
            "a.com:65536",
            "a.com:",
            "a.com:+80",
            "get a.com",
            "GET,, a.com",
            "GET  a.com",
            "GET a.com b.com",
            "user@a.com",
            "*.1.2.3.4",
            " a.com",
            "a.com ",
        ] {
            assert!(text.parse::<Allow>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_pattern_covers_what_it_matches() {
        let covers = |one: &str, other: &str| {
            one.parse::<HostPattern>().unwrap().covers(&other.parse().unwrap())
        };
        assert!(covers("a.com", "a.com") && covers("*.a.com", "b.a.com"));
        assert!(covers("*.a.com", "*.a.com") && covers("*.a.com", "*.b.a.com"));
        assert!(!covers("b.a.com", "*.a.com") && !covers("*.b.a.com", "*.a.com"));
        assert!(!covers("*.a.com", "a.com"));
    }

    proptest! {
        #[test]
        fn an_entry_is_read_back_as_itself(text in "(GET,PUT )?(\\*\\.)?[a-z0-9.:\\[\\]-]{1,20}(:[0-9]{1,5})?") {
            if let Ok(entry) = text.parse::<Allow>() {
                prop_assert_eq!(entry.to_string().parse::<Allow>(), Ok(entry));
            }
        }
    }
}
