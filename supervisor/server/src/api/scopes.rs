//! What a token has to be for, by route: the one place that says so.
//!
//! A route that is not here can be used by nobody. A test holds the table to the routes.

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use vivarium_api_types::{Scope, Scopes};

use super::Problem;
use super::problem::Challenge;

/// Every method, where the session's own server answers.
const ANY: &str = "*";

/// Method, route and scope. `read` is for what neither changes anything nor runs code in a session.
const TABLE: &[(&str, &str, Scope)] = &[
    ("GET", "/v1/host", Scope::Read),
    ("GET", "/v1/sessions", Scope::Read),
    ("POST", "/v1/sessions", Scope::Run),
    ("GET", "/v1/sessions/{id}", Scope::Read),
    ("PATCH", "/v1/sessions/{id}", Scope::Run),
    ("DELETE", "/v1/sessions/{id}", Scope::Run),
    ("POST", "/v1/sessions/{id}/reset", Scope::Run),
    ("POST", "/v1/sessions/{id}/interrupt", Scope::Run),
    ("POST", "/v1/sessions/{id}/keepalive", Scope::Run),
    ("POST", "/v1/sessions/{id}/suspend", Scope::Run),
    ("POST", "/v1/sessions/{id}/resume", Scope::Run),
    ("POST", "/v1/sessions/{id}/branch", Scope::Run),
    ("GET", "/v1/sessions/{id}/imageable", Scope::Read),
    ("POST", "/v1/sessions/{id}/checkpoints", Scope::Run),
    ("GET", "/v1/sessions/{id}/checkpoints", Scope::Read),
    ("DELETE", "/v1/sessions/{id}/checkpoints/{name}", Scope::Run),
    ("GET", "/v1/sessions/{id}/checkpoints/{name}/diff", Scope::Read),
    ("POST", "/v1/sessions/{id}/rollback", Scope::Run),
    ("GET", "/v1/images", Scope::Read),
    ("POST", "/v1/images", Scope::Run),
    ("GET", "/v1/images/{id}", Scope::Read),
    ("DELETE", "/v1/images/{id}", Scope::Run),
    ("GET", "/v1/images/{id}/export", Scope::Read),
    ("POST", "/v1/sessions/{id}/execute", Scope::Run),
    ("POST", "/v1/sessions/{id}/commands", Scope::Run),
    ("POST", "/v1/run", Scope::Run),
    ("GET", "/v1/sessions/{id}/executions", Scope::Read),
    ("GET", "/v1/sessions/{id}/executions/{execution_id}", Scope::Read),
    ("GET", "/v1/sessions/{id}/executions/{execution_id}/outputs/{*part}", Scope::Read),
    ("POST", "/v1/sessions/{id}/executions/{execution_id}/signal", Scope::Run),
    ("POST", "/v1/sessions/{id}/executions/{execution_id}/resize", Scope::Run),
    ("POST", "/v1/sessions/{id}/executions/{execution_id}/stdin", Scope::Run),
    ("GET", "/v1/sessions/{id}/executions/{execution_id}/calls", Scope::Read),
    ("POST", "/v1/sessions/{id}/executions/{execution_id}/calls/{call_id}", Scope::Run),
    ("POST", "/v1/sessions/{id}/executions/{execution_id}/continue", Scope::Run),
    ("POST", "/v1/sessions/{id}/complete", Scope::Run),
    ("POST", "/v1/sessions/{id}/inspect", Scope::Run),
    ("POST", "/v1/sessions/{id}/is_complete", Scope::Run),
    ("GET", "/v1/sessions/{id}/contexts", Scope::Read),
    ("POST", "/v1/sessions/{id}/contexts", Scope::Run),
    ("GET", "/v1/sessions/{id}/contexts/{context}", Scope::Read),
    ("DELETE", "/v1/sessions/{id}/contexts/{context}", Scope::Run),
    ("POST", "/v1/sessions/{id}/contexts/{context}/reset", Scope::Run),
    ("POST", "/v1/sessions/{id}/contexts/{context}/interrupt", Scope::Run),
    ("GET", "/v1/sessions/{id}/files", Scope::Read),
    ("PUT", "/v1/sessions/{id}/files", Scope::Run),
    ("GET", "/v1/sessions/{id}/files/{*path}", Scope::Read),
    ("PUT", "/v1/sessions/{id}/files/{*path}", Scope::Run),
    ("PATCH", "/v1/sessions/{id}/files/{*path}", Scope::Run),
    ("DELETE", "/v1/sessions/{id}/files/{*path}", Scope::Run),
    ("GET", "/v1/sessions/{id}/watch", Scope::Read),
    ("GET", "/v1/homes", Scope::Read),
    ("GET", "/v1/homes/{id}", Scope::Read),
    ("DELETE", "/v1/homes/{id}", Scope::Run),
    ("GET", "/v1/homes/{id}/files", Scope::Read),
    ("GET", "/v1/homes/{id}/files/{*path}", Scope::Read),
    ("DELETE", "/v1/homes/{id}/files/{*path}", Scope::Run),
    ("GET", "/v1/volumes", Scope::Read),
    ("POST", "/v1/volumes", Scope::Run),
    ("GET", "/v1/volumes/{name}", Scope::Read),
    ("DELETE", "/v1/volumes/{name}", Scope::Run),
    ("GET", "/v1/volumes/{name}/files", Scope::Read),
    ("GET", "/v1/volumes/{name}/files/{*path}", Scope::Read),
    ("DELETE", "/v1/volumes/{name}/files/{*path}", Scope::Run),
    ("GET", "/v1/environments", Scope::Read),
    ("POST", "/v1/environments", Scope::Run),
    ("GET", "/v1/environments/{name}", Scope::Read),
    ("DELETE", "/v1/environments/{name}", Scope::Run),
    ("GET", "/v1/environments/{name}/build", Scope::Read),
    ("GET", "/v1/environments/{name}/build/log", Scope::Read),
    // Tenant code answers these: a GET can do anything.
    ("POST", "/v1/sessions/{id}/previews", Scope::Run),
    (ANY, "/v1/sessions/{id}/ports/{port}", Scope::Run),
    (ANY, "/v1/sessions/{id}/ports/{port}/", Scope::Run),
    (ANY, "/v1/sessions/{id}/ports/{port}/{*path}", Scope::Run),
    ("GET", "/v1/approvals", Scope::Read),
    ("GET", "/v1/approvals/{id}", Scope::Read),
    ("POST", "/v1/approvals/{id}", Scope::Approve),
    ("GET", "/v1/admin/status", Scope::Admin),
    ("POST", "/v1/admin/pause", Scope::Admin),
    ("POST", "/v1/admin/resume", Scope::Admin),
    ("POST", "/v1/admin/drain", Scope::Admin),
    ("GET", "/v1/admin/tenants", Scope::Admin),
    ("GET", "/v1/admin/usage", Scope::Admin),
    ("GET", "/v1/admin/environments", Scope::Admin),
    ("POST", "/v1/admin/environments", Scope::Admin),
    ("GET", "/v1/admin/environments/{name}", Scope::Admin),
    ("DELETE", "/v1/admin/environments/{name}", Scope::Admin),
    ("GET", "/v1/admin/environments/{name}/build", Scope::Admin),
    ("GET", "/v1/admin/environments/{name}/build/log", Scope::Admin),
    ("POST", "/v1/admin/collect", Scope::Admin),
    // What a dialect does with it takes the scopes of the routes above.
    ("POST", "/mcp", Scope::Read),
    ("GET", "/sse", Scope::Read),
    ("POST", "/messages", Scope::Read),
    (ANY, "/jupyter/{*path}", Scope::Read),
    (ANY, "/librechat/{*path}", Scope::Read),
    ("POST", "/tools", Scope::Read),
    // On listeners of its own.
    (ANY, "/", Scope::Read),
    (ANY, "/{*e2b}", Scope::Read),
];

