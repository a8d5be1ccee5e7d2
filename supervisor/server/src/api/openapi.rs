//! The OpenAPI document, generated from the types and routes.

use std::sync::OnceLock;

use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};
use vivarium_api_types::{
    AwaitingApprovalEvent, CallEndedEvent, CallEvent, DisplayEvent, DoneEvent, ExecutionInfo,
    FileEventInfo, Outcome, OutputEvent, StartedEvent, ValueInfo, WaitingReply,
};

use super::{problem, routes};

mod examples;
mod properties;

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
        AwaitingApprovalEvent,
        StartedEvent,
        OutputEvent,
        DisplayEvent,
        DoneEvent,
        CallEvent,
        CallEndedEvent,
        WaitingReply,
        FileEventInfo
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

/// What a document has to say of every response and parameter, for those of which the routes say
/// nothing more.
struct Descriptions;

impl Modify for Descriptions {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    response.description = of_status(status).to_owned();
                }
            }
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter
                    && parameter.description.is_none()
                {
                    parameter.description = of_parameter(&parameter.name).map(str::to_owned);
                }
            }
        }
    }
}

fn of_status(status: &str) -> &'static str {
    match status {
        "200" => "The answer",
        "201" => "Made",
        "204" => "Done",
        "413" => "The content is larger than a file may be",
        "416" => "The file has no such range",
        "503" => "The daemon does not accept work now",
        "507" => "The session has no room for the content",
        _ => "The request failed; `code` says why",
    }
}

fn of_parameter(name: &str) -> Option<&'static str> {
    match name {
        "id" => Some("Id of the session"),
        "execution_id" => Some("Id of the execution"),
        "call_id" => Some("Id of the call"),
        "context" => Some("Id of the context; `main` is the one that every session has"),
        "If-Range" => Some("The `ETag` of an earlier answer: without it the whole file is sent"),
        "If-None-Match" => Some("The `ETag` of an earlier answer: 304 if the file is the same"),
        _ => None,
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
    Descriptions.modify(&mut document);
    properties::describe(&mut document);
    examples::add(&mut document);
    document
}

/// The document as JSON, made once.
pub(super) fn json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| document().to_json().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_response_and_parameter_is_described() {
        let mut document = document();
        let mut responses = 0;
        for (path, item) in &mut document.paths.paths {
            for operation in operations(item) {
                assert!(operation.summary.is_some(), "{path}");
                for (status, response) in &operation.responses.responses {
                    let RefOr::T(response) = response else { panic!("{path} {status}") };
                    assert!(!response.description.is_empty(), "{path} {status}");
                    responses += 1;
                }
                for parameter in operation.parameters.iter().flatten() {
                    let RefOr::T(parameter) = parameter else { panic!("{path}") };
                    assert!(parameter.description.is_some(), "{path} {}", parameter.name);
                }
            }
        }
        assert!(responses > 40, "{responses}");
    }

    #[test]
    fn every_schema_and_property_is_described_without_words_of_rust() {
        let document = serde_json::to_value(document()).unwrap();
        let mut undescribed = Vec::new();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            look(name, schema, true, &mut undescribed);
        }
        assert!(undescribed.is_empty(), "{}: {}", undescribed.len(), undescribed.join(", "));
    }

    /// Notes what says nothing of itself: schemas, and properties at any depth.
    fn look(path: &str, schema: &serde_json::Value, is_named: bool, undescribed: &mut Vec<String>) {
        let description = schema["description"].as_str().unwrap_or_default();
        let is_rust = ["Option", "Vec<", "usize", "u64", "i64", "enum", "struct", "[`", "::"]
            .iter()
            .any(|word| description.contains(word));
        if is_named && (description.trim().is_empty() || is_rust) {
            undescribed.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            look(&format!("{path}.{name}"), property, true, undescribed);
        }
        for part in ["items", "additionalProperties"] {
            if schema[part].is_object() {
                look(path, &schema[part], false, undescribed);
            }
        }
        for part in ["oneOf", "allOf", "anyOf"] {
            for one in schema[part].as_array().into_iter().flatten() {
                look(path, one, false, undescribed);
            }
        }
    }
}
