//! Environments that are built: the tenant's own, and, for administrators, everybody's.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    BuildInfo, BuildRequest, BuiltEnvironmentInfo, BuiltEnvironmentList, CollectReply, Content,
    OwnerQuery,
};
use vivarium_engine::{DEFAULT_TENANT, Owner};
use vivarium_metrics::families::administration::Act;

use super::ApiResult;
use crate::api::admin::{Administrator, Deed, record};
use crate::api::auth::Caller;
use crate::api::events;
use crate::api::extract::{AdminJson, Id, Json};
use crate::api::query::Params;
use crate::api::{Problem, Shared};

/// The most bytes of an administrator's request: a lock file is long.
const MAX_BUILD_BYTES: usize = 16 << 20;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, build))
        .routes(routes!(show, remove))
        .routes(routes!(show_build))
        .routes(routes!(show_log))
        .routes(routes!(admin_list, admin_build))
        .routes(routes!(admin_show, admin_remove))
        .routes(routes!(admin_show_build))
        .routes(routes!(admin_show_log))
        .routes(routes!(admin_collect))
}

/// List the tenant's built environments
#[utoipa::path(get, path = "/v1/environments", operation_id = "list_environments",
    tag = "environments",
    responses((status = 200, body = BuiltEnvironmentList), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
) -> ApiResult<BuiltEnvironmentList> {
    Ok(Answer(api.engine.built_environments(&Owner::of(Some(&tenant))).await?))
}

/// Build an environment
///
/// Answers at once. Sessions get the environment by its name when the build has succeeded.
#[utoipa::path(post, path = "/v1/environments", operation_id = "build_environment",
    tag = "environments", request_body = BuildRequest,
    responses((status = 202, body = BuildInfo, description = "The build has begun"),
        (status = 403, body = Problem), (status = 409, body = Problem),
        (status = "default", body = Problem)))]
async fn build(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Json(request, _reserved): Json<BuildRequest>,
) -> Result<(StatusCode, Answer<BuildInfo>), Problem> {
    let begun = api.engine.build_environment(Owner::of(Some(&tenant)), request).await?;
    Ok((StatusCode::ACCEPTED, Answer(begun)))
}

/// Show a built environment
#[utoipa::path(get, path = "/v1/environments/{name}", operation_id = "show_environment",
    tag = "environments", params(("name" = String, Path, description = "Name of the environment")),
    responses((status = 200, body = BuiltEnvironmentInfo), (status = "default", body = Problem)))]
async fn show(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
) -> ApiResult<BuiltEnvironmentInfo> {
    Ok(Answer(api.engine.built_environment(&Owner::of(Some(&tenant)), &name).await?))
}

/// Remove a built environment
///
/// Sessions that have it keep it.
#[utoipa::path(delete, path = "/v1/environments/{name}", operation_id = "remove_environment",
    tag = "environments", params(("name" = String, Path, description = "Name of the environment")),
    responses((status = 204), (status = "default", body = Problem)))]
async fn remove(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
) -> Result<StatusCode, Problem> {
    api.engine.remove_environment(&Owner::of(Some(&tenant)), &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show the last build of an environment, or follow it
#[utoipa::path(get, path = "/v1/environments/{name}/build", operation_id = "show_build",
    tag = "environments",
    params(("name" = String, Path, description = "Name of the environment"), events::Headers),
    responses((status = 200, description = "How far it has come, or its events",
            content((BuildInfo = "application/json"), (String = "text/event-stream"))),
        (status = "default", body = Problem)))]
async fn show_build(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    build_or_events(&api, &Owner::of(Some(&tenant)), &name, &headers).await
}

/// Read the log of the last build of an environment
#[utoipa::path(get, path = "/v1/environments/{name}/build/log", operation_id = "read_build_log",
    tag = "environments", params(("name" = String, Path, description = "Name of the environment")),
    responses((status = 200, description = "The log", body = String, content_type = "text/plain"),
        (status = "default", body = Problem)))]
async fn show_log(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
) -> Result<Response, Problem> {
    Ok(text(api.engine.build_log(&Owner::of(Some(&tenant)), &name).await?))
}

/// List built environments
///
/// Everybody's, or a tenant's.
#[utoipa::path(get, path = "/v1/admin/environments", operation_id = "admin_list_environments",
    tag = "admin", params(OwnerQuery),
    responses((status = 200, body = BuiltEnvironmentList), (status = "default", body = Problem)))]
async fn admin_list(
    State(api): State<Shared>,
    _: Administrator,
    Params(query): Params<OwnerQuery>,
) -> ApiResult<BuiltEnvironmentList> {
    Ok(Answer(match query.tenant {
        Some(tenant) => api.engine.built_environments(&Owner::Tenant(tenant)).await?,
        None => api.engine.all_built_environments().await?,
    }))
}

/// Build an environment for all, or for a tenant
#[utoipa::path(post, path = "/v1/admin/environments", operation_id = "admin_build_environment",
    tag = "admin", params(OwnerQuery), request_body = BuildRequest,
    responses((status = 202, body = BuildInfo, description = "The build has begun"),
        (status = 409, body = Problem), (status = "default", body = Problem)))]
