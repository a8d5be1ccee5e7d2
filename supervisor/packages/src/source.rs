//! Where a tenant's packages come from.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::url::Url;

/// The most bytes of a login: what fits a header.
pub const LOGIN_MAX_BYTES: usize = 4096;

/// Where a tenant's packages come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The upstream index: the address that `/<project>/` follows on.
    pub index_url: Option<Url>,
    /// What the index asks for. It goes to the index's own origin, and only encrypted.
    pub login: Option<Login>,
    /// Directories of wheels and source archives. A project that is there is never asked for upstream.
    pub find_links: Vec<PathBuf>,
}

impl Source {
    /// Whether there is nothing to install from.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.index_url.is_none() && self.find_links.is_empty()
    }

    /// The value of `Authorization` for a request to this URL, if it gets one.
    #[must_use]
    pub fn authorization(&self, url: &Url) -> Option<String> {
        let index = self.index_url.as_ref()?;
        let login = self.login.as_ref()?;
        let is_for_it = url.is_https() && url.has_origin_of(index);
        is_for_it.then(|| format!("Basic {}", BASE64_STANDARD.encode(&login.0)))
    }
}

/// `USER:PASSWORD` for an index.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login(String);

impl Login {
    /// Reads one; a line feed at its end is no part of it. `None` for what is no user and password.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let login = text.trim_end_matches(['\r', '\n']);
        let is_printable = login.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let is_login = is_printable && login.len() <= LOGIN_MAX_BYTES && login.contains(':');
        is_login.then(|| Self(login.to_owned()))
    }
}

impl fmt::Debug for Login {
    /// Nothing of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_goes_to_the_index_alone_and_shows_nowhere() {
        let url = |text: &str| Url::parse(text).unwrap();
        let login = Login::parse("user:s3cret\n");
        assert!(!format!("{login:?}").contains("s3cret"));
        let mut source =
            Source { index_url: Some(url("https://a.test/simple")), login, ..Source::default() };
        let expected = Some("Basic dXNlcjpzM2NyZXQ=".to_owned());
        assert_eq!(source.authorization(&url("https://a.test/files/x.whl")), expected);
        for other in ["http://a.test/simple", "https://b.test/", "https://a.test:8443/simple"] {
            assert_eq!(source.authorization(&url(other)), None, "{other}");
        }
        source.index_url = Some(url("http://a.test/simple"));
        assert_eq!(source.authorization(&url("http://a.test/simple")), None);
        for text in ["", "user", "a:b\nc:d", "a:\u{e9}", "a:b\0"] {
            assert_eq!(Login::parse(text), None, "{text:?}");
        }
    }
}
