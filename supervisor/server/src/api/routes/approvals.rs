//! Calls that wait for approval.

use axum::Json as Answer;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{ApprovalInfo, ApprovalPage, ApprovalQuery, DecideRequest};

use super::ApiResult;
use crate::api::approver::Approver;
use crate::api::extract::{DecisionJson, Id};
use crate::api::query::Params;
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(decide))
}

/// List calls that wait for approval
///
/// Those of the tenant; an administrator's are those of all.
#[utoipa::path(get, path = "/v1/approvals", operation_id = "list_approvals", tag = "approvals",
    params(ApprovalQuery),
    responses((status = 200, body = ApprovalPage), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Approver { tenant, .. }: Approver,
    Params(query): Params<ApprovalQuery>,
) -> ApiResult<ApprovalPage> {
    Ok(Answer(api.engine.approvals(tenant.as_deref(), &query)?))
}

/// Show a call that waits for approval, or what became of it
#[utoipa::path(get, path = "/v1/approvals/{id}", operation_id = "show_approval", tag = "approvals",
    params(("id" = String, Path)),
    responses((status = 200, body = ApprovalInfo), (status = "default", body = Problem)))]
async fn show(
    State(api): State<Shared>,
    Approver { tenant, .. }: Approver,
    Id(id): Id,
) -> ApiResult<ApprovalInfo> {
    Ok(Answer(api.engine.approval(tenant.as_deref(), &id)?))
}

/// Allow or deny a call that waits
///
/// This takes a token of scope `approve`, or an administrator.
#[utoipa::path(post, path = "/v1/approvals/{id}", operation_id = "decide_approval",
    tag = "approvals", params(("id" = String, Path)), request_body = DecideRequest,
    responses((status = 200, body = ApprovalInfo), (status = "default", body = Problem)))]
async fn decide(
    State(api): State<Shared>,
    Approver { tenant, actor }: Approver,
    Id(id): Id,
    DecisionJson(request): DecisionJson<DecideRequest>,
) -> ApiResult<ApprovalInfo> {
    Ok(Answer(api.engine.decide(tenant.as_deref(), &id, &actor, request)?))
}
