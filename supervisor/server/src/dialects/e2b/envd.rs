//! The server of a sandbox that answers for its files and processes: routes of HTTP, and calls of the
//! Connect protocol.

pub mod files;
mod filesystem;
mod input;
mod process;
pub(super) mod processes;
mod running;
mod watch;
pub(super) mod watchers;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use vivarium_api_types::Object;

use super::connect::{self, Failure};
use super::{Client, USER, envelope, errors, session};
use crate::dialects::native::Native;
use crate::dialects::{held, parsed};

/// What a call may take, by the name of its method.
#[must_use]
pub fn is_client_stream(path: &str) -> bool {
    path == "/process.Process/StreamInput"
}

/// Answers a request that is neither of a file nor a stream of the client's.
pub async fn respond<N: Native>(
    client: Client<N>,
    method: &http::Method,
    path: &str,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    match (method.as_str(), path) {
        ("GET", "/health") => return health(&client).await,
        ("GET", "/metrics") => return metrics(&client).await,
        ("GET", "/envs") => return Json(super::control::home_env()).into_response(),
        ("POST", "/files/compose") => return errors::not_offered("compose"),
        ("POST", _) => {}
        _ => return errors::answer(StatusCode::NOT_FOUND, "there is no such path"),
    }
    let is_stream = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with(connect::STREAM_TYPE));
    if let Err(failure) = check_user(headers) {
        return if is_stream { connect::failed(&failure) } else { connect::answered(Err(failure)) };
    }
    match path {
        "/process.Process/Start" => process::start(client, headers, body).await,
        "/process.Process/Connect" => process::connect(client, headers, body).await,
        "/filesystem.Filesystem/WatchDir" => watch::stream(client, headers, body).await,
        _ => connect::answered(unary(&client, path, body).await),
    }
}

/// Takes the input of a process as its client sends it.
pub async fn stream_input<N: Native>(
    client: Client<N>,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let answered = match check_user(headers) {
        Ok(()) => input::stream(&client, body).await,
        Err(failure) => Err(failure),
    };
    input::ended(answered)
}

async fn unary<N: Native>(client: &Client<N>, path: &str, body: &Bytes) -> Result<Value, Failure> {
    match path {
        "/process.Process/List" => process::list(client).await,
        "/process.Process/SendInput" => input::send(client, read(body).await?).await,
        "/process.Process/CloseStdin" => input::close(client, read(body).await?).await,
        "/process.Process/SendSignal" => process::signal(client, read(body).await?).await,
        "/process.Process/Update" => process::update(client, read(body).await?).await,
        "/filesystem.Filesystem/ListDir" => filesystem::list(client, read(body).await?).await,
        "/filesystem.Filesystem/Stat" => filesystem::stat(client, read(body).await?).await,
        "/filesystem.Filesystem/MakeDir" => filesystem::make(client, read(body).await?).await,
        "/filesystem.Filesystem/Move" => filesystem::rename(client, read(body).await?).await,
        "/filesystem.Filesystem/Remove" => filesystem::remove(client, read(body).await?).await,
        "/filesystem.Filesystem/CreateWatcher" => watch::create(client, read(body).await?).await,
        "/filesystem.Filesystem/GetWatcherEvents" => watch::events(client, read(body).await?).await,
        "/filesystem.Filesystem/RemoveWatcher" => watch::remove(client, &read(body).await?),
        _ => Err(Failure::new("unimplemented", format!("{path}: this is not offered here"))),
    }
}

async fn read<T: DeserializeOwned + Send + 'static>(body: &Bytes) -> Result<T, Failure> {
    let Object(value) = parsed(body).await.map_err(|error| Failure::invalid(&error))?;
    Ok(value)
}

async fn read_one<T: DeserializeOwned + Send + 'static>(body: &Bytes) -> Result<T, Failure> {
    let message = envelope::one(body).map_err(|error| Failure::invalid(&error))?;
    read(&held::bytes(message, body.clone())).await
}

/// A sandbox has one user. `Authorization` names it, and is no credential.
fn check_user(headers: &HeaderMap) -> Result<(), Failure> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(basic) = value.and_then(|value| value.strip_prefix("Basic ")) else { return Ok(()) };
    let name = STANDARD.decode(basic.trim()).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let name = name.split(':').next().unwrap_or_default();
    if is_user(name) { Ok(()) } else { Err(Failure::new("unauthenticated", unknown_user(name))) }
}

fn is_user(name: &str) -> bool {
    name.is_empty() || name == USER
}

fn unknown_user(name: &str) -> String {
    format!("unknown user {name:?}: a sandbox has one user here, {USER:?}")
}

async fn health<N: Native>(client: &Client<N>) -> Response {
    match session::find(&client.native, &client.sandbox.id).await {
        Ok(session) if session.is_paused() => errors::gone(&client.sandbox.id),
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => errors::inside(&refusal, &client.sandbox.id),
    }
}

async fn metrics<N: Native>(client: &Client<N>) -> Response {
    let told = match session::find(&client.native, &client.sandbox.id).await {
        Ok(session) => session.metrics(Some(&client.sandbox)),
        Err(refusal) => return errors::inside(&refusal, &client.sandbox.id),
    };
    let members = [
        ("ts", "timestampUnix"),
        ("cpu_count", "cpuCount"),
        ("cpu_used_pct", "cpuUsedPct"),
        ("mem_used", "memUsed"),
        ("mem_total", "memTotal"),
        ("disk_used", "diskUsed"),
        ("disk_total", "diskTotal"),
    ];
    let members =
        members.map(|(name, of)| (name.to_owned(), told.get(of).cloned().unwrap_or_default()));
    Json(Map::from_iter(members)).into_response()
}
