//! Commands while they run: their standard input, and signals.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::Deserialize;
use tokio::time::timeout;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{PtySize, SignalRequest, StdinReply};
use vivarium_engine::EngineError;
use vivarium_engine::Stdin;

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::body::{PAUSE_AT_MOST, Pieces};
use crate::api::extract::{ExecutionId, Json};
use crate::api::query::Params;
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(signal))
        .routes(routes!(resize))
        .routes(routes!(write_stdin))
}

/// Whether this is the end of the input.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct StdinParams {
    /// Close it after the body: the command reads the end.
    close: bool,
}

/// Send a signal to a running command
///
/// The signal goes to its process group, `SIGKILL` to all that descends from it too. Code can be sent
/// `SIGINT` alone.
#[utoipa::path(post, path = "/v1/sessions/{id}/executions/{execution_id}/signal",
    operation_id = "signal_execution", tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path)), request_body = SignalRequest,
    responses((status = 204, description = "It was sent"), (status = "default", body = Problem)))]
async fn signal(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ExecutionId { id, execution_id }: ExecutionId,
    Json(request, _): Json<SignalRequest>,
) -> Result<StatusCode, Problem> {
    api.engine.signal(&tenant, &id, &execution_id, &request.signal).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change the size of a running command's terminal
#[utoipa::path(post, path = "/v1/sessions/{id}/executions/{execution_id}/resize",
    operation_id = "resize_pty", tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path)), request_body = PtySize,
    responses((status = 204, description = "It was resized"), (status = "default", body = Problem)))]
async fn resize(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ExecutionId { id, execution_id }: ExecutionId,
    Json(size, _): Json<PtySize>,
) -> Result<StatusCode, Problem> {
    api.engine.resize(&tenant, &id, &execution_id, size).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Write to the standard input of a running command
///
/// The command has to be started with `stdin_open`. The answer comes when the command, or the pipe to
/// it, has taken all of the body.
#[utoipa::path(post, path = "/v1/sessions/{id}/executions/{execution_id}/stdin",
    operation_id = "write_stdin", tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path), StdinParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = StdinReply), (status = "default", body = Problem)))]
async fn write_stdin(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ExecutionId { id, execution_id }: ExecutionId,
    Params(StdinParams { close }): Params<StdinParams>,
    request: Request,
) -> ApiResult<StdinReply> {
    let (parts, body) = request.into_parts();
    let mut body = Pieces::of(&parts.extensions, body);
    let result = async {
        let stdin = api.engine.stdin(&tenant, &id, &execution_id)?;
        let mut written_bytes = 0;
        while let Some(data) = body.next().await? {
            write_all(&stdin, &data, &mut written_bytes).await?;
        }
        if close {
            stdin.close().await;
        }
        Ok(Answer(StdinReply { written_bytes, closed: close }))
    };
    let result = result.await;
    if result.is_err() {
        body.drain().await;
    }
    result
}

async fn write_all(stdin: &Stdin, data: &[u8], written_bytes: &mut u64) -> Result<(), Problem> {
    let mut rest = data;
    while !rest.is_empty() {
        let written = timeout(PAUSE_AT_MOST, stdin.write(rest)).await.map_err(|_| {
            let pause = PAUSE_AT_MOST.as_secs();
            let detail = format!(
                "the command has read nothing for {pause} s; {written_bytes} bytes were written"
            );
            Problem::from(EngineError::StdinFull(detail))
        })??;
        rest = rest.get(written..).unwrap_or_default();
        *written_bytes += written as u64;
    }
    Ok(())
}
