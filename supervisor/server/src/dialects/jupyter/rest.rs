//! The REST API of a kernel gateway: kernelspecs and the life of kernels.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use vivarium_api_types::{PolicyEntry, PolicyValue, duration};
use vivarium_client::path;

use super::kernel::{Facts, Kernel};
use super::kernels::Kernels;
use super::shell::{delete, interrupt, reset};
use super::specs::{self, Specs};
use super::written;
use crate::dialects::native::{self, Call, Native, Refusal};
use crate::dialects::parsed;

/// The metadata of sessions that are kernels, and the name of their kernelspec.
const MARK: &str = "jupyter";
const NAME: &str = "jupyter.kernel";

/// Sessions that are listed at a time.
const PAGE: u64 = 1000;

/// The id in the path of a kernel's `WebSocket`.
#[must_use]
pub fn channels_of(path: &str) -> Option<&str> {
    path.strip_prefix("/api/kernels/")?.strip_suffix("/channels").filter(|id| !id.contains('/'))
}

/// Answers a request. `path` is what follows the dialect's own.
pub async fn respond<N: Native>(
    native: &N,
    kernels: &Kernels<N>,
    tenant: &str,
    method: &Method,
    path: &str,
    body: &Bytes,
) -> Response {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let client = Client { native, kernels, tenant };
    let answered = match (method.as_str(), parts.as_slice()) {
        ("GET", ["api"]) => Ok(told(json!({"version": env!("CARGO_PKG_VERSION")}))),
        ("GET", ["api", "kernelspecs"]) => Specs::ask(native).await.map(|all| told(all.all())),
        ("GET", ["api", "kernelspecs", name]) => client.spec(name).await,
        ("GET", ["api", "kernels"]) => client.list().await,
        ("POST", ["api", "kernels"]) => client.start(body).await,
        ("GET", ["api", "kernels", id]) => client.show(id).await,
        ("DELETE", ["api", "kernels", id]) => client.end(id).await,
        ("POST", ["api", "kernels", id, "interrupt"]) => client.interrupt(id).await,
        ("POST", ["api", "kernels", id, "restart"]) => client.restart(id).await,
        (
            _,
            ["api"]
            | ["api", "kernelspecs" | "kernels"]
            | ["api", "kernelspecs" | "kernels", _]
            | ["api", "kernels", _, "interrupt" | "restart" | "channels"],
        ) => return problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "not here"),
        _ => return problem(StatusCode::NOT_FOUND, "unknown_path", "there is no such path"),
    };
    answered.unwrap_or_else(|refusal| refused(&refusal))
}

/// What a client who wants to hear of a kernel has to be told first.
///
/// # Errors
/// The answer, if there is no such kernel.
pub async fn facts<N: Native>(native: &N, id: &str) -> Result<Facts, Response> {
    let asked = async {
        let session = kernel(native, id).await?;
        let specs = Specs::ask(native).await?;
        Ok::<_, Refusal>(Facts {
            python_version: specs.python_version(&session.environment),
            max_timeout_ms: session.max_timeout_ms(),
        })
    };
    asked.await.map_err(|refusal| refused(&refusal))
}

/// A problem in the form of Jupyter's servers.
fn problem(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, told(json!({"message": message, "reason": reason}))).into_response()
}

fn refused(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).ok().filter(|status| !status.is_success());
    let status = status.unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = problem(status, &refusal.code, &refusal.text());
    if let Some(secs) = refusal.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    response
}

/// Some clients read no JSON that is not declared.
fn told(value: Value) -> Response {
    let content_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, content_type)], value.to_string()).into_response()
}

/// The members of a session that are used.
#[derive(Deserialize)]
struct Session {
    id: String,
    state: String,
    environment: String,
    last_used_at: Timestamp,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    policy: Vec<PolicyEntry>,
}

impl Session {
    fn max_timeout_ms(&self) -> Option<u64> {
        let key = "session.max_exec_timeout";
        let entry = self.policy.iter().find(|entry| entry.key == key)?;
        let PolicyValue::Text(text) = &entry.value else { return None };
        u64::try_from(duration::parse(text).ok()?.as_millis()).ok()
    }

    fn execution_state(&self) -> &'static str {
        match self.state.as_str() {
            "starting" => "starting",
            "running" | "interrupting" => "busy",
            "replacing" => "restarting",
            "closed" => "dead",
            _ => "idle",
        }
    }

    fn model(&self, connections: usize) -> Value {
        let name = self.metadata.get(NAME).map_or(self.environment.as_str(), String::as_str);
        json!({
            "id": self.id,
            "name": name,
            "last_activity": written(self.last_used_at),
            "execution_state": self.execution_state(),
            "connections": connections,
        })
    }
}

#[derive(Deserialize)]
struct Page {
    sessions: Vec<Session>,
    next: Option<String>,
}

