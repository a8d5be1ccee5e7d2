//! Who a request is from, and what it then sees.

use std::sync::Arc;

use vivarium_engine::testing::tenant;

use super::*;

/// Settings with tenants `one` and `two`, whose tokens are `1` and `2`.
fn two_tenants() -> Settings {
    let mut settings = settings();
    for (name, token) in [("one", "1"), ("two", "2")] {
        settings.tenants.insert(name.to_owned(), tenant(token));
    }
    settings
}

impl Server {
    async fn call_as(&self, token: &str, method: &str, path: &str, body: &str) -> Response {
        let headers = format!("{JSON}authorization: Bearer {token}\r\n");
        raw(self.address, &request(method, path, &headers, body)).await
    }
}

#[tokio::test]
async fn every_v1_route_of_the_document_needs_a_token_and_no_other_does() {
    let server = start(two_tenants());
    let document = server.call("GET", "/openapi.json", "").await.json();
    let scheme = &document["components"]["securitySchemes"]["bearer"];
    assert_eq!(scheme, &json!({"type": "http", "scheme": "bearer"}));
    let mut guarded = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let (method, asked) = (method.to_uppercase(), path.replace("{id}", "a"));
            let answer = server.call(&method, &asked, "").await;
            if !path.starts_with("/v1/") {
                assert_eq!(answer.status, 200, "{path}");
                assert!(operation.get("security").is_none(), "{path}");
                continue;
            }
            guarded += 1;
            assert_eq!(operation["security"], json!([{"bearer": []}, {}]), "{path}");
            assert_eq!(answer.problem(), (401, "unauthenticated".into()), "{method} {path}");
            assert!(answer.head.contains("www-authenticate: bearer\r\n"), "{}", answer.head);
            let wrong = server.call_as("3", &method, &asked, "").await;
            assert_eq!(wrong.problem(), (401, "unauthenticated".into()), "{method} {path}");
            let challenge = "www-authenticate: bearer error=\"invalid_token\"\r\n";
            assert!(wrong.head.contains(challenge), "{}", wrong.head);
            // The control.
            assert_ne!(server.call_as("1", &method, &asked, "").await.status, 401, "{path}");
        }
    }
    assert!(guarded >= 42, "{guarded}");
}

#[tokio::test]
async fn a_tenant_has_its_own_sessions_and_sees_no_others() {
    let server = start(two_tenants());
    for token in ["1", "2"] {
        let made = server.call_as(token, "POST", "/v1/sessions", r#"{"id": "a"}"#).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    server.call_as("1", "POST", "/v1/sessions", r#"{"id": "b"}"#).await;
    let shown = server.call_as("1", "GET", "/v1/sessions/a", "").await.json();
    assert_eq!(shown["tenant"], "one");
    for (token, count) in [("1", 2), ("2", 1)] {
        let listed = server.call_as(token, "GET", "/v1/sessions", "").await.json();
        assert_eq!(listed["sessions"].as_array().unwrap().len(), count);
        let host = server.call_as(token, "GET", "/v1/host", "").await.json();
        assert_eq!(host["capacity"]["sessions"], count);
    }
    for (method, path, body) in [
        ("GET", "", ""),
        ("DELETE", "", ""),
        ("POST", "/execute", r#"{"code": "1"}"#),
        ("POST", "/interrupt", ""),
        ("POST", "/reset", ""),
        ("POST", "/keepalive", ""),
        ("POST", "/suspend", ""),
        ("POST", "/resume", ""),
    ] {
        // What another's session is answered with is what one that is not there is.
        let others = server.call_as("2", method, &format!("/v1/sessions/b{path}"), body).await;
        let unknown = server.call_as("2", method, &format!("/v1/sessions/c{path}"), body).await;
        assert_eq!(others.problem(), (404, "unknown_session".into()), "{method} {path}");
        assert_eq!(others.body.replace("\\\"b\\\"", "\\\"c\\\""), unknown.body);
    }
    assert_eq!(server.call_as("2", "DELETE", "/v1/sessions/a", "").await.status, 204);
    assert_eq!(server.call_as("1", "GET", "/v1/sessions/a", "").await.status, 200);
}

#[tokio::test]
async fn removed_token_is_refused_from_the_next_request_on() {
    let server = start(two_tenants());
    server.call_as("1", "POST", "/v1/sessions", r#"{"id": "a"}"#).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let get = b"GET /v1/host HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer 1\r\n\r\n";
    stream.write_all(get).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut new = two_tenants();
    new.tenants.insert("one".to_owned(), tenant("new"));
    new.tenants.remove("two");
    server.engine.reload(Arc::new(new)).await;
    // Also on a connection that it had opened.
    let close = "GET /v1/host HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 authorization: Bearer 1\r\n\r\n";
    stream.write_all(close.as_bytes()).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("HTTP/1.1 401"), "{rest}");
    for gone in ["1", "2"] {
        assert_eq!(server.call_as(gone, "GET", "/v1/sessions", "").await.status, 401);
    }
    // What the tenant has stays its own.
    assert_eq!(server.call_as("new", "GET", "/v1/sessions/a", "").await.status, 200);
}

#[tokio::test]
async fn request_with_a_token_may_name_any_host() {
    let server = start(two_tenants());
    let ask = async |path: &str, token: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: vivarium.example\r\norigin: http://page.example\r\n\
             connection: close\r\n{token}\r\n"
        );
        raw(server.address, head.as_bytes()).await
    };
    assert_eq!(ask("/v1/host", "authorization: Bearer 1\r\n").await.status, 200);
    for path in ["/v1/host", "/metrics", "/healthz"] {
        for token in ["", "authorization: Bearer 3\r\n"] {
            let answer = ask(path, token).await;
            assert_eq!(answer.problem(), (403, "host_not_allowed".into()), "{path} {token}");
        }
    }
}

#[tokio::test]
async fn tenant_has_a_maximum_of_sessions_of_its_own() {
    let mut settings = two_tenants();
    if let Some(one) = settings.tenants.get_mut("one") {
        one.max_sessions = vivarium_protocol::units::Limit::new(1).unwrap();
    }
    let server = start(settings);
    assert_eq!(server.call_as("1", "POST", "/v1/sessions", "").await.status, 201);
    let refused = server.call_as("1", "POST", "/v1/sessions", "").await;
    assert_eq!(refused.problem(), (429, "too_many_sessions".into()));
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    let host = server.call_as("1", "GET", "/v1/host", "").await.json();
    assert_eq!(host["capacity"]["max_sessions"], 1);
    assert_eq!(server.call_as("2", "POST", "/v1/sessions", "").await.status, 201);
}
