//! Executions as streams, asked for again, and carried out once.

use super::*;

const STREAM: &str = "accept: text/event-stream\r\n";
const EXECUTE: &str = "/v1/sessions/a/execute?create=true";

/// One event: its number, name and data.
type Event = (u64, String, Value);

/// The events of a body.
fn events(body: &str) -> Vec<Event> {
    let event = |block: &str| {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(": ").map(str::to_owned)
        };
        let data = serde_json::from_str(&field("data")?).unwrap();
        Some((field("id")?.parse().unwrap(), field("event")?, data))
    };
    dechunk(body).split("\n\n").filter_map(event).collect()
}

/// A body without its chunks' heads, which are lines of their own.
fn dechunk(body: &str) -> String {
    let (mut rest, mut whole) = (body, String::new());
    while let Some((head, tail)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(head, 16).unwrap();
        whole.push_str(&tail[..length]);
        rest = &tail[length + 2..];
    }
    whole
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|(_, name, _)| name.as_str()).collect()
}

impl Server {
    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        let headers = format!("{JSON}{headers}");
        raw(self.address, &request(method, path, &headers, body)).await
    }
}

#[tokio::test]
async fn execution_is_streamed_on_request() {
    let server = start(settings());
    let body = r#"{"code": "hi"}"#;
    let answer = server.send("POST", EXECUTE, STREAM, body).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/event-stream\r\n"), "{}", answer.head);
    assert!(answer.head.contains("cache-control: no-store"), "{}", answer.head);
    let events = events(&answer.body);
    assert_eq!(names(&events), ["started", "stdout", "result", "done"]);
    assert_eq!(events.iter().map(|event| event.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(events[0].2, json!({"execution_id": "1", "session_id": "a"}));
    assert_eq!(events[1].2, json!({"text": "hi"}));
    assert_eq!(
        events[2].2,
        json!({"size_bytes": 2, "sizes": {}, "repr": "hi", "type": "T", "mime": {}})
    );
    let done = &events[3].2;
    assert_eq!((&done["status"], &done["exit_code"]), (&json!("ok"), &Value::Null));
    for member in ["stdout", "stderr", "displays", "images", "result", "exception"] {
        assert_eq!(done.get(member), None, "{member}");
    }
    for accept in ["*/*", "application/json, text/event-stream", "text/html"] {
        let header = format!("accept: {accept}\r\n");
        let answer = server.send("POST", EXECUTE, &header, body).await;
        assert_eq!(answer.json()["stdout"], "hi", "{accept}");
    }
    let ran = server.send("POST", "/v1/run", STREAM, body).await;
    assert_eq!(names(&self::events(&ran.body)).last(), Some(&"done"));
    let sessions = server.call("GET", "/v1/sessions", "").await.json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "the run's is gone");
}

#[tokio::test]
async fn refused_stream_request_gets_a_problem() {
    let server = start(settings());
    let body = r#"{"code": "hi"}"#;
    let answer = server.send("POST", "/v1/sessions/b/execute", STREAM, body).await;
    assert_eq!(answer.problem(), (404, "unknown_session".into()));
    server.send("POST", EXECUTE, "", body).await;
    for after in ["x", "-1", "99", "18446744073709551615"] {
        let headers = format!("{STREAM}last-event-id: {after}\r\n");
        let answer = server.send("GET", "/v1/sessions/a/executions/1", &headers, "").await;
        assert_eq!(answer.problem(), (422, "invalid_field".into()), "{after}");
    }
}

#[tokio::test]
async fn execution_is_shown_again_and_followed_from_any_event() {
    let server = start(settings());
    server.send("POST", EXECUTE, "", r#"{"code": "hi"}"#).await;
    let path = "/v1/sessions/a/executions/1";
    let info = server.call("GET", path, "").await.json();
    assert_eq!((&info["state"], &info["outcome"]["stdout"]), (&json!("done"), &json!("hi")));
    let whole = events(&server.send("GET", path, STREAM, "").await.body);
    assert_eq!(whole.len(), 4);
    for after in 0..=4 {
        let headers = format!("{STREAM}last-event-id: {after}\r\n");
        let rest = server.send("GET", path, &headers, "").await;
        assert_eq!(events(&rest.body), whole[after..], "{after}");
    }
    // Also when its session is gone.
    server.call("DELETE", "/v1/sessions/a", "").await;
    assert_eq!(server.call("GET", path, "").await.json(), info);
    let unknown = server.call("GET", "/v1/sessions/a/executions/2", "").await;
    assert_eq!(unknown.problem(), (404, "unknown_execution".into()));
}

#[tokio::test]
async fn events_that_are_gone_are_410() {
    let mut settings = settings();
    settings.session.event_buffer_bytes = 100;
    let server = start(settings);
    let code = "x".repeat(1000);
    server.send("POST", EXECUTE, "", &json!({ "code": code }).to_string()).await;
    let path = "/v1/sessions/a/executions/1";
    let headers = format!("{STREAM}last-event-id: 1\r\n");
    let answer = server.send("GET", path, &headers, "").await;
    assert_eq!(answer.problem(), (410, "events_gone".into()));
    let kept = events(&server.send("GET", path, STREAM, "").await.body);
    assert_eq!(names(&kept), ["done"]);
}

#[tokio::test]
async fn request_with_a_key_is_executed_once() {
    let server = start(settings());
    let key = "idempotency-key: k-1\r\n";
    let body = r#"{"code": "hi"}"#;
    let first = server.send("POST", EXECUTE, key, body).await;
    assert!(!first.head.contains("idempotent-replayed"), "{}", first.head);
    let again = server.send("POST", EXECUTE, key, body).await;
    assert!(again.head.contains("idempotent-replayed: true\r\n"), "{}", again.head);
    assert_eq!(again.json(), first.json());
    let streamed = server.send("POST", EXECUTE, &format!("{key}{STREAM}"), body).await;
    assert!(streamed.head.contains("idempotent-replayed: true\r\n"), "{}", streamed.head);
    let whole = events(&streamed.body);
    assert_eq!(whole.len(), 4);
    let rest = format!("{key}{STREAM}last-event-id: 2\r\n");
    assert_eq!(events(&server.send("POST", EXECUTE, &rest, body).await.body), whole[2..]);
    for (path, body) in [(EXECUTE, r#"{"code": "ho"}"#), ("/v1/run", body)] {
        let other = server.send("POST", path, key, body).await;
        assert_eq!(other.problem(), (422, "idempotency_key_reused".into()), "{path}");
    }
    let info = server.call("GET", "/v1/sessions/a", "").await.json();
    assert_eq!(info["usage"]["executions"], 1);
    let bad = server.send("POST", EXECUTE, "idempotency-key: a b\r\n", body).await;
    assert_eq!(bad.problem(), (422, "invalid_field".into()));
}

#[tokio::test]
async fn refused_request_may_be_repeated_with_its_key() {
    let server = start(settings());
    let (path, key) = ("/v1/sessions/b/execute", "idempotency-key: k\r\n");
    let body = r#"{"code": "hi"}"#;
    let refused = server.send("POST", path, key, body).await;
    assert_eq!(refused.problem(), (404, "unknown_session".into()));
    server.call("POST", "/v1/sessions", r#"{"id": "b"}"#).await;
    assert_eq!(server.send("POST", path, key, body).await.json()["stdout"], "hi");
}

#[tokio::test]
async fn concurrent_requests_with_one_key_are_executed_once() {
    let server = start(settings());
    let key = "idempotency-key: k\r\n";
    let body = r#"{"code": "hi"}"#;
    let send = || server.send("POST", "/v1/run", key, body);
    let answers = futures_util::future::join3(send(), send(), send()).await;
    let outcomes = [answers.0.json(), answers.1.json(), answers.2.json()];
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0], outcomes[2]);
}

#[tokio::test]
async fn stream_continues_during_shutdown_until_its_execution_ends() {
    let server = start(settings());
    let body = r#"{"code": "hi"}"#;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = request("POST", "/v1/run", &format!("{JSON}{STREAM}"), body);
    stream.write_all(&request).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    server.stop.send(()).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("event: done"), "{rest}");
    server.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_stream_sends_keep_alive_comments() {
    use http_body_util::BodyExt;
    let (record, writer) =
        vivarium_engine::session::execution_log::ExecutionLog::new(1 << 10, false);
    let reader = record.subscribe(None).unwrap();
    let account = echoing(settings()).0.account("t");
    let content = vivarium_api_types::Content::Full;
    let response = crate::api::events::respond(reader, std::future::ready(()), account, content);
    let mut body = response.into_body();
    let began = tokio::time::Instant::now();
    for _ in 0..2 {
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap().as_ref(), b": keep-alive\n\n");
    }
    assert_eq!(began.elapsed().as_secs(), 30);
    drop(writer);
    assert!(body.frame().await.is_none(), "it has ended");
}

#[test]
fn accept_header_chooses_between_stream_and_json() {
    use crate::api::events::is_wanted;
    use axum::http::{HeaderMap, header};
    for (accept, expected) in [
        ("text/event-stream", true),
        ("TEXT/Event-Stream", true),
        ("text/event-stream;q=0.5, application/json;q=0.4", true),
        ("text/event-stream, application/json", true),
        ("application/json, text/event-stream", false),
        ("text/event-stream;q=0", false),
        ("text/event-stream; q=0.5, */*", false),
        ("text/*", false),
        ("", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(is_wanted(&headers), expected, "{accept}");
    }
    assert!(!is_wanted(&HeaderMap::new()));
}