/// The session of this id, if it is a kernel.
async fn kernel<N: Native>(native: &N, id: &str) -> Result<Session, Refusal> {
    let call = Call::new(Method::GET, path::session(id));
    let (session, _) = native::json::<N, Session>(native, call).await?;
    if session.metadata.contains_key(MARK) {
        return Ok(session);
    }
    Err(Refusal::unknown_session("kernel", id))
}

/// What `POST /api/kernels` has. Paths and variables of the client's host mean nothing here.
#[derive(Default, Deserialize)]
struct Start {
    #[serde(default)]
    name: Option<String>,
}

struct Client<'a, N: Native> {
    native: &'a N,
    kernels: &'a Kernels<N>,
    tenant: &'a str,
}

impl<N: Native> Client<'_, N> {
    fn kept(&self, id: &str) -> Option<Arc<Kernel<N>>> {
        self.kernels.find(self.tenant, id)
    }

    fn model(&self, session: &Session) -> Value {
        let connections = self.kept(&session.id).map_or(0, |kernel| kernel.connections());
        session.model(connections)
    }

    async fn spec(&self, name: &str) -> Result<Response, Refusal> {
        let spec = Specs::ask(self.native).await?.one(name);
        Ok(spec.map_or_else(
            || problem(StatusCode::NOT_FOUND, "unknown_environment", "there is no such kernelspec"),
            told,
        ))
    }

    async fn list(&self) -> Result<Response, Refusal> {
        let (mut models, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut at = "/v1/sessions".to_owned();
            path::add(&mut at, &format!("metadata[{MARK}]"), 1);
            path::add(&mut at, "limit", PAGE);
            if let Some(after) = &after {
                path::add(&mut at, "after", after);
            }
            let call = Call::new(Method::GET, at);
            let (page, _) = native::json::<N, Page>(self.native, call).await?;
            models.extend(page.sessions.iter().map(|session| self.model(session)));
            after = page.next;
            if after.is_none() {
                return Ok(told(Value::Array(models)));
            }
        }
    }

    async fn start(&self, body: &Bytes) -> Result<Response, Refusal> {
        let Ok(asked) = parsed::<Start>(body).await else {
            let why = "the body is a JSON object with the name of a kernelspec";
            return Ok(problem(StatusCode::BAD_REQUEST, "malformed_json", why));
        };
        let name = asked.name.filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| specs::default_name().to_owned());
        let specs = Specs::ask(self.native).await?;
        let metadata: Map<_, _> = [(MARK, "1"), (NAME, &name)]
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .into_iter()
            .collect();
        let session = json!({
            "id": Uuid::new_v4().to_string(),
            "environment": specs.environment(&name),
            "metadata": metadata,
        });
        let call = Call::new(Method::POST, "/v1/sessions").json(&session);
        let (session, _) = native::json::<N, Session>(self.native, call).await?;
        let mut response = (StatusCode::CREATED, told(self.model(&session))).into_response();
        let at = format!("/jupyter/api/kernels/{}", session.id);
        if let Ok(at) = HeaderValue::try_from(at) {
            response.headers_mut().insert(header::LOCATION, at);
        }
        Ok(response)
    }

    async fn show(&self, id: &str) -> Result<Response, Refusal> {
        let session = kernel(self.native, id).await?;
        Ok(told(self.model(&session)))
    }

    async fn end(&self, id: &str) -> Result<Response, Refusal> {
        kernel(self.native, id).await?;
        native::whole(self.native, delete(id)).await?;
        if let Some(kernel) = self.kernels.remove(self.tenant, id) {
            kernel.status(self.native, None, "dead").await;
            kernel.close();
        }
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn interrupt(&self, id: &str) -> Result<Response, Refusal> {
        kernel(self.native, id).await?;
        native::whole(self.native, interrupt(id)).await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn restart(&self, id: &str) -> Result<Response, Refusal> {
        kernel(self.native, id).await?;
        native::whole(self.native, reset(id)).await?;
        if let Some(kernel) = self.kept(id) {
            kernel.restarted();
        }
        self.show(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(state: &str) -> Session {
        serde_json::from_value(json!({
            "id": "a", "state": state, "environment": "default", "tenant": "t",
            "last_used_at": "2026-01-01T12:00:00.123456789Z",
            "metadata": {"jupyter": "1", "jupyter.kernel": "python3"},
            "policy": [{"key": "session.max_exec_timeout", "value": "1h", "source": "default"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_session_is_a_model() {
        let model = session("running").model(2);
        let expected = json!({
            "id": "a", "name": "python3", "last_activity": "2026-01-01T12:00:00.123456Z",
            "execution_state": "busy", "connections": 2,
        });
        assert_eq!(model, expected);
        assert_eq!(session("suspended").execution_state(), "idle");
        assert_eq!(session("idle").max_timeout_ms(), Some(3_600_000));
    }

    #[test]
    fn channels_have_the_id_of_a_kernel() {
        assert_eq!(channels_of("/api/kernels/a-b/channels"), Some("a-b"));
        for other in ["/api/kernels/a/b/channels", "/api/kernels/channels", "/api/kernels/a"] {
            assert_eq!(channels_of(other), None, "{other}");
        }
    }
}
