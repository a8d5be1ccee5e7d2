//! The routes, a file for each kind of thing. Each takes a request apart, calls the engine and
//! puts the answer together.

use axum::{Json, Router};
use utoipa::openapi::OpenApi;

use super::{Problem, Shared};

mod commands;
mod executions;
mod files;
mod host;
mod sessions;

/// An answer that is JSON.
type ApiResult<T> = Result<Json<T>, Problem>;

/// The routes of one file, and their description.
struct Part {
    router: Router<Shared>,
    document: OpenApi,
}

fn parts() -> [Part; 5] {
    [sessions::part(), executions::part(), commands::part(), files::part(), host::part()]
}

pub(super) fn router() -> Router<Shared> {
    parts().into_iter().fold(Router::new(), |all, part| all.merge(part.router))
}

/// Adds the description of every route.
pub(super) fn describe(document: &mut OpenApi) {
    for part in parts() {
        document.merge(part.document);
    }
}
