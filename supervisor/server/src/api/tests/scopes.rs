//! What each kind of token can do, on every route of the document.

use jiff::Timestamp;
use vivarium_api_types::{Scope, Scopes, TokenHash};
use vivarium_engine::settings::{Tenant, TenantToken};

use super::*;

fn token(text: &str, scopes: &[Scope], expires: Option<Timestamp>) -> TenantToken {
    let scopes: Scopes = scopes.iter().copied().collect();
    TenantToken { scopes, expires, name: Some(text.to_owned()), ..TokenHash::of(text).into() }
}

/// One tenant, with a token for each purpose that is called after it.
fn one_tenant() -> Settings {
    let past = Some(Timestamp::UNIX_EPOCH);
    let tokens = vec![
        token("read", &[Scope::Read], Some(Timestamp::MAX)),
        token("run", &[Scope::Run], None),
        token("admin", &[Scope::Admin], None),
        token("approve", &[Scope::Approve], None),
        token("expired", &[Scope::Run, Scope::Admin], past),
    ];
    let mut settings = settings();
    settings.tenants.insert("one".to_owned(), Tenant { tokens, ..Tenant::default() });
    settings
}

impl Server {
    async fn with(&self, token: &str, method: &str, path: &str, body: &str) -> Response {
        let headers = format!("{JSON}authorization: Bearer {token}\r\n");
        raw(self.address, &request(method, path, &headers, body)).await
    }
}

/// Every operation of the document under /v1, of a session that is not there.
async fn operations(server: &Server) -> Vec<(String, String)> {
    let document = server.call("GET", "/openapi.json", "").await.json();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            if path.starts_with("/v1/") && path != "/v1/admin/drain" {
                found.push((method.to_uppercase(), path.replace("{id}", "nobody")));
            }
        }
    }
    found
}

#[tokio::test]
async fn no_token_does_what_it_is_not_for_on_any_route() {
    let server = start(one_tenant());
    let mut counts = [0; 4];
    for (method, path) in operations(&server).await {
        if method == "DELETE" {
            continue;
        }
        let is_admin = path.starts_with("/v1/admin/");
        let is_read = method == "GET" && !is_admin && !path.contains("/ports/");
        // An administrator sees and decides the calls of all tenants that wait.
        let is_approval = path.starts_with("/v1/approvals");
        let decides = is_approval && method == "POST";
        let allowed = [
            ("read", is_read),
            ("run", !is_admin && !decides),
            ("admin", is_admin || is_approval),
            ("approve", is_read || decides),
        ];
        for (index, (token, is_allowed)) in allowed.into_iter().enumerate() {
            let answer = server.with(token, &method, &path, "").await;
            if is_allowed {
                counts[index] += 1;
                assert!(!matches!(answer.status, 401 | 403), "{token} {method} {path}");
                continue;
            }
            assert_eq!(answer.problem(), (403, "scope_required".into()), "{token} {method} {path}");
            let needed = if is_admin {
                "admin"
            } else if decides {
                "approve"
            } else if is_read {
                "read"
            } else {
                "run"
            };
            assert_eq!(answer.json()["scope"], needed, "{method} {path}");
            let challenge = format!("error=\"insufficient_scope\", scope=\"{needed}\"");
            assert!(answer.head.contains(&challenge), "{}", answer.head);
        }
        let expired = server.with("expired", &method, &path, "").await;
        assert_eq!(expired.problem(), (401, "token_expired".into()), "{method} {path}");
        assert!(expired.head.contains("error=\"invalid_token\""), "{}", expired.head);
    }
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
}

#[tokio::test]
async fn a_read_token_changes_nothing_by_any_method() {
    let server = start(one_tenant());
    assert_eq!(server.with("run", "POST", "/v1/sessions", r#"{"id": "a"}"#).await.status, 201);
    for (method, path) in [
        ("DELETE", "/v1/sessions/a"),
        ("DELETE", "/v1/sessions/a/files/x"),
        ("DELETE", "/v1/sessions/a/contexts/main"),
        ("GET", "/v1/sessions/a/ports/80/"),
        ("POST", "/v1/sessions/a/ports/80/x"),
        ("DELETE", "/v1/sessions/a/ports/80"),
        ("POST", "/v1/run"),
    ] {
        let answer = server.with("read", method, path, "").await;
        assert_eq!(answer.problem(), (403, "scope_required".into()), "{method} {path}");
    }
    assert_eq!(server.with("read", "GET", "/v1/sessions/a", "").await.status, 200);
    assert_eq!(server.with("read", "HEAD", "/v1/host", "").await.status, 200);
}

#[tokio::test]
async fn nobody_administers_over_tcp_without_a_token() {
    for settings in [settings(), one_tenant()] {
        let server = start(settings);
        for (method, path) in operations(&server).await {
            if path.starts_with("/v1/admin/") {
                let answer = server.call(&method, &path, "").await;
                assert_eq!(answer.problem(), (401, "unauthenticated".into()), "{method} {path}");
            }
        }
        assert_eq!(server.call("POST", "/v1/admin/drain", "").await.status, 401);
        assert!(!server.engine.is_draining());
    }
}

#[tokio::test]
async fn a_pause_is_told_with_a_code_and_when_to_try_again() {
    let server = start(one_tenant());
    let paused = server.with("admin", "POST", "/v1/admin/pause", r#"{"tenant": "one"}"#).await;
    assert_eq!(paused.status, 200, "{}", paused.body);
    let refused = server.with("run", "POST", "/v1/sessions", "").await;
    assert_eq!(refused.problem(), (429, "tenant_paused".into()));
    assert!(refused.head.contains("retry-after: 30"), "{}", refused.head);
    assert_eq!(server.call("GET", "/readyz", "").await.status, 200);
    server.with("admin", "POST", "/v1/admin/pause", r#"{"reason": "upgrade"}"#).await;
    let refused = server.with("run", "POST", "/v1/run", r#"{"code": "1"}"#).await;
    assert_eq!(refused.problem(), (503, "paused".into()));
    assert_eq!(server.call("GET", "/readyz", "").await.problem(), (503, "paused".into()));
    let status = server.with("admin", "GET", "/v1/admin/status", "").await.json();
    assert_eq!(status["paused"]["reason"], "upgrade");
    for body in ["", r#"{"tenant": "one"}"#] {
        server.with("admin", "POST", "/v1/admin/resume", body).await;
    }
    assert_eq!(server.with("run", "POST", "/v1/sessions", "").await.status, 201);
    for (bad, status) in [(r#"{"tenant": "../x"}"#, 422), (r#"{"tenants": "a"}"#, 422), ("{", 400)]
    {
        let answer = server.with("admin", "POST", "/v1/admin/pause", bad).await;
        assert_eq!(answer.status, status, "{bad}");
    }
    let large = format!(r#"{{"reason": "{}"}}"#, "x".repeat(20_000));
    assert_eq!(server.with("admin", "POST", "/v1/admin/pause", &large).await.status, 413);
}
