//! The routes, one file per resource.

use axum::Json;
use utoipa_axum::router::OpenApiRouter;

use super::{Problem, Shared};

mod admin;
mod approvals;
mod assist;
mod calls;
mod checkpoints;
mod commands;
mod contexts;
mod environments;
mod executions;
mod files;
mod homes;
mod host;
mod image_store;
mod images;
mod outputs;
mod ports;
mod processes;
mod sessions;
mod watch;

type ApiResult<T> = Result<Json<T>, Problem>;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    sessions::routes()
        .merge(images::routes())
        .merge(checkpoints::routes())
        .merge(image_store::routes())
        .merge(executions::routes())
        .merge(calls::routes())
        .merge(outputs::routes())
        .merge(commands::routes())
        .merge(contexts::routes())
        .merge(processes::routes())
        .merge(assist::routes())
        .merge(files::routes())
        .merge(homes::routes())
        .merge(environments::routes())
        .merge(ports::routes())
        .merge(watch::routes())
        .merge(host::routes())
        .merge(approvals::routes())
        .merge(admin::routes())
}
