//! A client of MCP over streamable HTTP: one request, one answer.
//!
//! 2026-07-28 has no handshake: each request says its version. Of the revisions before, each begins with
//! `initialize`, after which the server may want a header with its session.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use vivarium_api_types::JsonText;
use vivarium_egress::Reason;
use vivarium_egress::message::{Call, CallError, CallResponse, MAX_CALL_BODY_BYTES};

use super::message;
use crate::egress::{Egress, SecretError, read_secret};
use crate::settings::ToolServer;

const STATELESS: &str = "2026-07-28";

/// The revisions with a handshake, newest first.
const HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const SESSION: &str = "mcp-session-id";

/// The longest id of a server's session, in bytes.
const MAX_SESSION_BYTES: usize = 1024;

/// Whether a server wants a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Handshake,
    Stateless,
}

/// As what requests are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Terms {
    Stateless,
    Handshake { version: &'static str, session: Option<String> },
}

/// Why a server has no answer. No text is of the secret or of the URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the tool server: {0}{hint}", hint = hint(.0))]
    Call(CallError),
    #[error("the tool server answered with HTTP {0}")]
    Status(u16),
    /// JSON-RPC's error.
    #[error("the tool server refused it: {message} ({code})")]
    Refused { code: i64, message: String },
    #[error("the tool server's answer is none of MCP")]
    Malformed,
    #[error("the tool server describes {0} otherwise than MCP does")]
    Tool(String),
    #[error("the tool server speaks no revision of MCP that is known here")]
    Version,
    #[error("the request is over the maximum of {MAX_CALL_BODY_BYTES} bytes")]
    TooLarge,
    #[error("the tool server's secret cannot be read")]
    Secret(#[source] SecretError),
}

/// What to do about it, where the words of the gate do not say so.
fn hint(error: &CallError) -> &'static str {
    match error {
        CallError::Refused(Reason::Address(_)) => " is refused (fix: allow_addresses)",
        CallError::Refused(Reason::Certificate) => {
            " is not good for this name, or the server does not speak TLS"
        }
        _ => "",
    }
}

#[derive(Debug)]
pub(super) struct Client {
    name: String,
    pub(super) server: Arc<ToolServer>,
    egress: Arc<Egress>,
}

impl Client {
    pub(super) fn new(name: &str, server: Arc<ToolServer>, egress: Arc<Egress>) -> Self {
        Self { name: name.to_owned(), server, egress }
    }

    /// Its name in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The terms for a server of this era, after a handshake if it wants one.
    pub(super) async fn terms(&self, era: Era, within: Duration) -> Result<Terms, ServerError> {
        if era == Era::Stateless {
            return Ok(Terms::Stateless);
        }
        let params = json!({
            "protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": client_info()
        });
        let request = message::request(0, "initialize", &params);
        let response = self.post("POST", vec![], &request, within).await?;
        let result = message::result(&response, 0)?;
        let result: Value =
            serde_json::from_str(result.as_str()).map_err(|_| ServerError::Malformed)?;
        let said = result.get("protocolVersion").and_then(Value::as_str);
        let version = HANDSHAKE.into_iter().find(|known| Some(*known) == said);
        let version = version.ok_or(ServerError::Version)?;
        let is_id = |id: &&str| {
            id.len() <= MAX_SESSION_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let session = message::header(&response, SESSION).filter(is_id).map(str::to_owned);
        let terms = Terms::Handshake { version, session };
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        self.post("POST", headers_of(&terms), &done, within).await?;
        Ok(terms)
    }

    /// Makes a request.
    pub(super) async fn request(
        &self,
        terms: &Terms,
        id: u64,
        method: &str,
        mut params: Map<String, Value>,
        within: Duration,
    ) -> Result<JsonText, ServerError> {
        let mut headers = headers_of(terms);
        if *terms == Terms::Stateless {
            headers.push(("mcp-method".to_owned(), method.to_owned()));
            if let Some(name) = params.get("name").and_then(Value::as_str) {
                headers.push(("mcp-name".to_owned(), header_value(name)));
            }
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": client_info(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".to_owned(), meta);
        }
        let request = message::request(id, method, &Value::Object(params));
        let response = self.post("POST", headers, &request, within).await?;
        message::result(&response, id)
    }

    /// Tells a server that its session is over, if it has one. What it answers changes nothing.
    pub(super) async fn end(&self, terms: &Terms, within: Duration) -> Result<(), ServerError> {
        self.post("DELETE", headers_of(terms), "", within).await.map(drop)
    }

    async fn post(
        &self,
        http_method: &str,
        mut headers: Vec<(String, String)>,
        body: &str,
        within: Duration,
    ) -> Result<CallResponse, ServerError> {
        if body.len() > MAX_CALL_BODY_BYTES {
            return Err(ServerError::TooLarge);
        }
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        add("accept", "application/json, text/event-stream");
        add("content-type", "application/json");
        add("user-agent", concat!("vivarium/", env!("CARGO_PKG_VERSION")));
        if let Some(secret) = &self.server.secret {
            let path = format!("tools.{}", self.name);
            add(&self.server.header, &read_secret(&path, secret).map_err(ServerError::Secret)?);
        }
        let call = Call {
            method: http_method.to_owned(),
            url: self.server.mcp.clone(),
            headers,
            body: body.as_bytes().to_vec(),
            timeout: within,
            max_response_bytes: MAX_CALL_BODY_BYTES,
            allow_addresses: self.server.allow_addresses.clone(),
        };
        self.egress.call(call).await.map_err(ServerError::Call)
    }
}

fn client_info() -> Value {
    json!({"name": "vivarium", "version": env!("CARGO_PKG_VERSION")})
}

fn headers_of(terms: &Terms) -> Vec<(String, String)> {
    let (version, session) = match terms {
        Terms::Stateless => (STATELESS, None),
        Terms::Handshake { version, session } => (*version, session.as_ref()),
    };
    let version = ("mcp-protocol-version".to_owned(), version.to_owned());
    let session = session.map(|session| (SESSION.to_owned(), session.clone()));
    [version].into_iter().chain(session).collect()
}

/// In base64 if the text does not fit a header, as MCP has it.
fn header_value(text: &str) -> String {
    let fits = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if text.bytes().all(fits) && text.trim() == text && !text.starts_with("=?base64?") {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_header() {
        assert_eq!(header_value("run_python"), "run_python");
        assert_eq!(header_value("Wörter"), "=?base64?V8O2cnRlcg==?=");
        for strange in ["", " a", "a\r\nx: y", "=?base64?YQ==?="] {
            let value = header_value(strange);
            assert!(!value.contains(['\r', '\n']) && value.trim() == value, "{value:?}");
            assert!(strange.is_empty() || value != strange, "{value:?}");
        }
    }
}
