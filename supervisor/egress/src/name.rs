//! Host names in the one form that is compared: lower case, without a final dot, ASCII.
//!
//! A name in another script is to be given in its ASCII form (`xn--…`, RFC 5891), which is what
//! clients send: two spellings of one name would be two names for an allow-list.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most characters of a name, and of one label: RFC 1035, 2.3.4.
const MAX_NAME_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;

/// Why text is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No character, or a label without one.
    #[error("a host name with an empty label")]
    Empty,
    /// Too long.
    #[error("a host name of over 253 characters, or with a label of over 63")]
    TooLong,
    /// Not ASCII.
    #[error("a host name that is not ASCII: give its `xn--` form")]
    NotAscii,
    /// A character that is in no host name.
    #[error("a host name with {0:?}")]
    Character(char),
    /// Digits and dots, but no address: resolvers take `127.1` and `0x7f.1` for one.
    #[error("a host name that ends in a number and is no address")]
    Numeric,
}

/// A host name, normalised: lower case, no final dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is a name below `domain`, at any depth, and not `domain` itself.
    #[must_use]
    pub fn is_below(&self, domain: &Self) -> bool {
        self.0.strip_suffix(&domain.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if !text.is_ascii() {
            return Err(NameError::NotAscii);
        }
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if text.len() > MAX_NAME_LEN {
            return Err(NameError::TooLong);
        }
        for label in text.split('.') {
            if label.is_empty() {
                return Err(NameError::Empty);
            }
            if label.len() > MAX_LABEL_LEN {
                return Err(NameError::TooLong);
            }
            let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if let Some(other) = label.chars().find(|c| !is_known(*c)) {
                return Err(NameError::Character(other));
            }
        }
        // As of the WHATWG's "ends in a number" checker.
        let last = text.rsplit('.').next().unwrap_or_default();
        let is_hex = last
            .strip_prefix("0x")
            .is_some_and(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()));
        if is_hex || last.chars().all(|digit| digit.is_ascii_digit()) {
            return Err(NameError::Numeric);
        }
        Ok(Self(text))
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a client wants to go: a name, or an address that it gives itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Host {
    /// A name, which the gate resolves.
    Name(Name),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// The name, if it is one.
    #[must_use]
    pub const fn name(&self) -> Option<&Name> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl FromStr for Host {
    type Err = NameError;

    /// Reads `example.com`, `192.0.2.1`, and `[2001:db8::1]` with or without its brackets.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let in_brackets = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = in_brackets.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if let Ok(address) = text.strip_suffix('.').unwrap_or(text).parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        text.parse().map(Self::Name)
    }
}

impl fmt::Display for Host {
    /// As in a URL: an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_name_are_one_name() {
        for text in ["example.com", "EXAMPLE.com", "example.COM."] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), "example.com");
        }
        assert_eq!(
            "xn--BCHER-kva.example".parse::<Name>().unwrap().as_str(),
            "xn--bcher-kva.example"
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        use NameError::*;
        for (text, error) in [
            ("", Empty),
            (".", Empty),
            ("a..b", Empty),
            (".a", Empty),
            ("a.com..", Empty),
            ("bücher.example", NotAscii),
            ("a b", Character(' ')),
            ("a/b", Character('/')),
            ("a\r\nb", Character('\r')),
            ("user@example.com", Character('@')),
            ("example.com%00", Character('%')),
            ("127.1", Numeric),
            ("2130706433", Numeric),
            ("0x7f.0x1", Numeric),
            ("0x7f000001", Numeric),
            ("1.2.3.256", Numeric),
            ("010.0.0.1", Numeric),
        ] {
            assert_eq!(text.parse::<Host>(), Err(error), "{text}");
        }
        assert_eq!("a".repeat(64).parse::<Name>(), Err(TooLong));
        assert_eq!("a.".repeat(127).parse::<Name>().map(drop), Ok(()));
        assert_eq!("ab.".repeat(85).parse::<Name>(), Err(TooLong));
    }

    #[test]
    fn addresses_are_addresses() {
        for (text, shown) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1.", "192.0.2.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("::1", "[::1]"),
        ] {
            let host: Host = text.parse().unwrap();
            assert!(host.name().is_none());
            assert_eq!(host.to_string(), shown);
        }
        assert!("[::1".parse::<Host>().is_err());
        assert!("fe80::1%eth0".parse::<Host>().is_err());
    }

    #[test]
    fn below_is_not_beside() {
        let domain: Name = "example.org".parse().unwrap();
        for (text, is_below) in [
            ("a.example.org", true),
            ("b.a.example.org", true),
            ("example.org", false),
            ("badexample.org", false),
            ("example.org.evil.net", false),
        ] {
            assert_eq!(text.parse::<Name>().unwrap().is_below(&domain), is_below, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_read_back_as_itself(text in ".{0,80}") {
            if let Ok(host) = text.parse::<Host>() {
                prop_assert_eq!(host.to_string().parse::<Host>(), Ok(host));
            }
        }
    }
}
