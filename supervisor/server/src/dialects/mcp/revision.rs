//! The revisions of MCP, and by which one a message is to be answered.
//!
//! 2026-07-28 has no handshake: each request carries its version in `_meta`, and over HTTP again in
//! headers, which have to agree with the body. The revisions before begin with `initialize`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};

use super::rpc::{Error, HEADER_MISMATCH, INVALID_PARAMS, Request, UNSUPPORTED_VERSION};

/// The revision without a handshake.
pub const STATELESS: &str = "2026-07-28";

/// The revisions with one, oldest first.
pub const HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_HANDSHAKE];

const NEWEST_HANDSHAKE: &str = "2025-11-25";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// How a message is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Handshake,
    Stateless,
}

/// The era of a request. `headers` are those of HTTP, if it came that way.
///
/// # Errors
/// The error to answer with.
pub fn of(request: &Request, headers: Option<&HeaderMap>) -> Result<Era, Error> {
    let stated = headers.map(version_header).transpose()?.flatten();
    let envelope = request.meta(VERSION_KEY);
    if envelope.is_none() {
        match stated {
            None => return Ok(Era::Handshake),
            Some(version) if HANDSHAKE.contains(&version) => return Ok(Era::Handshake),
            Some(STATELESS) => {}
            Some(version) => return Err(unsupported(version)),
        }
    }
    let Some(version) = envelope else {
        return Err(missing(VERSION_KEY));
    };
    if request.meta(CAPABILITIES_KEY).is_none() {
        return Err(missing(CAPABILITIES_KEY));
    }
    if let Some(headers) = headers {
        agree(request, version, headers)?;
    }
    match version.as_str() {
        Some(STATELESS) => Ok(Era::Stateless),
        Some(other) => Err(unsupported(other)),
        None => {
            Err(Error::new(INVALID_PARAMS, format!("params._meta[{VERSION_KEY:?}] is a string")))
        }
    }
}

/// Checks the version that a notification or answer over HTTP states.
///
/// # Errors
/// The error to answer with.
pub fn check_header(headers: &HeaderMap) -> Result<(), Error> {
    match version_header(headers)? {
        Some(version) if version != STATELESS && !HANDSHAKE.contains(&version) => {
            Err(unsupported(version))
        }
        _ => Ok(()),
    }
}

/// The version to answer `initialize` with: the one asked for, or the newest that has it.
#[must_use]
pub fn negotiated(asked: Option<&Value>) -> &'static str {
    let asked = asked.and_then(Value::as_str).unwrap_or_default();
    let known = HANDSHAKE.into_iter().find(|known| *known == asked);
    known.unwrap_or(NEWEST_HANDSHAKE)
}

fn version_header(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    for name in [VERSION, METHOD, NAME] {
        if headers.get_all(&name).iter().count() > 1 {
            return Err(Error::new(HEADER_MISMATCH, format!("{name} is there more than once")));
        }
    }
    let Some(value) = headers.get(VERSION) else { return Ok(None) };
    let unreadable = || Error::new(HEADER_MISMATCH, format!("{VERSION} is not text"));
    value.to_str().map(Some).map_err(|_| unreadable())
}

/// Whether the headers say what the body does: intermediaries route by the one, we act on the other.
fn agree(request: &Request, version: &Value, headers: &HeaderMap) -> Result<(), Error> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let differs = |name: &HeaderName, what: &str| {
        let message = format!("the header {name} has to be there, and to be {what}");
        Err(Error::new(HEADER_MISMATCH, message))
    };
    if text(&VERSION) != version.as_str() || !version.is_string() {
        return differs(&VERSION, "the version in params._meta");
    }
    if text(&METHOD) != Some(request.method.as_str()) {
        return differs(&METHOD, "the method");
    }
    let member = match request.method.as_str() {
        "tools/call" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    // One that is no string is refused as a parameter.
    let Some(expected) = request.params.get(member).and_then(Value::as_str) else { return Ok(()) };
    match text(&NAME).and_then(decoded) {
        Some(name) if name == expected => Ok(()),
        _ => differs(&NAME, &format!("params.{member}")),
    }
}

