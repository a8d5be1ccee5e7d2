//! The OpenAPI document, generated from the types and routes.

use std::sync::OnceLock;

use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};
use vivarium_api_types::{
    DisplayEvent, DoneEvent, ExecutionInfo, Outcome, OutputEvent, StartedEvent, ValueInfo,
};

use super::{problem, routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Vivarium",
        description = "Runs Python that nobody has reviewed, for many tenants, on one Linux host. \
            Errors are application/problem+json (RFC 9457) with a stable `code`."
    ),
    // No route names the types of the events.
    components(schemas(
        super::Problem,
        ExecutionInfo,
        Outcome,
        ValueInfo,
        StartedEvent,
        OutputEvent,
        DisplayEvent,
        DoneEvent
    ))
)]
struct Document;

/// The authentication scheme, where there are tenants.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        const NAME: &str = "bearer";
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme(NAME, scheme);
        let paths = &mut document.paths.paths;
        for (_, item) in paths.iter_mut().filter(|(path, _)| path.starts_with("/v1/")) {
            for operation in operations(item) {
                // Optional: without tenants no token is needed.
                let either =
                    [SecurityRequirement::new(NAME, [""; 0]), SecurityRequirement::default()];
                operation.security = Some(either.to_vec());
            }
        }
    }
}

/// The media type of every error.
struct Problems;

impl Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                for (status, response) in &mut operation.responses.responses {
                    let is_error = status == "default" || status.starts_with(['4', '5']);
                    if is_error
                        && let RefOr::T(response) = response
                        && let Some(content) = response.content.shift_remove("application/json")
                    {
                        response.content.insert(problem::MEDIA_TYPE.to_owned(), content);
                    }
                }
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, head, put, post, patch, delete, .. } = item;
    [get, head, put, post, patch, delete].into_iter().flatten()
}

#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    document.merge(routes::routes().into_openapi());
    // A path over several segments is axum's `{*path}`, for which OpenAPI has no word of its own.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    Bearer.modify(&mut document);
    Problems.modify(&mut document);
    document
}

/// The document as JSON, made once.
pub(super) fn json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| document().to_json().unwrap_or_default())
}
