//! The API's description of itself, made from the types and routes.

use std::sync::OnceLock;

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};

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
    components(schemas(super::Problem)),
    modifiers(&Bearer)
)]
struct Document;

/// What a request is authenticated with, where there are tenants.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        const NAME: &str = "bearer";
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme(NAME, scheme);
        let paths = &mut document.paths.paths;
        for (_, item) in paths.iter_mut().filter(|(path, _)| path.starts_with("/v1/")) {
            let operations =
                [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
            for operation in operations.into_iter().flatten() {
                // Or nothing, where there are no tenants.
                let either =
                    [SecurityRequirement::new(NAME, [""; 0]), SecurityRequirement::default()];
                operation.security = Some(either.to_vec());
            }
        }
    }
}

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
