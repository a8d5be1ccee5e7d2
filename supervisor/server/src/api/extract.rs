//! Extractors: requests are bounded in size and time, and refused with a reason.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use vivarium_api_types::Object;
use vivarium_engine::EngineError;
use vivarium_engine::budget::Reservation;

use super::auth::Caller;
use super::body::{Pieces, content_length};
use super::{Problem, Shared, refused};
use crate::off_thread::by_size;

/// A request's JSON, and its reservation of the daemon's memory.
pub(super) struct Json<T>(pub(super) T, pub(super) Reservation);

/// A request's JSON, or what stands for none, and its reservation of the daemon's memory.
pub(super) struct OptionalJson<T>(pub(super) T, pub(super) Reservation);

/// The JSON of an administrator, or what stands for none: small, and no tenant's.
pub(super) struct AdminJson<T, const MAX: usize = MAX_ADMIN_BYTES>(pub(super) T);

/// The JSON of somebody who decides: small, and not left out.
pub(super) struct DecisionJson<T>(pub(super) T);

/// The id in a path. An id that can not be decoded is an unknown session.
pub(super) struct Id(pub(super) String);

/// The ids of a session and of one of its executions in a path.
pub(super) struct ExecutionId {
    pub(super) id: String,
    pub(super) execution_id: String,
}

/// The ids of a session and of one of its contexts in a path.
pub(super) struct ContextId {
    pub(super) id: String,
    pub(super) context: String,
}

/// The id of a session and the name of one of its checkpoints in a path.
pub(super) struct CheckpointName {
    pub(super) id: String,
    pub(super) name: String,
}

/// The ids of an execution and the name of a part of its outcome in a path.
pub(super) struct OutputPart {
    pub(super) id: String,
    pub(super) execution_id: String,
    pub(super) part: String,
}

/// The id and the rest of a path, percent-decoded once.
pub(super) struct FilePath {
    pub(super) id: String,
    pub(super) path: String,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (body, reservation) = read_json(&mut parts, body, state).await?;
        let (value, reservation) = parse_any(body, reservation).await?;
        Ok(Self(value, reservation))
    }
}

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<Shared> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (body, reservation) = read_optional_json(&mut parts, body, state).await?;
        if body.is_empty() {
            return Ok(Self(T::default(), reservation));
        }
        let (value, reservation) = parse_any(body, reservation).await?;
        Ok(Self(value, reservation))
    }
}

/// The most bytes of an administrator's request.
const MAX_ADMIN_BYTES: usize = 16 << 10;

impl<T: DeserializeOwned + Default, const MAX: usize> FromRequest<Shared> for AdminJson<T, MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, Problem> {
        match small_body(request, MAX).await? {
            None => Ok(Self(T::default())),
            Some(bytes) => Ok(Self(parse(&bytes)?)),
        }
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for DecisionJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, Problem> {
        Ok(Self(parse(&small_body(request, MAX_ADMIN_BYTES).await?.unwrap_or_default())?))
    }
}

/// A body of JSON that is small, and no tenant's; `None` if there is none.
async fn small_body(request: Request, max: usize) -> Result<Option<Vec<u8>>, Problem> {
    let (parts, body) = request.into_parts();
    let (mut body, mut bytes) = (Pieces::new(body), Vec::new());
    while let Some(data) = body.next().await? {
        if bytes.len() + data.len() > max {
            return Err(too_large(max));
        }
        bytes.extend_from_slice(&data);
    }
    match bytes.is_empty() {
        true => Ok(None),
        false if is_json(&parts.headers) => Ok(Some(bytes)),
        false => Err(unsupported_type()),
    }
}

impl FromRequestParts<Shared> for ContextId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map(|Path((id, context))| Self { id, context })
            .map_err(|_| EngineError::UnknownContext("?".to_owned()).into())
    }
}

impl FromRequestParts<Shared> for CheckpointName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map(|Path((id, name))| Self { id, name })
            .map_err(|_| EngineError::UnknownCheckpoint("?".to_owned()).into())
    }
}

impl FromRequestParts<Shared> for ExecutionId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map(|Path((id, execution_id))| Self { id, execution_id })
            .map_err(|_| EngineError::UnknownExecution("?".to_owned()).into())
    }
}

