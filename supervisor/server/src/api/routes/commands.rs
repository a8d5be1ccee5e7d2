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
use crate::api::order::{self, Order};
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
    params(("id" = String, Path), order::Headers), request_body = CommandRequest,
    responses(order::Delivered, (status = "default", body = Problem)))]
async fn command(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    order: Order<CommandRequest>,
) -> Result<Response, Problem> {
    let (request, delivery, wanted) = order.take();
    let ticket = api.engine.start_command(&tenant, &id, request, delivery).await?;
    order::deliver(ticket, wanted, &api.engine, &tenant).await
}
