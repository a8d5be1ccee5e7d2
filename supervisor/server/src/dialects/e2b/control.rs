//! The API beside the sandboxes: making them, finding them, ending them.

use axum::Json;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use vivarium_api_types::TokenHash;
use vivarium_client::path;

use super::errors::{self, bad, not_offered};
use super::new::{New, TIMEOUT_SECS, after};
use super::sandboxes::{Sandboxes, Tokens};
use super::session::{self, Session};
use super::{listing, paths};
use crate::dialects::native::{self, Call, Native, Refusal};
use crate::dialects::parsed;

/// The characters of an id, the first of which is a letter: it becomes part of a host's name.
const ID_CHARS: usize = 20;

/// A request for the API.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub query: &'a str,
    pub body: &'a Bytes,
    pub idempotency_key: Option<&'a str>,
}

/// A client of the API.
pub struct Caller<'a, N: Native> {
    pub native: &'a N,
    pub sandboxes: &'a Sandboxes,
    pub tenant: &'a str,
    /// The hash of the token that it has shown; none where there are no tenants.
    pub key: Option<TokenHash>,
}

/// Answers a request.
pub async fn respond<N: Native>(caller: &Caller<'_, N>, asked: Asked<'_>) -> Response {
    let path = asked.path.trim_matches('/');
    let unversioned = path.strip_prefix("v2/").or_else(|| path.strip_prefix("v3/"));
    let path = unversioned.unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    let answered = match (asked.method.as_str(), parts.as_slice()) {
        ("GET", ["health"]) => Ok(StatusCode::NO_CONTENT.into_response()),
        ("POST", ["sandboxes"]) => caller.create(asked).await,
        ("GET", ["sandboxes"]) => listing::list(caller.native, asked.query).await,
        ("GET", ["sandboxes", id]) => caller.show(id).await,
        ("DELETE", ["sandboxes", id]) => caller.end(id).await,
        ("POST", ["sandboxes", id, "connect" | "resume"]) => caller.connect(id, asked.body).await,
        ("POST", ["sandboxes", id, "timeout"]) => caller.timeout(id, asked.body).await,
        ("POST", ["sandboxes", id, "refreshes"]) => caller.refresh(id, asked.body).await,
        ("POST", ["sandboxes", id, "pause"]) => caller.pause(id, asked.body).await,
        ("GET", ["sandboxes", id, "metrics"]) => caller.metrics(id).await,
        (_, ["sandboxes", _, what @ ("fork" | "snapshots" | "network" | "logs")]) => {
            return not_offered(what);
        }
        (
            _,
            [what @ ("templates" | "snapshots" | "volumes" | "secrets" | "teams" | "nodes"), ..],
        ) => {
            return not_offered(what);
        }
        (_, ["sandboxes", ..]) => {
            return errors::answer(StatusCode::METHOD_NOT_ALLOWED, "there is no such call");
        }
        _ => return errors::answer(StatusCode::NOT_FOUND, "there is no such path"),
    };
    answered.unwrap_or_else(|refusal| errors::control(&refusal))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Duration {
    #[serde(alias = "duration")]
    timeout: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pause {
    memory: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Connect {
    timeout: Option<u64>,
    memory: Option<bool>,
}

async fn read<T: DeserializeOwned + Send + 'static>(body: &Bytes) -> Result<T, Refusal> {
    parsed(body).await.map_err(|error| bad("body", error.to_string()))
}

fn new_id() -> String {
    let mut id = format!("i{}", Uuid::new_v4().simple());
    id.truncate(ID_CHARS);
    id
}

impl<N: Native> Caller<'_, N> {
    async fn create(&self, asked: Asked<'_>) -> Result<Response, Refusal> {
        let new: New = read(asked.body).await?;
        if let Some(what) = new.missing() {
            return Ok(not_offered(what));
        }
        let id = match asked.idempotency_key {
            // A retry finds the sandbox by the same id.
            Some(key) => of_key(self.tenant, key),
            None => new_id(),
        };
        let call = Call::new(Method::POST, "/v1/sessions").json(&new.session(&id)?);
        match native::whole(self.native, call).await {
            Ok(_) => {}
            Err(refusal) if refusal.code == "session_exists" && asked.idempotency_key.is_some() => {
            }
            Err(refusal) => return Err(refusal),
        }
        let session = session::find(self.native, &id).await?;
        self.opened(&session, StatusCode::CREATED)
    }

    /// The answer that opens a sandbox.
    fn opened(&self, session: &Session, status: StatusCode) -> Result<Response, Refusal> {
        let tokens = self.tokens(session)?;
        Ok((status, Json(session.opened(&tokens))).into_response())
    }

    fn tokens(&self, session: &Session) -> Result<Tokens, Refusal> {
        let tokens =
            self.sandboxes.grant(self.tenant, &session.id, self.key, session.max_exec_ms());
        tokens.ok_or_else(|| Refusal::unreachable("the system has no random bytes"))
    }

    async fn show(&self, id: &str) -> Result<Response, Refusal> {
        let session = session::find(self.native, id).await?;
        Ok(Json(session.detail()).into_response())
    }

    async fn end(&self, id: &str) -> Result<Response, Refusal> {
        session::find(self.native, id).await?;
        native::whole(self.native, Call::new(Method::DELETE, path::session(id))).await?;
        self.sandboxes.forget(self.tenant, id);
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn connect(&self, id: &str, body: &Bytes) -> Result<Response, Refusal> {
        let Connect { timeout, memory } = read(body).await?;
        let mut session = session::find(self.native, id).await?;
        if memory == Some(false) {
            return Ok(not_offered("resuming without memory"));
        }
        let was_paused = session.is_paused();
        if was_paused {
            let at = format!("{}/resume", path::session(id));
            native::whole(self.native, Call::new(Method::POST, at)).await?;
            self.set_deadline(id, Some(after(timeout.unwrap_or(TIMEOUT_SECS))?)).await?;
            session = session::find(self.native, id).await?;
        } else if let Some(secs) = timeout {
            // A sandbox that runs gets more time, never less.
            let end = after(secs)?;
            if session.deadline.is_some_and(|deadline| deadline < end) {
                self.set_deadline(id, Some(end)).await?;
            }
        }
        let status = if was_paused { StatusCode::CREATED } else { StatusCode::OK };
        self.opened(&session, status)
    }

    async fn set_deadline(&self, id: &str, deadline: Option<Timestamp>) -> Result<(), Refusal> {
        let change = json!({"deadline": deadline.map(|time| time.to_string())});
        let call = Call::new(Method::PATCH, path::session(id)).json(&change);
        native::whole(self.native, call).await.map(drop)
    }

    async fn timeout(&self, id: &str, body: &Bytes) -> Result<Response, Refusal> {
        let Duration { timeout } = read(body).await?;
        let secs = timeout.ok_or_else(|| bad("timeout", "this is missing"))?;
        session::find(self.native, id).await?;
        if secs == 0 {
            return self.end(id).await;
        }
        self.set_deadline(id, Some(after(secs)?)).await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// As old SDKs ask for more time.
    async fn refresh(&self, id: &str, body: &Bytes) -> Result<Response, Refusal> {
        let Duration { timeout } = read(body).await?;
        let session = session::find(self.native, id).await?;
        let end = after(timeout.unwrap_or(TIMEOUT_SECS))?;
        if session.deadline.is_some_and(|deadline| deadline < end) {
            self.set_deadline(id, Some(end)).await?;
        }
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn pause(&self, id: &str, body: &Bytes) -> Result<Response, Refusal> {
        let Pause { memory } = read(body).await?;
        let session = session::find(self.native, id).await?;
        if session.is_paused() {
            return Ok(errors::answer(StatusCode::CONFLICT, "the sandbox is paused already"));
        }
        if memory == Some(false) {
            return Ok(not_offered("pausing without memory"));
        }
        // A paused sandbox waits for its client, however long; the deadline of a session would hold.
        self.set_deadline(id, None).await?;
        let at = format!("{}/suspend", path::session(id));
        if let Err(refusal) = native::whole(self.native, Call::new(Method::POST, at)).await {
            self.set_deadline(id, session.deadline).await?;
            return Err(refusal);
        }
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn metrics(&self, id: &str) -> Result<Response, Refusal> {
        let session = session::find(self.native, id).await?;
        let sandbox = self.sandboxes.find(self.tenant, id);
        Ok(Json(json!([session.metrics(sandbox.as_deref())])).into_response())
    }
}

/// The id of a sandbox that is made with this key.
fn of_key(tenant: &str, key: &str) -> String {
    let hash = Sha256::new().chain_update(tenant).chain_update([0]).chain_update(key).finalize();
    let digits = hash.iter().take(ID_CHARS / 2).map(|byte| format!("{byte:02x}"));
    let mut id: String = ["i".to_owned()].into_iter().chain(digits).collect();
    id.truncate(ID_CHARS);
    id
}

/// Where a sandbox begins, for the variables of what runs in it.
pub(super) fn home_env() -> Map<String, Value> {
    [("HOME", paths::HOME), ("PWD", paths::HOME)]
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fit_into_a_hosts_name_and_keys_give_the_same() {
        let id = new_id();
        assert!(id.len() == ID_CHARS && id.starts_with('i'), "{id}");
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{id}");
        assert_eq!(of_key("a", "k"), of_key("a", "k"));
        assert_ne!(of_key("a", "k"), of_key("b", "k"));
    }
}
