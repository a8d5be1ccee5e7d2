//! The tools: what is listed, and the way of a call to its tool.

mod files;
mod run;
mod schemas;
mod sessions;

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::progress::Progress;
use super::rpc::{Error, INVALID_PARAMS};
use super::{Answer, text};
use crate::dialects::native::{self, Call, Native, Refusal};
use crate::dialects::place::Place;
use schemas::Tool;

/// What a tool gives: a result, or what it was refused.
type Given<R> = Result<Answer<R>, Refusal>;

/// The tools, as far as this client may use them.
pub(super) async fn list<N: Native>(native: &N) -> Result<Value, Error> {
    let can_install = may_install(native).await;
    let listed = schemas::ALL.iter().filter(|tool| tool.name != schemas::INSTALL || can_install);
    Ok(json!({"tools": listed.map(Tool::described).collect::<Vec<_>>()}))
}

/// The member of `GET /v1/host` that says whether sessions can install packages.
#[derive(Default, Deserialize)]
struct Host {
    #[serde(default)]
    installs_packages: bool,
}

async fn may_install<N: Native>(native: &N) -> bool {
    let host = native::json::<_, Host>(native, Call::new(Method::GET, "/v1/host")).await;
    host.is_ok_and(|(host, _)| host.installs_packages)
}

/// Refuses a call of a tool that there is not.
pub(super) fn check(params: &Map<String, Value>) -> Result<(), Error> {
    let name = text(params, "name")?;
    if schemas::ALL.iter().any(|tool| tool.name == name) {
        return Ok(());
    }
    Err(Error::new(INVALID_PARAMS, format!("there is no tool {name:?}")))
}

/// Calls a tool. What it is refused is for the model to read.
pub(in crate::dialects) async fn call<N: Native>(
    native: &N,
    params: &Map<String, Value>,
    progress: Option<&Progress>,
) -> Result<Answer<N::Room>, Error> {
    check(params)?;
    let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
    let given = match text(params, "name")? {
        "run_python" => run::python(native, arguments, progress).await,
        "run_command" => run::command(native, arguments, progress).await,
        schemas::INSTALL => run::install(native, arguments, progress).await,
        "write_file" => files::write(native, arguments).await,
        "read_file" => files::read(native, arguments).await,
        "list_files" => files::list(native, arguments).await,
        "list_sessions" => sessions::list(native, arguments).await,
        "reset_session" => sessions::reset(native, arguments).await,
        _ => sessions::end(native, arguments).await,
    };
    Ok(given.unwrap_or_else(|refusal| said(&refusal.text(), true).into()))
}

/// A result of text alone.
fn said(text: &str, is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

/// A result of text and the same structured.
fn both(text: &str, structured: Value) -> Value {
    json!({
        "content": [{"type": "text", "text": text}],
        "structuredContent": structured,
        "isError": false,
    })
}

/// The arguments of a tool, whose fields are named when they are wrong.
fn arguments<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    if !value.is_object() {
        return Err(wrong("arguments", "this has to be an object"));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = (path != ".").then_some(path);
        Refusal::invalid(field, error.into_inner().to_string())
    })
}

/// Refuses an argument.
fn wrong(field: &str, detail: &str) -> Refusal {
    Refusal::invalid(Some(field.to_owned()), detail)
}

/// Runs code in a session, which is made if there is none, and gives the outcome as one text.
pub(super) async fn python_in<N: Native>(native: &N, session: &str, code: &str) -> Answer<N::Room> {
    let given = run::in_session(native, session, code).await;
    given.unwrap_or_else(|refusal| said(&refusal.text(), true).into())
}

/// The session of a call.
pub(super) fn place<N: Native>(native: &N, session: Option<String>) -> Place<N> {
    Place::of(native, session, "m-", 18)
}