/// Routes of dialects, which are not in the document.
#[cfg(test)]
const DIALECTS: [&str; 8] = [
    "/mcp",
    "/sse",
    "/messages",
    "/jupyter/{*path}",
    "/librechat/{*path}",
    "/tools",
    "/",
    "/{*e2b}",
];

/// The scope that a route takes; `None` if the table does not say.
fn of(method: &Method, route: &str) -> Option<Scope> {
    // axum answers HEAD by the route of GET.
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let found = TABLE.iter().find(|(of, path, _)| *path == route && (*of == ANY || *of == method));
    found.map(|(_, _, scope)| *scope)
}

/// The scope that a request takes.
///
/// # Errors
/// 500 for a route of which the table does not say.
pub(super) fn required(parts: &Parts) -> Result<Scope, Problem> {
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    of(&parts.method, route).ok_or_else(|| {
        tracing::error!(method = %parts.method, route, "no scope is declared for this route");
        let detail = "a defect of the daemon; its log has more";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })
}

/// Refuses a token that is not for this.
///
/// # Errors
/// 403, with the challenge of RFC 6750, 3.1.
pub(super) fn check(scopes: Scopes, required: Scope) -> Result<(), Problem> {
    if scopes.allow(required) {
        return Ok(());
    }
    let detail = format!("this takes a token of scope \"{required}\", which yours has not");
    let problem = Problem::new(StatusCode::FORBIDDEN, "scope_required", detail);
    Err(problem.scope(required).challenge(Challenge::InsufficientScope(required)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What axum calls `{*path}` is `{path}` in the document.
    fn documented() -> BTreeSet<(String, String)> {
        let document = serde_json::to_value(crate::api::document()).unwrap();
        let paths = document["paths"].as_object().unwrap().iter();
        let of_path = |(path, item): (&String, &serde_json::Value)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        };
        paths.filter(|(path, _)| path.starts_with("/v1/")).flat_map(of_path).collect()
    }

    #[test]
    fn every_route_has_one_scope_and_every_scope_a_route() {
        let rows: Vec<_> = TABLE.iter().map(|(method, path, _)| (*method, *path)).collect();
        assert_eq!(
            rows.iter().collect::<BTreeSet<_>>().len(),
            rows.len(),
            "a route is there twice"
        );
        // A row for every method, and two that the document leaves out, as they redirect.
        let undocumented = ["/v1/sessions/{id}/ports/{port}", "/v1/sessions/{id}/ports/{port}/"];
        let tabled: BTreeSet<_> = rows
            .iter()
            .filter(|(_, path)| !undocumented.contains(path) && !DIALECTS.contains(path))
            .map(|(method, path)| {
                let method = if *method == ANY { "GET" } else { method };
                (method.to_owned(), path.replace("{*", "{"))
            })
            .collect();
        assert_eq!(tabled, documented());
    }

    #[test]
    fn only_reading_is_done_with_the_scope_read() {
        for (method, path, scope) in TABLE {
            let is_read = *method == "GET" || DIALECTS.contains(path);
            assert!(*scope != Scope::Read || is_read, "{method} {path}");
            let is_admin = path.starts_with("/v1/admin/");
            assert_eq!(*scope == Scope::Admin, is_admin, "{method} {path}");
        }
        assert_eq!(of(&Method::HEAD, "/v1/host"), Some(Scope::Read));
        assert_eq!(of(&Method::DELETE, "/v1/sessions/{id}/ports/{port}/"), Some(Scope::Run));
        assert_eq!(of(&Method::POST, "/v1/host"), None);
    }
}
