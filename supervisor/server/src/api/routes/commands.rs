//! Commands: processes beside the kernel, in the same sandbox.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::CommandRequest;

use crate::api::auth::Caller;
use crate::api::extract::Id;
use crate::api::run_body::{self, RunBody};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(command))
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
