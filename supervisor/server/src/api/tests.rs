//! The API over real sockets, on an engine whose sessions echo.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;

use super::serve;

mod bodies;
mod clients;
mod events;
mod files;
mod scopes;
mod tenants;
mod words;

use vivarium_engine::Engine;
use vivarium_engine::settings::Settings;
use vivarium_engine::testing::{echoing, settings};

use crate::listen::Listener;

struct Server {
    address: SocketAddr,
    engine: Engine,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), super::ServeError>>,
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Status and code of a problem, which has to look like one.
    fn problem(&self) -> (u16, String) {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        for member in ["type", "title", "detail"] {
            assert!(problem[member].is_string(), "{problem}");
        }
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }
}

fn start(settings: Settings) -> Server {
    start_with(echoing(settings).0)
}

fn start_with(engine: Engine) -> Server {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let address = tcp.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let serving = serve(engine.clone(), vec![Listener::Tcp(tcp)], stopped);
    Server { address, engine, stop, task: tokio::spawn(serving) }
}

/// Sends bytes as they are, and reads until the connection closes.
async fn raw(address: SocketAddr, request: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    answer(&mut stream).await
}

async fn answer(stream: &mut (impl AsyncReadExt + Unpin)) -> Response {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn head(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let headers = format!("content-length: {}\r\n{headers}", body.len());
    (head(method, path, &headers) + body).into_bytes()
}

const CHUNKED: &str = "transfer-encoding: chunked\r\n";

/// Sends a chunked body.
async fn send_chunked(server: &Server, method: &str, path: &str, chunks: &str) -> Response {
    let head = head(method, path, &format!("{JSON}{CHUNKED}"));
    raw(server.address, format!("{head}{chunks}0\r\n\r\n").as_bytes()).await
}

const JSON: &str = "content-type: application/json\r\n";

impl Server {
    async fn call(&self, method: &str, path: &str, body: &str) -> Response {
        raw(self.address, &request(method, path, JSON, body)).await
    }
}

#[tokio::test]
async fn session_is_created_used_and_deleted_over_http() {
    let server = start(settings());
    let made = server.call("POST", "/v1/sessions", r#"{"id": "a", "metadata": {"k": "v"}}"#).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["metadata"], json!({"k": "v"}));
    let ran = server.call("POST", "/v1/sessions/a/execute", r#"{"code": "hi"}"#).await;
    assert_eq!(ran.status, 200);
    let outcome = ran.json();
    let members: Vec<_> = outcome.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "cause detail displays duration_ms exception execution_id exit_code files \
                    files_changed files_changed_more images kernel result rolled_back session_created session_id \
                    state status stderr stderr_bytes stderr_truncated stdout stdout_bytes \
                    stdout_truncated usage video_frames";
    assert_eq!(members.join(" "), expected);
    assert_eq!(outcome["stdout"], "hi");
    assert_eq!(outcome["result"]["repr"], "hi");
    assert_eq!(
        (&outcome["result"]["size_bytes"], &outcome["stdout_bytes"]),
        (&json!(2), &json!(2))
    );
    let shown = server.call("GET", "/v1/sessions", "").await.json();
    assert_eq!(shown["sessions"][0]["usage"]["executions"], 1);
    assert_eq!(shown["sessions"][0]["limits"]["cpu_cores"], json!(1.0));
    for (path, member) in
        [("interrupt", "interrupted"), ("reset", "ended_execution_id"), ("keepalive", "expires_at")]
    {
        let answer = server.call("POST", &format!("/v1/sessions/a/{path}"), "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.json().get(member).is_some(), "{path}");
    }
    assert_eq!(server.call("DELETE", "/v1/sessions/a", "").await.status, 204);
    let gone = server.call("DELETE", "/v1/sessions/a", "").await;
    assert_eq!(gone.problem(), (404, "unknown_session".into()));
}

#[tokio::test]
async fn other_routes_answer() {
    let server = start(settings());
    assert_eq!(server.call("POST", "/v1/sessions", "").await.status, 201);
    let made = server.call("POST", "/v1/sessions/b/execute?create=true", r#"{"code": ""}"#).await;
    assert_eq!(made.json()["session_id"], "b");
    let ran = server.call("POST", "/v1/run", r#"{"code": "x"}"#).await;
    assert_eq!(ran.json()["status"], "ok");
    assert_eq!(server.call("GET", "/v1/host", "").await.json()["capacity"]["sessions"], 2);
    assert_eq!(server.call("GET", "/healthz", "").await.json(), json!({"status": "ok"}));
    assert_eq!(server.call("GET", "/readyz", "").await.status, 200);
    server.engine.shutdown(std::time::Duration::ZERO).await;
    let draining = server.call("GET", "/readyz", "").await;
    assert_eq!(draining.problem(), (503, "draining".into()));
    assert!(draining.head.contains("retry-after: "), "{}", draining.head);
    let refused = server.call("POST", "/v1/run", r#"{"code": "x"}"#).await;
    assert_eq!(refused.problem(), (503, "draining".into()));
}

#[tokio::test]
async fn openapi_describes_every_route() {
    let server = start(settings());
    let document = server.call("GET", "/openapi.json", "").await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/v1/sessions",
        "/v1/sessions/{id}",
        "/v1/sessions/{id}/execute",
        "/v1/sessions/{id}/interrupt",
        "/v1/sessions/{id}/reset",
        "/v1/sessions/{id}/keepalive",
        "/v1/sessions/{id}/suspend",
        "/v1/sessions/{id}/branch",
        "/v1/sessions/{id}/checkpoints",
        "/v1/sessions/{id}/checkpoints/{name}/diff",
        "/v1/sessions/{id}/rollback",
        "/v1/sessions/{id}/commands",
        "/v1/sessions/{id}/executions/{execution_id}",
        "/v1/sessions/{id}/complete",
        "/v1/sessions/{id}/inspect",
        "/v1/sessions/{id}/is_complete",
        "/v1/sessions/{id}/files",
        "/v1/run",
        "/v1/host",
        "/healthz",
        "/readyz",
        "/metrics",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    // Generators make a function, or a type, of each operation's id.
    let operations = paths.values().flat_map(|item| item.as_object().unwrap().values());
    let mut ids: Vec<_> =
        operations.filter_map(|operation| operation["operationId"].as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert!(count > 20 && ids.len() == count, "{ids:?}");
    // Every reference leads somewhere.
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn bad_requests_get_problems() {
    let server = start(settings());
    let run = "/v1/run";
    for (method, path, body, status, code) in [
        ("POST", run, "{", 400, "malformed_json"),
        ("POST", run, "", 400, "malformed_json"),
        ("POST", run, r#"{"kode": ""}"#, 422, "unknown_field"),
        ("POST", run, r#"{"code": "", "shell": "ls"}"#, 422, "invalid_field"),
        ("POST", "/v1/sessions/a/commands", r#"{"argv": []}"#, 422, "invalid_field"),
        ("POST", "/v1/sessions/a/commands", r#"{"argv": ["ls"]}"#, 404, "unknown_session"),
        ("POST", "/v1/sessions/a/complete", r#"{"code": ""}"#, 404, "unknown_session"),
        ("POST", "/v1/sessions/a/inspect", r#"{"code": "", "cursor": 1}"#, 422, "invalid_field"),
        ("POST", "/v1/sessions/a/is_complete", r#"{"code": ""}"#, 404, "unknown_session"),
        (
            "POST",
            "/v1/sessions/a/is_complete",
            r#"{"code": "", "cursor": 0}"#,
            422,
            "unknown_field",
        ),
        ("POST", "/v1/sessions/a/is_complete", r#"{"code": "\ud800"}"#, 400, "malformed_json"),
        ("GET", "/v1/sessions/a/executions/1", "", 404, "unknown_execution"),
        ("GET", "/v1/sessions/a/executions/x", "", 404, "unknown_execution"),
        ("GET", "/v1/sessions/a/executions/%ff", "", 404, "unknown_execution"),
        ("POST", run, r#"{"code": "", "timeout_ms": 0}"#, 422, "invalid_field"),
        ("POST", run, r#"{"code": "", "environment": "x"}"#, 422, "invalid_field"),
        ("POST", "/v1/sessions", r#"{"id": "../x"}"#, 422, "invalid_field"),
        ("POST", "/v1/sessions", r#"{"home": "session"}"#, 422, "invalid_field"),
        ("POST", "/v1/sessions", r#"{"volumes": [{}]}"#, 422, "missing_field"),
        ("GET", "/v1/homes", "", 422, "invalid_field"),
        ("POST", "/v1/volumes", r#"{"name": "v"}"#, 422, "invalid_field"),
        ("GET", "/v1/sessions?limit=0", "", 422, "invalid_field"),
        ("GET", "/v1/sessions?limit=x", "", 400, "invalid_query"),
        ("GET", "/v1/sessions?nope=1", "", 400, "invalid_query"),
        ("POST", "/v1/sessions/a/execute?create=yes", r#"{"code": ""}"#, 400, "invalid_query"),
        ("POST", "/v1/sessions/a/execute", r#"{"code": ""}"#, 404, "unknown_session"),
        ("GET", "/v1/sessions/a", "", 404, "unknown_session"),
        ("GET", "/v1/sessions/..%2f..%2fetc", "", 404, "unknown_session"),
        ("GET", "/v1/sessions/%ff", "", 404, "unknown_session"),
        ("GET", "/v1/sessions/../host", "", 404, "unknown_path"),
        ("GET", "/nowhere", "", 404, "unknown_path"),
        ("PUT", "/v1/sessions", "", 405, "method_not_allowed"),
    ] {
        let answer = server.call(method, path, body).await;
        assert_eq!(answer.problem(), (status, code.to_owned()), "{method} {path} {body}");
    }
    let conflict = r#"{"id": "a"}"#;
    server.call("POST", "/v1/sessions", conflict).await;
    let answer = server.call("POST", "/v1/sessions", conflict).await;
    assert_eq!(answer.problem(), (409, "session_exists".into()));
    let allow = server.call("PUT", "/v1/sessions", "").await.head;
    assert!(allow.contains("allow: ") && allow.contains("post"), "{allow}");
}

#[tokio::test]
async fn other_content_types_are_refused() {
    let server = start(settings());
    let body = r#"{"code": ""}"#;
    for headers in ["", "content-type: text/plain\r\n", "content-type: multipart/form-data\r\n"] {
        let answer = raw(server.address, &request("POST", "/v1/run", headers, body)).await;
        assert_eq!(answer.problem(), (415, "unsupported_media_type".into()), "{headers}");
    }
}

#[tokio::test]
async fn requests_of_web_pages_are_refused() {
    let server = start(settings());
    let rebound = b"GET /v1/host HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(raw(server.address, rebound).await.problem(), (403, "host_not_allowed".into()));
    let origin = "origin: http://evil.example\r\n";
    let answer = raw(server.address, &request("GET", "/v1/host", origin, "")).await;
    assert_eq!(answer.problem(), (403, "cross_origin".into()));
    assert_eq!(server.call("GET", "/v1/host", "").await.status, 200);
}

#[tokio::test]
async fn unix_socket_serves_until_the_server_stops() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    unix.set_nonblocking(true).unwrap();
    let (engine, _) = echoing(settings());
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(serve(engine, vec![Listener::Unix(unix)], stopped));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: whatever\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stop.send(()).unwrap();
    // An idle connection is closed, and serving ends.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn server_stops_on_request() {
    let server = start(settings());
    server.call("GET", "/healthz", "").await;
    server.stop.send(()).unwrap();
    server.task.await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn requests_and_executions_are_counted() {
    let server = start(settings());
    server.call("POST", "/v1/sessions", r#"{"id": "a"}"#).await;
    server.call("POST", "/v1/sessions/a/execute", r#"{"code": "hi"}"#).await;
    server.call("POST", "/v1/sessions/a/reset", "").await;
    server.call("GET", "/nowhere/secret-path", "").await;
    raw(server.address, &request("BREW", "/healthz", "", "")).await;
    let rebound = b"GET /healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    raw(server.address, rebound).await;
    let answer = server.call("GET", "/metrics", "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4\r\n"), "{}", answer.head);
    let expected = [
        r#"vivarium_sessions{state="idle",tenant="default"} 1"#,
        r#"vivarium_sessions{state="running",tenant="default"} 0"#,
        r#"vivarium_sessions_limit 100"#,
        r#"vivarium_session_start_seconds_count{tenant="default"} 1"#,
        r#"vivarium_executions_total{cause="none",status="ok",tenant="default"} 1"#,
        r#"vivarium_execution_duration_seconds_bucket{tenant="default",le="60"} 1"#,
        r#"vivarium_execution_cpu_seconds_total{tenant="default"} 0.0015"#,
        r#"vivarium_queue_depth{tenant="default"} 0"#,
        r#"vivarium_queue_wait_seconds_count{tenant="default"} 1"#,
        r#"vivarium_output_bytes_total{stream="stdout",tenant="default"} 2"#,
        r#"vivarium_kernel_restarts_total{cause="reset",tenant="default"} 1"#,
        r#"vivarium_sandbox_mode{mode="auto"} 1"#,
        r#"vivarium_http_requests_total{method="POST",route="/v1/sessions/{id}/execute",status="2xx"} 1"#,
        r#"vivarium_http_requests_total{method="GET",route="unknown",status="4xx"} 1"#,
        r#"vivarium_http_requests_total{method="other",route="/healthz",status="4xx"} 1"#,
        r#"vivarium_http_requests_total{method="GET",route="/healthz",status="4xx"} 1"#,
        concat!(r#"vivarium_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
    ];
    for line in expected {
        assert!(answer.body.lines().any(|found| found == line), "{line} in\n{}", answer.body);
    }
    assert!(!answer.body.contains("secret-path"));
    server.call("DELETE", "/v1/sessions/a", "").await;
    let body = server.call("GET", "/metrics", "").await.body;
    let ended = r#"vivarium_sessions_ended_total{cause="deleted",tenant="default"} 1"#;
    assert!(body.contains(ended), "{body}");
    server.engine.shutdown(std::time::Duration::ZERO).await;
    server.call("POST", "/v1/run", r#"{"code": "x"}"#).await;
    let body = server.call("GET", "/metrics", "").await.body;
    let refused = r#"vivarium_refusals_total{reason="draining",tenant="default"} 1"#;
    assert!(body.contains(refused), "{body}");
}
