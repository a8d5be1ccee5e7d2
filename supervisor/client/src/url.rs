//! A daemon's URL: `http://HOST:PORT` or `unix:/PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use vivarium_api_types::ListenAddr;

/// The port of the API unless said otherwise.
const PORT: u16 = 8470;

/// Why a text is not a daemon's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// HTTPS is not supported.
    #[error("{0:?}: https is not spoken here: use http to this host, or a tunnel to another")]
    Https(String),
    /// Neither of the two forms.
    #[error("{0:?} is not a daemon's URL: http://HOST:PORT or unix:/PATH")]
    Form(String),
}

/// What to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// A daemon's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    transport: Transport,
}

impl Url {
    /// What to connect to.
    #[must_use]
    pub const fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The value of the Host header.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.transport {
            Transport::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Transport::Tcp { host, port } => format!("{host}:{port}"),
            Transport::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl From<&ListenAddr> for Url {
    fn from(address: &ListenAddr) -> Self {
        let transport = match address {
            ListenAddr::Unix(path) => Transport::Unix(path.clone()),
            ListenAddr::Tcp(tcp) => Transport::Tcp { host: tcp.ip().to_string(), port: tcp.port() },
        };
        Self { transport }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Tcp { .. } => write!(f, "http://{}", self.host()),
            Transport::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let form = || UrlError::Form(text.to_owned());
        if text.starts_with("https:") {
            return Err(UrlError::Https(text.to_owned()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            // unix:/PATH and unix:///PATH are the same path.
            let path = path.strip_prefix("//").unwrap_or(path);
            let is_path = path.starts_with('/') && path.len() > 1;
            return is_path
                .then(|| Self { transport: Transport::Unix(path.into()) })
                .ok_or_else(form);
        }
        let rest = text.strip_prefix("http://").ok_or_else(form)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']').ok_or_else(form)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| form())?;
                match after.strip_prefix(':') {
                    None if !after.is_empty() => return Err(form()),
                    port => (host, port),
                }
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || !host.chars().all(fits) {
            return Err(form());
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(form)?,
            None => PORT,
        };
        Ok(Self { transport: Transport::Tcp { host: host.to_owned(), port } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed_and_displayed() {
        for (text, shown, host) in [
            ("http://127.0.0.1:8470", "http://127.0.0.1:8470", "127.0.0.1:8470"),
            ("http://localhost", "http://localhost:8470", "localhost:8470"),
            ("http://localhost:1/", "http://localhost:1", "localhost:1"),
            ("http://[::1]:9", "http://[::1]:9", "[::1]:9"),
            ("http://[::1]", "http://[::1]:8470", "[::1]:8470"),
            ("unix:/run/v.sock", "unix:/run/v.sock", "localhost"),
            ("unix:///run/v.sock", "unix:/run/v.sock", "localhost"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.host(), host);
        }
    }

    #[test]
    fn malformed_urls_are_refused() {
        for bad in [
            "",
            "localhost:8470",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:b",
            "http://a:99999",
            "http://a/path",
            "http://user@a",
            "http://[::1",
            "http://[zz]:1",
            "http://[::1]x:1",
            "unix:relative",
            "unix:",
            "unix:/",
            "ftp://a",
        ] {
            let parsed = bad.parse::<Url>();
            assert!(matches!(parsed, Err(UrlError::Form(_))), "{bad}: {parsed:?}");
        }
        assert!(matches!("https://a".parse::<Url>(), Err(UrlError::Https(_))));
    }

    #[test]
    fn a_listen_address_becomes_the_url_that_clients_connect_to() {
        let tcp = ListenAddr::Tcp("[::1]:80".parse().unwrap());
        assert_eq!(Url::from(&tcp).to_string(), "http://[::1]:80");
        let unix = ListenAddr::Unix("/run/v.sock".into());
        assert_eq!(Url::from(&unix).to_string(), "unix:/run/v.sock");
    }
}
