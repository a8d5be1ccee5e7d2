//! Running commands: processes beside the kernel, in the same sandbox.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use utoipa::OpenApi;
use vivarium_api_types::CommandRequest;

use super::Part;
use crate::api::auth::Caller;
use crate::api::extract::Id;
use crate::api::run_body::{self, RunBody};
use crate::api::{Problem, Shared};

#[derive(OpenApi)]
#[openapi(paths(command))]
struct Document;

pub(super) fn part() -> Part {
    let router = Router::new().route("/v1/sessions/{id}/commands", post(command));
    Part { router, document: Document::openapi() }
}

/// Run a command in a session
#[utoipa::path(post, path = "/v1/sessions/{id}/commands", tag = "executions",
    params(("id" = String, Path), run_body::Headers), request_body = CommandRequest,
    responses(run_body::OutcomeOrEvents, (status = "default", body = Problem)))]
async fn command(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    RunBody { request, options }: RunBody<CommandRequest>,
) -> Result<Response, Problem> {
    let mode = options.response;
    let handle = api.engine.start_command(&tenant, &id, request, options).await?;
    run_body::respond(handle, mode, &api.engine, &tenant).await
}
