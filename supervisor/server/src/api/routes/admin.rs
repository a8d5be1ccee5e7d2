//! Administration.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    AdminStatus, AdminTenantList, DrainReply, DrainRequest, PauseReply, PauseRequest, UsageFormat,
    UsageQuery, UsageReport, UsageRow,
};
use vivarium_engine::usage::{KeeperError, LedgerError, UsageRange};
use vivarium_metrics::families::administration::Act;
use vivarium_protocol::error_chain;

use super::ApiResult;
use crate::api::admin::{Administrator, Deed, record};
use crate::api::extract::AdminJson;
use crate::api::query::Params;
use crate::api::{Problem, Shared};

/// How far back usage is told, if nothing is said.
const RECENT: SignedDuration = SignedDuration::from_hours(24 * 30);

const EVERYBODY: &str = "all tenants";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(status))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(drain))
        .routes(routes!(tenants))
        .routes(routes!(usage))
}

/// How the daemon does
#[utoipa::path(get, path = "/v1/admin/status", operation_id = "admin_status", tag = "admin",
    responses((status = 200, body = AdminStatus), (status = "default", body = Problem)))]
async fn status(State(api): State<Shared>, _: Administrator) -> Answer<AdminStatus> {
    Answer(api.engine.status())
}

/// Refuse new sessions and executions
///
/// Of a tenant, or of all. What runs goes on. It outlasts a restart.
#[utoipa::path(post, path = "/v1/admin/pause", operation_id = "admin_pause", tag = "admin",
    request_body = Option<PauseRequest>,
    responses((status = 200, body = PauseReply), (status = "default", body = Problem)))]
async fn pause(
    State(api): State<Shared>,
    by: Administrator,
    AdminJson(request): AdminJson<PauseRequest>,
) -> ApiResult<PauseReply> {
    let target = request.tenant.clone();
    let reason = request.reason.clone().unwrap_or_default();
    let reply = api.engine.pause(request);
    let target = target.as_deref().unwrap_or(EVERYBODY);
    record(&api, &by, Deed { act: Act::Pause, target, detail: &reason }, &reply);
    Ok(Answer(reply?))
}

/// Take new work again
///
/// Of a tenant that was paused by itself, or of all. Neither undoes the other.
#[utoipa::path(post, path = "/v1/admin/resume", operation_id = "admin_resume", tag = "admin",
    request_body = Option<PauseRequest>,
    responses((status = 200, body = PauseReply), (status = "default", body = Problem)))]
async fn resume(
    State(api): State<Shared>,
    by: Administrator,
    AdminJson(request): AdminJson<PauseRequest>,
) -> ApiResult<PauseReply> {
    let reply = api.engine.resume(&request);
    let target = request.tenant.as_deref().unwrap_or(EVERYBODY);
    record(&api, &by, Deed { act: Act::Resume, target, detail: "" }, &reply);
    Ok(Answer(reply?))
}

/// Drain the daemon
///
/// It takes no new work any more, waits for executions up to `session.exec_timeout`, and ends every
/// session. With `exit` it ends too, as after SIGTERM; without, it stays to answer, and only a restart
/// has it take work again.
#[utoipa::path(post, path = "/v1/admin/drain", operation_id = "admin_drain", tag = "admin",
    request_body = Option<DrainRequest>,
    responses((status = 202, body = DrainReply, description = "The drain has begun"),
        (status = "default", body = Problem)))]
async fn drain(
    State(api): State<Shared>,
    by: Administrator,
    AdminJson(request): AdminJson<DrainRequest>,
) -> Result<(StatusCode, Answer<DrainReply>), Problem> {
    let detail = if request.exit { "and exit" } else { "" };
    record(&api, &by, Deed { act: Act::Drain, target: EVERYBODY, detail }, &Ok(()));
    Ok((StatusCode::ACCEPTED, Answer(api.engine.drain(request.exit))))
}

/// List tenants with what they use now
#[utoipa::path(get, path = "/v1/admin/tenants", operation_id = "admin_tenants", tag = "admin",
    responses((status = 200, body = AdminTenantList), (status = "default", body = Problem)))]
async fn tenants(State(api): State<Shared>, _: Administrator) -> Answer<AdminTenantList> {
    Answer(api.engine.admin_tenants())
}

/// What tenants used
///
/// By hour, day, month or in total, for billing.
#[utoipa::path(get, path = "/v1/admin/usage", operation_id = "admin_usage", tag = "admin",
    params(UsageQuery),
    responses((status = 200, content((UsageReport = "application/json"), (String = "text/csv")),
            description = "The report"),
        (status = "default", body = Problem)))]
async fn usage(
    State(api): State<Shared>,
    _: Administrator,
    Params(query): Params<UsageQuery>,
) -> Result<Response, Problem> {
    let now = Timestamp::now();
    let to = time("to", query.to.as_deref())?.unwrap_or(now);
    let recent = to.saturating_sub(RECENT).unwrap_or(Timestamp::MIN);
    let from = time("from", query.from.as_deref())?.unwrap_or(recent);
    let range = UsageRange { from, to, period: query.period, tenant: query.tenant };
    let rows = api.engine.usage(range).await.map_err(|error| no_usage(&error))?;
    Ok(match query.format {
        UsageFormat::Json => Answer(UsageReport { from, to, rows }).into_response(),
        UsageFormat::Csv => csv(&rows),
    })
}

fn csv(rows: &[UsageRow]) -> Response {
    let lines = std::iter::once(UsageRow::COLUMNS.to_owned()).chain(rows.iter().map(UsageRow::csv));
    let text: String = lines.map(|line| line + "\r\n").collect();
    let kind = "text/csv; charset=utf-8; header=present";
    let disposition = "attachment; filename=\"usage.csv\"";
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, disposition)], text)
        .into_response()
}

fn time(name: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.parse().map(Some);
    parsed.map_err(|_| {
        let detail = format!("{name}: give a time with its offset, such as 2027-01-31T00:00:00Z");
        Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail).field(name)
    })
}

fn no_usage(error: &KeeperError) -> Problem {
    let detail = error_chain(error).to_string();
    match error {
        KeeperError::Ledger(LedgerError::TooMuch) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_rows", detail)
        }
        KeeperError::Ended => {
            let detail = "what tenants use is not kept: the daemon's log says why";
            Problem::new(StatusCode::CONFLICT, "no_usage", detail)
        }
        _ => {
            tracing::error!("usage was not told: {detail}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
        }
    }
}
