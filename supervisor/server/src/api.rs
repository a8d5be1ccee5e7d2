//! The HTTP API: parse, call the engine, map the answer. No decisions.
//!
//! Every error is an RFC 9457 problem with a stable `code` ([`problem`]); whatever a browser
//! could be tricked into sending is refused before it is routed ([`guard`]); whose a request is,
//! its token tells ([`auth`]).

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use tower_http::catch_panic::CatchPanicLayer;
use vivarium_engine::Engine;

mod auth;
mod body;
mod connections;
mod departure;
mod events;
mod extract;
mod guard;
mod metrics;
mod openapi;
mod problem;
mod reply;
mod routes;
mod run_body;
mod serve;
#[cfg(test)]
mod tests;
mod write_timeout;

pub use openapi::document;
pub use problem::Problem;
pub use serve::{ServeError, serve};

/// What routes know.
#[derive(Debug, Clone)]
struct Api {
    engine: Engine,
    max_body_bytes: usize,
}

type Shared = Arc<Api>;

/// The routes. Which address a request came to is told by a [`guard::Local`] extension.
fn router(engine: Engine) -> Router {
    let max_body_bytes =
        usize::try_from(engine.settings().server.max_body_bytes).unwrap_or(usize::MAX);
    Router::from(routes::routes())
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(middleware::from_fn_with_state(engine.clone(), guard::check))
        .layer(CatchPanicLayer::custom(problem::panicked))
        // The limit is ours, in `extract`, with an answer of ours.
        .layer(DefaultBodyLimit::disable())
        // Outermost: what the layers within refuse is answered too.
        .layer(middleware::from_fn_with_state(engine.metrics(), metrics::count))
        .with_state(Arc::new(Api { engine, max_body_bytes }))
}
