//! One part of an outcome in one representation, as bytes.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{Encoded, NoPart};
use vivarium_engine::{EngineError, media};

use crate::api::auth::Caller;
use crate::api::extract::OutputPart;
use crate::api::query::Params;
use crate::api::untrusted::{self, insert};
use crate::api::{Problem, Shared, reply};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(output))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct OutputParams {
    /// Which representation, as `image/png`; by default plain text, or the only one.
    #[param(value_type = Option<String>)]
    mime_type: Option<String>,
}

/// Download one part of an outcome, such as a display that was answered with its sizes only
#[utoipa::path(get, path = "/v1/sessions/{id}/executions/{execution_id}/outputs/{*part}",
    tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path),
        ("part" = String, Path, description = "`stdout`, `stderr`, `result`, `exception`, \
            `exception/message` or, counted from 0, `displays/0`, `images/0`, `video_frames/0`, \
            `files/0`"),
        OutputParams),
    responses(
        (status = 200, description = "The content, decoded", body = Vec<u8>, content_type = "*/*"),
        (status = 404, body = Problem, description = "There is no such execution, part or representation"),
        (status = 409, body = Problem, description = "The execution is not over"),
        (status = "default", body = Problem)))]
async fn output(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    OutputPart { id, execution_id, part: name }: OutputPart,
    Params(params): Params<OutputParams>,
) -> Result<Response, Problem> {
    let info = api.engine.execution(&tenant, &id, &execution_id)?;
    let outcome = info.outcome.ok_or_else(|| {
        let detail = format!("execution {execution_id} is not over: its outputs are still to come");
        Problem::new(StatusCode::CONFLICT, "not_done", detail)
    })?;
    let part = outcome.part(&name, params.mime_type.as_deref()).map_err(refused)?;
    let reservation = reply::room(&api.engine, &tenant, part.content.as_str().len()).await?;
    let bytes = match part.content {
        Encoded::Text(text) => text.as_bytes().to_vec(),
        Encoded::Base64(text) => STANDARD.decode(text).map_err(|error| {
            Problem::from(EngineError::Internal(format!("decode {name}: {error}")))
        })?,
    };
    let path = part.path.map_or_else(|| name.replace('/', "-"), str::to_owned);
    let mut headers = untrusted::headers(&path);
    insert(&mut headers, header::CONTENT_TYPE, content_type(part.mime_type, part.content));
    insert(&mut headers, header::CACHE_CONTROL, "no-store");
    Ok((headers, reply::reserved(bytes, reservation)).into_response())
}

fn refused(error: NoPart) -> Problem {
    let detail = error.to_string();
    match error {
        NoPart::Ambiguous { .. } => {
            Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail).field("mime_type")
        }
        _ => Problem::new(StatusCode::NOT_FOUND, "unknown_output", detail),
    }
}

/// A type that tenant code made up goes into a header if it is one (RFC 9110, 8.3.1), without
/// parameters.
fn content_type(mime_type: &str, content: Encoded<'_>) -> String {
    let is_token = |text: &str| {
        let is_tchar = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        !text.is_empty() && text.bytes().all(is_tchar)
    };
    match mime_type.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => match content {
            Encoded::Text(_) if kind == "text" => format!("{mime_type}; charset=utf-8"),
            _ => mime_type.to_owned(),
        },
        _ => media::UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_media_type_becomes_a_content_type() {
        let of = |kind| content_type(kind, Encoded::Text(""));
        assert_eq!(of("text/html"), "text/html; charset=utf-8");
        assert_eq!(of("application/vnd.plotly.v1+json"), "application/vnd.plotly.v1+json");
        assert_eq!(content_type("image/png", Encoded::Base64("")), "image/png");
        for no in ["", "text", "text/", "/x", "a/b/c", "text/x y", "text/x\r\nset-cookie: a", "ü/x"]
        {
            assert_eq!(of(no), media::UNKNOWN, "{no}");
        }
        assert_eq!(of("text/html; charset=utf-16"), media::UNKNOWN);
    }
}