impl FromRequestParts<Shared> for OutputPart {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::<(String, String, String)>::from_request_parts(parts, state)
            .await
            .map(|Path((id, execution_id, part))| Self { id, execution_id, part })
            .map_err(|_| EngineError::UnknownExecution("?".to_owned()).into())
    }
}

impl FromRequestParts<Shared> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::<String>::from_request_parts(parts, state)
            .await
            .map(|Path(id)| Self(id))
            .map_err(|_| EngineError::UnknownSession(parts.uri.path().to_owned()).into())
    }
}

impl FromRequestParts<Shared> for FilePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let captured = Path::<(String, String)>::from_request_parts(parts, state).await;
        // Decoding fails only for a path that is not UTF-8.
        captured.map(|Path((id, path))| Self { id, path }).map_err(|_| {
            let (path, reason) = (parts.uri.path().to_owned(), "it is not UTF-8".to_owned());
            EngineError::BadPath { path, reason }.into()
        })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = text.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn unsupported_type() -> Problem {
    let detail = "the body has to be JSON, with Content-Type: application/json";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
}

/// The whole body, whose content type must be JSON.
pub(super) async fn read_json(
    parts: &mut Parts,
    body: Body,
    api: &Shared,
) -> Result<(Bytes, Reservation), Problem> {
    let read = read(parts, body, api).await?;
    if is_json(&parts.headers) { Ok(read) } else { Err(unsupported_type()) }
}

/// The whole body, whose content type must be JSON unless it is empty.
pub(super) async fn read_optional_json(
    parts: &mut Parts,
    body: Body,
    api: &Shared,
) -> Result<(Bytes, Reservation), Problem> {
    let read = read(parts, body, api).await?;
    if read.0.is_empty() || is_json(&parts.headers) { Ok(read) } else { Err(unsupported_type()) }
}

/// The whole body, if it is not too large or slow and the tenant's budget has room for it. It counts
/// twice, as received and as parsed. A body with a `Content-Length` is not read before there is room.
pub(super) async fn read(
    parts: &mut Parts,
    body: Body,
    api: &Shared,
) -> Result<(Bytes, Reservation), Problem> {
    let Caller(tenant) = Caller::from_request_parts(parts, api).await?;
    let (headers, max) = (&parts.headers, api.max_body_bytes);
    let announced = content_length(headers);
    let mut body = Pieces::of(&parts.extensions, body);
    if announced.is_some_and(|len| len > max as u64) {
        // A client that expects `100 Continue` (RFC 9110, 10.1.1) has not sent anything yet.
        if !headers.contains_key(header::EXPECT) {
            body.drain().await;
        }
        return Err(too_large(max));
    }
    let announced = announced.and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    let mut reservation = match api.engine.reserve(&tenant, announced * 2) {
        Ok(reservation) => reservation,
        Err(error) => {
            if !headers.contains_key(header::EXPECT) {
                body.drain().await;
            }
            return Err(error.into());
        }
    };
    let mut bytes = Vec::with_capacity(announced);
    while let Some(data) = body.next().await? {
        let len = bytes.len() + data.len();
        if len > max {
            body.drain().await;
            return Err(too_large(max));
        }
        let missing = (len * 2).saturating_sub(reservation.bytes());
        if missing > 0
            && let Err(full) = reservation.grow(missing)
        {
            drop((bytes, reservation));
            body.drain().await;
            return Err(api.engine.no_room(&tenant, full).into());
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.into(), reservation))
}

