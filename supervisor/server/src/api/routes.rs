//! The routes, a file for each kind of thing. Each takes a request apart, calls the engine and
//! puts the answer together.

use axum::Json;
use utoipa_axum::router::OpenApiRouter;

use super::{Problem, Shared};

mod commands;
mod executions;
mod files;
mod host;
mod sessions;

/// An answer that is JSON.
type ApiResult<T> = Result<Json<T>, Problem>;

/// Every route, with its description.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    sessions::routes()
        .merge(executions::routes())
        .merge(commands::routes())
        .merge(files::routes())
        .merge(host::routes())
}
