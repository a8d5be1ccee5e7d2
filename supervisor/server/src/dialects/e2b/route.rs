//! Which sandbox a request is for: by its headers, else by its host's name.

use http::{HeaderMap, Uri, header};

const SANDBOX: &str = "e2b-sandbox-id";
const PORT: &str = "e2b-sandbox-port";

/// The header with the token of a sandbox's files and processes.
pub const ACCESS: &str = "x-access-token";

/// The longest id of a session.
const MAX_ID_CHARS: usize = 64;

/// Whom a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The API beside the sandboxes.
    Control,
    /// A port of a sandbox.
    Sandbox { id: String, port: u16 },
    /// The files and processes of the sandbox whose token is shown: some older SDKs name no sandbox.
    OfToken,
    /// A file of the sandbox that has signed the URL.
    Signed,
}

impl Target {
    /// # Errors
    /// What is wrong with the headers.
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Result<Self, &'static str> {
        if let Some(id) = headers.get(SANDBOX) {
            let id = id.to_str().ok().filter(|id| is_id(id));
            let id = id.ok_or("E2b-Sandbox-Id is no id of a sandbox")?.to_owned();
            let port = match headers.get(PORT) {
                None => Some(super::ENVD_PORT),
                Some(port) => port.to_str().ok().and_then(|port| port.parse().ok()),
            };
            let port = port.filter(|port| *port > 0).ok_or("E2b-Sandbox-Port is no port")?;
            // Older SDKs send these headers to the API as well, where they connect.
            if port == super::ENVD_PORT && is_of_api(uri.path()) {
                return Ok(Self::Control);
            }
            return Ok(Self::Sandbox { id, port });
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        if let Some((id, port)) = uri.host().or(host).and_then(of_host) {
            return Ok(Self::Sandbox { id: id.to_ascii_lowercase(), port });
        }
        if headers.contains_key(ACCESS) && is_of_envd(uri.path()) {
            return Ok(Self::OfToken);
        }
        if uri.path() == "/files" {
            return Ok(Self::Signed);
        }
        Ok(Self::Control)
    }
}

/// Whether a path is the API's, and no sandbox's.
fn is_of_api(path: &str) -> bool {
    path.strip_prefix("/v2").unwrap_or(path).starts_with("/sandboxes/")
}

/// Whether a path is one that every sandbox has, and the API has not.
fn is_of_envd(path: &str) -> bool {
    let services = ["/process.Process/", "/filesystem.Filesystem/"];
    matches!(path, "/files" | "/health") || services.iter().any(|of| path.starts_with(of))
}

/// The sandbox and port of a host such as `49983-i0123.example.org`.
fn of_host(host: &str) -> Option<(&str, u16)> {
    let (label, _) = host.split_once('.')?;
    let (port, id) = label.split_once('-')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_id(id).then_some((id, port))
}

fn is_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=MAX_ID_CHARS).contains(&id.len()) && id.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, headers: &[(&'static str, &str)]) -> Result<Target, &'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        Target::of(&target.parse().unwrap(), &map)
    }

    fn sandbox(id: &str, port: u16) -> Result<Target, &'static str> {
        Ok(Target::Sandbox { id: id.to_owned(), port })
    }

    #[test]
    fn headers_come_before_the_host() {
        let host = ("host", "49999-i2.e2b.example:8471");
        assert_eq!(of("/x", &[host]), sandbox("i2", 49999));
        let id = ("e2b-sandbox-id", "i1");
        assert_eq!(of("/x", &[host, id, ("e2b-sandbox-port", "80")]), sandbox("i1", 80));
        assert_eq!(of("/x", &[id]), sandbox("i1", 49983));
        assert!(of("/x", &[id, ("e2b-sandbox-port", "0")]).is_err());
        assert!(of("/x", &[("e2b-sandbox-id", "../x")]).is_err());
    }

    #[test]
    fn calls_of_the_api_are_no_sandboxs() {
        let id = ("e2b-sandbox-id", "i1");
        for path in ["/sandboxes/i1/connect", "/v2/sandboxes/i1/connect"] {
            assert_eq!(of(path, &[id, ("e2b-sandbox-port", "49983")]), Ok(Target::Control));
            assert_eq!(of(path, &[id, ("e2b-sandbox-port", "80")]), sandbox("i1", 80));
            assert_eq!(of(path, &[("host", "49983-i1.a")]), sandbox("i1", 49983));
        }
        assert_eq!(of("/sandboxesx", &[id]), sandbox("i1", 49983));
    }

    #[test]
    fn other_hosts_are_the_api() {
        for host in
            ["localhost:8471", "127.0.0.1:8471", "api.example.org", "80-.a", "x-i1.a", "[::1]"]
        {
            assert_eq!(of("/sandboxes", &[("host", host)]), Ok(Target::Control), "{host}");
        }
        assert_eq!(of("/files?path=a", &[("host", "localhost")]), Ok(Target::Signed));
        let token = ("x-access-token", "secret");
        for path in ["/files?path=a", "/health", "/process.Process/List"] {
            assert_eq!(of(path, &[token]), Ok(Target::OfToken), "{path}");
        }
        for path in ["/sandboxes/i1", "/v2/sandboxes", "/execute", "/"] {
            assert_eq!(of(path, &[token]), Ok(Target::Control), "{path}");
        }
    }
}
