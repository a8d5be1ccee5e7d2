//! Commands: processes beside the kernel, in the same sandbox.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{BackgroundReply, CommandRequest};
use vivarium_engine::{ExecutionHandle, ResponseMode};

use crate::api::auth::Caller;
use crate::api::extract::Id;
use crate::api::run_body::{self, RunBody};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(command))
}

/// Run a command in a session
///
/// It runs beside the code of the session and beside other commands, of which there may be 32 at a
/// time. In the background it is answered with its id at once.
#[utoipa::path(post, path = "/v1/sessions/{id}/commands", tag = "executions",
    params(("id" = String, Path), run_body::Headers), request_body = CommandRequest,
    responses(run_body::OutcomeOrEvents,
        (status = 202, body = BackgroundReply, description = "It runs, or will, in the background"),
        (status = "default", body = Problem)))]
async fn command(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    RunBody { request, options, answer }: RunBody<CommandRequest>,
) -> Result<Response, Problem> {
    let is_background = request.background && options.response == ResponseMode::Outcome;
    let handle = api.engine.start_command(&tenant, &id, request, options).await?;
    if is_background {
        return Ok(in_background(&handle, id));
    }
    run_body::respond(handle, answer, &api.engine, &tenant).await
}

/// Answers with the id of what runs in the background, and where it is found.
fn in_background(handle: &ExecutionHandle, session_id: String) -> Response {
    let execution_id = handle.execution_id().unwrap_or_default();
    let location = format!("/v1/sessions/{session_id}/executions/{execution_id}");
    let reply = BackgroundReply { session_id, execution_id };
    let response = (StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(reply));
    run_body::replayed(response.into_response(), handle.is_replay)
}