async fn admin_build(
    State(api): State<Shared>,
    by: Administrator,
    Params(query): Params<OwnerQuery>,
    AdminJson(request): AdminJson<BuildRequest, MAX_BUILD_BYTES>,
) -> Result<(StatusCode, Answer<BuildInfo>), Problem> {
    let (owner, target) = (owner(&api, &query)?, target(&query, &request.name));
    let begun = api.engine.build_environment_as_operator(owner, request).await;
    let deed = Deed { act: Act::BuildEnvironment, target: &target, detail: "" };
    record(&api, &by, deed, &begun);
    Ok((StatusCode::ACCEPTED, Answer(begun?)))
}

/// Show a built environment
#[utoipa::path(get, path = "/v1/admin/environments/{name}",
    operation_id = "admin_show_environment", tag = "admin",
    params(("name" = String, Path, description = "Name of the environment"), OwnerQuery),
    responses((status = 200, body = BuiltEnvironmentInfo), (status = "default", body = Problem)))]
async fn admin_show(
    State(api): State<Shared>,
    _: Administrator,
    Id(name): Id,
    Params(query): Params<OwnerQuery>,
) -> ApiResult<BuiltEnvironmentInfo> {
    Ok(Answer(api.engine.built_environment(&of(&query), &name).await?))
}

/// Remove a built environment
#[utoipa::path(delete, path = "/v1/admin/environments/{name}",
    operation_id = "admin_remove_environment", tag = "admin",
    params(("name" = String, Path, description = "Name of the environment"), OwnerQuery),
    responses((status = 204), (status = "default", body = Problem)))]
async fn admin_remove(
    State(api): State<Shared>,
    by: Administrator,
    Id(name): Id,
    Params(query): Params<OwnerQuery>,
) -> Result<StatusCode, Problem> {
    let removed = api.engine.remove_environment(&of(&query), &name).await;
    let target = target(&query, &name);
    let deed = Deed { act: Act::RemoveEnvironment, target: &target, detail: "" };
    record(&api, &by, deed, &removed);
    removed?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show the last build of an environment, or follow it
#[utoipa::path(get, path = "/v1/admin/environments/{name}/build",
    operation_id = "admin_show_build", tag = "admin",
    params(("name" = String, Path, description = "Name of the environment"), OwnerQuery,
        events::Headers),
    responses((status = 200, description = "How far it has come, or its events",
            content((BuildInfo = "application/json"), (String = "text/event-stream"))),
        (status = "default", body = Problem)))]
async fn admin_show_build(
    State(api): State<Shared>,
    _: Administrator,
    Id(name): Id,
    Params(query): Params<OwnerQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    build_or_events(&api, &of(&query), &name, &headers).await
}

/// Read the log of the last build of an environment
#[utoipa::path(get, path = "/v1/admin/environments/{name}/build/log",
    operation_id = "admin_read_build_log", tag = "admin",
    params(("name" = String, Path, description = "Name of the environment"), OwnerQuery),
    responses((status = 200, description = "The log", body = String, content_type = "text/plain"),
        (status = "default", body = Problem)))]
async fn admin_show_log(
    State(api): State<Shared>,
    _: Administrator,
    Id(name): Id,
    Params(query): Params<OwnerQuery>,
) -> Result<Response, Problem> {
    Ok(text(api.engine.build_log(&of(&query), &name).await?))
}

/// Remove what neither a name nor a session has
#[utoipa::path(post, path = "/v1/admin/collect", operation_id = "admin_collect", tag = "admin",
    responses((status = 200, body = CollectReply), (status = "default", body = Problem)))]
async fn admin_collect(State(api): State<Shared>, by: Administrator) -> ApiResult<CollectReply> {
    let reply = api.engine.collect_environments().await;
    let done = reply.as_ref().map(|it| format!("{} artefacts, {} bytes", it.artefacts, it.bytes));
    let detail = done.as_deref().unwrap_or_default();
    record(&api, &by, Deed { act: Act::Collect, target: "environments", detail }, &reply);
    Ok(Answer(reply?))
}

fn of(query: &OwnerQuery) -> Owner {
    Owner::of(query.tenant.as_deref())
}

/// The owner of something new: a tenant that there is.
fn owner(api: &Shared, query: &OwnerQuery) -> Result<Owner, Problem> {
    let Some(tenant) = &query.tenant else { return Ok(Owner::Operator) };
    let settings = api.engine.settings();
    let is_default = settings.tenants.is_empty() && tenant == DEFAULT_TENANT;
    if is_default || settings.tenants.contains_key(tenant) {
        return Ok(Owner::Tenant(tenant.clone()));
    }
    let detail = format!("tenant: there is no tenant {tenant:?}");
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Err(Problem::new(status, "invalid_field", detail).field("tenant"))
}

fn target(query: &OwnerQuery, name: &str) -> String {
    match &query.tenant {
        Some(tenant) => format!("{name} of {tenant}"),
        None => name.to_owned(),
    }
}

async fn build_or_events(
    api: &Shared,
    owner: &Owner,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let after = events::last_read(headers)?;
    if events::is_wanted(headers) {
        let (reader, ended) = api.engine.follow_build(owner, name, after).await?;
        let account = api.engine.account(owner.tenant().unwrap_or(DEFAULT_TENANT));
        return Ok(events::respond(reader, ended, account, Content::default()));
    }
    Ok(Answer(api.engine.build_info(owner, name).await?).into_response())
}

/// What packages print: text, whatever a browser makes of it.
fn text(log: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, log).into_response()
}
