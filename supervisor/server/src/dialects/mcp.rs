//! MCP, the Model Context Protocol: tools that run code in sessions, for agents.
//!
//! [`http`] and [`stdio`] carry messages; [`answer`] answers one. What tools do is requests of the
//! native API ([`super::native`]).

pub mod http;
pub mod in_flight;
mod outcome;
mod progress;
mod resources;
pub mod revision;
pub mod rpc;
pub mod sse;
pub mod stdio;
pub(in crate::dialects) mod tools;

use serde_json::{Map, Value, json};

use super::native::Native;
use progress::Progress;
use revision::Era;
use rpc::{Error, INVALID_PARAMS, METHOD_NOT_FOUND, Request};

/// How long a client may keep a list of tools, in milliseconds: it only changes with the tenant's
/// configuration.
const LIST_TTL_MS: u64 = 60_000;

const INSTRUCTIONS: &str = "\
Runs Python and shell commands in sandboxed sessions on Linux. A session keeps variables, imports and \
files from call to call. Call run_python without `session` to start one, and pass the `session` id of its \
answer to go on in it. Files that code writes into its working directory come back as resource links. End \
sessions that are no longer needed with end_session.";

/// A result, and room for it until it is sent.
#[derive(Debug)]
pub struct Answer<R> {
    pub result: Value,
    pub room: Option<R>,
}

impl<R> From<Value> for Answer<R> {
    fn from(result: Value) -> Self {
        Self { result, room: None }
    }
}

/// Answers a request.
///
/// # Errors
/// The error to answer with. What a tool is refused is a result.
pub async fn answer<N: Native>(
    native: &N,
    era: Era,
    request: &Request,
    progress: Option<&Progress>,
) -> Result<Answer<N::Room>, Error> {
    let params = &request.params;
    let answer = match (request.method.as_str(), era) {
        ("initialize", Era::Handshake) => initialized(params).into(),
        ("ping", Era::Handshake) => json!({}).into(),
        ("server/discover", Era::Stateless) => discovered().into(),
        ("tools/list", _) => tools::list(native).await?.into(),
        ("tools/call", _) => tools::call(native, params, progress).await?,
        ("resources/list", _) => resources::list(native, params).await?,
        ("resources/templates/list", _) => resources::templates().into(),
        ("resources/read", _) => resources::read(native, era, params).await?,
        (method, _) => {
            return Err(Error::new(METHOD_NOT_FOUND, format!("there is no method {method:?}")));
        }
    };
    Ok(match era {
        Era::Handshake => answer,
        Era::Stateless => Answer { result: completed(&request.method, answer.result), ..answer },
    })
}

/// Adds what results have had since 2026-07-28.
fn completed(method: &str, mut result: Value) -> Value {
    let Some(members) = result.as_object_mut() else { return result };
    members.insert("resultType".to_owned(), json!("complete"));
    if method != "tools/call" {
        let ttl_ms = if method.starts_with("resources/") { 0 } else { LIST_TTL_MS };
        members.insert("ttlMs".to_owned(), json!(ttl_ms));
        members.insert("cacheScope".to_owned(), json!("private"));
    }
    result
}

fn server_info() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({"name": "vivarium", "title": "Vivarium", "version": version})
}

fn capabilities() -> Value {
    json!({"tools": {}, "resources": {}})
}

fn initialized(params: &Map<String, Value>) -> Value {
    json!({
        "protocolVersion": revision::negotiated(params.get("protocolVersion")),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    })
}

fn discovered() -> Value {
    json!({
        "supportedVersions": [revision::STATELESS],
        "capabilities": capabilities(),
        "instructions": INSTRUCTIONS,
        "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
    })
}

/// Whether a request names a tool that there is not, which is an error before anything else is done.
fn check(request: &Request) -> Result<(), Error> {
    if request.method == "tools/call" { tools::check(&request.params) } else { Ok(()) }
}

/// The request that a notification says nobody waits for any more.
fn cancelled(notification: &Request) -> Option<rpc::Id> {
    let is_that = notification.method == "notifications/cancelled";
    notification.params.get("requestId").filter(|_| is_that).and_then(rpc::Id::read)
}

/// A parameter that is a string.
fn text<'a>(params: &'a Map<String, Value>, name: &str) -> Result<&'a str, Error> {
    let value = params.get(name).and_then(Value::as_str);
    value.ok_or_else(|| Error::new(INVALID_PARAMS, format!("params.{name} has to be a string")))
}
