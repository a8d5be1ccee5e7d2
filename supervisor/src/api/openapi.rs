//! The API's description of itself, made from the types and routes.

use std::sync::OnceLock;

use utoipa::OpenApi;

use super::{metrics, routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Vivarium",
        description = "Runs Python that nobody has reviewed, for many tenants, on one Linux host. \
            Errors are application/problem+json (RFC 9457) with a stable `code`."
    ),
    paths(
        routes::create,
        routes::list,
        routes::show,
        routes::delete,
        routes::execute,
        routes::interrupt,
        routes::reset,
        routes::keepalive,
        routes::run,
        routes::host,
        routes::healthz,
        routes::readyz,
        metrics::show,
    ),
    components(schemas(super::Problem))
)]
struct Document;

/// The OpenAPI document.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// It as JSON, made once.
pub(super) fn json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| document().to_json().unwrap_or_default())
}