pub(super) fn too_large(max: usize) -> Problem {
    let detail = format!("the body is over the maximum of {max} bytes (server.max_body_bytes)");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

/// As [`parse`], of a body of any size. Gives back its reservation.
async fn parse_any<T>(body: Bytes, reservation: Reservation) -> Result<(T, Reservation), Problem>
where
    T: DeserializeOwned + Send + 'static,
{
    by_size(body.len(), move || Ok((parse(&body)?, reservation))).await
}

/// Parses a JSON object. Malformed JSON is 400; a bad field is 422 and names the field.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        refused::body(&path, error.inner())
    })?;
    deserializer.end().map_err(|error| refused::body("", &error))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use vivarium_api_types::{RunRequest, SessionSpec};
    use vivarium_engine::testing::{echoing, settings};

    use super::*;

    fn refused<T: DeserializeOwned>(body: &str) -> (u16, String, Option<String>) {
        let problem = parse::<T>(body.as_bytes()).err().unwrap();
        (problem.status, problem.code.to_owned(), problem.field.map(String::from))
    }

    fn data(code: &str, field: &str) -> (u16, String, Option<String>) {
        (422, code.to_owned(), Some(field.to_owned()))
    }

    #[test]
    fn invalid_json_is_400() {
        let deep = "[".repeat(100_000);
        for body in
            ["", "{", "{\"code\": }", "{\"code\": \"\"} {}", "\u{1}", r#"{"code": "\ud800"}"#]
        {
            let (status, code, _) = refused::<RunRequest>(body);
            assert_eq!((status, code.as_str()), (400, "malformed_json"), "{body}");
        }
        let nested = format!("{{\"code\": {deep}");
        assert_eq!(refused::<RunRequest>(&nested).0, 422);
        let problem = parse::<RunRequest>(b"{\"code\": \"\xff\"}").err().unwrap();
        assert_eq!(problem.status, 400);
    }

    #[test]
    fn fields_are_named() {
        for (body, expected) in [
            (r#"{"code": 1}"#, data("invalid_field", "code")),
            (r#"{"code": "", "kode": 1}"#, data("unknown_field", "kode")),
            (r#"{"code": "", "code": ""}"#, data("duplicate_field", "code")),
            (r#"{"code": "", "outputs": [{}]}"#, data("missing_field", "outputs[0].name")),
            (
                r#"{"code": "", "outputs": [{"name": "a", "format": "xml"}]}"#,
                data("invalid_field", "outputs[0].format"),
            ),
            (
                r#"{"code": "", "limits": {"max_procs": 0}}"#,
                data("invalid_field", "limits.max_procs"),
            ),
            (
                r#"{"code": "", "limits": {"max_prox": 1}}"#,
                data("unknown_field", "limits.max_prox"),
            ),
            (r#"{"code": "", "files": [{"nam": ""}]}"#, data("unknown_field", "files[0].nam")),
            (r#"{"code": "", "env": {"A": "1", "A": "2"}}"#, data("duplicate_field", "env.A")),
            (r#"{"code": "", "network": "bridge"}"#, data("invalid_field", "network")),
            (r#"{"code": "", "timeout_ms": -1}"#, data("invalid_field", "timeout_ms")),
        ] {
            assert_eq!(refused::<RunRequest>(body), expected, "{body}");
        }
        assert_eq!(refused::<SessionSpec>(r#"{"home": "x"}"#), data("invalid_field", "home"));
    }

    #[test]
    fn json_array_is_refused_as_object() {
        for body in ["[]", "[null, null]", "[\"code\"]", "null", "\"code\""] {
            assert_eq!(refused::<RunRequest>(body).0, 422, "{body}");
            assert_eq!(refused::<SessionSpec>(body).0, 422, "{body}");
        }
        for (body, field) in [
            (r#"{"code": "", "limits": []}"#, "limits"),
            (r#"{"code": "", "limits": [1, 2]}"#, "limits"),
            (r#"{"code": "", "files": [["a", "text"]]}"#, "files[0]"),
            (r#"{"code": "", "outputs": [["a"]]}"#, "outputs[0]"),
        ] {
            assert_eq!(refused::<RunRequest>(body), data("invalid_field", field), "{body}");
        }
    }

    #[test]
    fn only_a_large_body_is_waited_for() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
            let account = echoing(settings()).0.account("t");
            let parsed = |len| {
                let body = format!("{{\"code\": \"{}\"}}", "x".repeat(len));
                parse_any::<RunRequest>(body.into(), account.hold(len)).now_or_never()
            };
            // No thread is left for large work.
            let (free, until_free) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || until_free.recv());
            assert!(parsed(10_000).is_some_and(|read| read.is_ok()));
            assert!(parsed(1_000_000).is_none(), "this thread has parsed it");
            drop(free);
            assert!(busy.await.unwrap().is_err());
        });
    }

    #[test]
    fn nul_is_a_character_like_others_in_code() {
        let parsed = parse::<RunRequest>(b"{\"code\": \"a\\u0000b\"}").ok().unwrap();
        assert_eq!(parsed.code.as_deref(), Some("a\0b"));
    }
}