/// A header's value, which is in base64 if the text does not fit a header.
fn decoded(value: &str) -> Option<String> {
    let Some(base64) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="))
    else {
        return Some(value.to_owned());
    };
    String::from_utf8(STANDARD.decode(base64).ok()?).ok()
}

fn missing(key: &str) -> Error {
    Error::new(INVALID_PARAMS, format!("params._meta needs {key:?}"))
}

fn unsupported(version: &str) -> Error {
    let data = json!({"supported": [STATELESS], "requested": version});
    Error::new(UNSUPPORTED_VERSION, "this version of MCP is not spoken here").with(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::mcp::rpc::{Message, parse};

    fn request(method: &str, params: &Value) -> Request {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        match parse(message.to_string().as_bytes()).unwrap() {
            Message::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn call(name: &str) -> Request {
        let meta = json!({VERSION_KEY: STATELESS, CAPABILITIES_KEY: {}});
        request("tools/call", &json!({"name": name, "_meta": meta}))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn code(request: &Request, pairs: &[(&'static str, &str)]) -> i64 {
        of(request, Some(&headers(pairs))).map_or_else(|error| error.code, |_| 0)
    }

    #[test]
    fn headers_have_to_agree_with_the_body() {
        let version = ("mcp-protocol-version", STATELESS);
        let method = ("mcp-method", "tools/call");
        let named = call("run_python");
        assert_eq!(code(&named, &[version, method, ("mcp-name", "run_python")]), 0);
        assert_eq!(
            code(&named, &[version, method, ("mcp-name", "=?base64?cnVuX3B5dGhvbg==?=")]),
            0
        );
        for wrong in [
            vec![],
            vec![version],
            vec![version, method],
            vec![version, method, ("mcp-name", "end_session")],
            vec![version, method, ("mcp-name", "=?base64?!?=")],
            vec![version, ("mcp-method", "tools/list"), ("mcp-name", "run_python")],
            vec![("mcp-protocol-version", "2025-11-25"), method, ("mcp-name", "run_python")],
            vec![version, version, method, ("mcp-name", "run_python")],
            vec![version, method, ("mcp-name", "run_python"), ("mcp-name", "run_python")],
        ] {
            assert_eq!(code(&named, &wrong), HEADER_MISMATCH, "{wrong:?}");
        }
        assert_eq!(of(&named, None), Ok(Era::Stateless));
    }

    #[test]
    fn envelope_is_whole_and_of_a_known_version() {
        let version = [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/list")];
        assert_eq!(code(&request("tools/list", &json!({})), &version), INVALID_PARAMS);
        let bare = request("tools/list", &json!({"_meta": {VERSION_KEY: STATELESS}}));
        assert_eq!(code(&bare, &version), INVALID_PARAMS);
        let meta = json!({VERSION_KEY: "2099-01-01", CAPABILITIES_KEY: {}});
        let newer = request("tools/list", &json!({"_meta": meta}));
        let headers = [("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")];
        assert_eq!(code(&newer, &headers), UNSUPPORTED_VERSION);
        let plain = request("tools/list", &json!({}));
        assert_eq!(code(&plain, &headers), UNSUPPORTED_VERSION);
        assert_eq!(of(&plain, Some(&HeaderMap::new())), Ok(Era::Handshake));
    }

    #[test]
    fn initialize_gets_the_version_it_asks_for_or_the_newest() {
        assert_eq!(negotiated(Some(&json!("2025-06-18"))), "2025-06-18");
        for other in [None, Some(json!("1.0")), Some(json!(STATELESS)), Some(json!(7))] {
            assert_eq!(negotiated(other.as_ref()), "2025-11-25");
        }
    }
}
