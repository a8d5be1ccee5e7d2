//! The HTTP API: parse, call the engine, map the answer. No decisions.
//!
//! Every error is an RFC 9457 problem with a stable `code` ([`problem`]). Requests that a browser
//! could be tricked into sending are refused before they are routed ([`guard`]). The token of a
//! request names its tenant ([`auth`]).

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use tower_http::catch_panic::CatchPanicLayer;
use vivarium_engine::Engine;

mod admin;
mod approver;
mod auth;
mod body;
mod connections;
mod delivery;
mod departure;
mod dialects;
mod events;
mod extract;
mod guard;
mod metrics;
mod openapi;
mod ports;
mod preview;
mod problem;
mod query;
mod refused;
mod reply;
mod routes;
mod run_body;
mod scopes;
mod serve;
mod shaping;
#[cfg(test)]
mod tests;
mod untrusted;
mod write_timeout;

pub use dialects::InProcess;
pub use openapi::document;
pub use problem::Problem;
pub use serve::{Listeners, ServeError, serve};

/// The state of all routes.
#[derive(Debug, Clone)]
struct Api {
    engine: Engine,
    max_body_bytes: usize,
    preview: preview::Previews,
}

impl Api {
    fn new(engine: Engine) -> Self {
        let settings = engine.settings();
        let max_body_bytes = usize::try_from(settings.server.max_body_bytes).unwrap_or(usize::MAX);
        let preview = preview::Previews::new(&settings.preview);
        Self { engine, max_body_bytes, preview }
    }
}

type Shared = Arc<Api>;

/// The routes. The extension [`guard::Local`] of a request is the address it came to.
fn router(api: Shared) -> Router {
    let metrics = api.engine.metrics();
    dialects::added(Router::from(routes::routes()), &api)
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&api), shaping::shape))
        .layer(middleware::from_fn_with_state(Arc::clone(&api), guard::check))
        // Before anything looks for a token or logs a target.
        .layer(middleware::from_fn_with_state(Arc::clone(&api), dialects::credentials))
        .layer(CatchPanicLayer::custom(problem::panicked))
        // `extract` has its own limit, which answers with a problem.
        .layer(DefaultBodyLimit::disable())
        // Outermost, so that requests which the inner layers refuse are counted too.
        .layer(middleware::from_fn_with_state(metrics, metrics::count))
        .with_state(api)
}
