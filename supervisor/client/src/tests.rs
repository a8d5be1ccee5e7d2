//! The client against a server of a few lines, which counts its connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;

use super::*;

struct Server {
    url: Url,
    connections: Arc<AtomicUsize>,
}

/// Answers each request of each connection with `status` and `body`; `requests` per connection.
fn server(status: &'static str, body: &'static str, requests: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            for _ in 0..requests {
                let mut length = 0;
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap_or(0) > 2 {
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
                if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    Server { url, connections }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn one_connection_serves_many_requests() {
    let server = server("200 OK", "{\"a\": 1}", usize::MAX);
    let mut client = Client::new(server.url.clone());
    block_on(async {
        for _ in 0..3 {
            let body = serde_json::json!({"code": "1+1"});
            let answer: serde_json::Value =
                client.json(Method::POST, "/v1/run", Some(&body)).await.unwrap();
            assert_eq!(answer["a"], 1);
        }
    });
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn a_closed_connection_is_replaced() {
    let server = server("200 OK", "null", 1);
    let mut client = Client::new(server.url.clone());
    block_on(async {
        client.send(Method::GET, "/", vec![]).await.unwrap();
        // The end of the connection is an event of the runtime: let it be seen.
        while client.sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            tokio::task::yield_now().await;
        }
        client.send(Method::GET, "/", vec![]).await.unwrap();
    });
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

#[test]
fn a_problem_is_reported_with_its_detail_status_and_code() {
    let problem = "{\"type\": \"x\", \"title\": \"No\", \"status\": 404, \
                   \"code\": \"unknown_session\", \"detail\": \"there is no session\"}";
    let server = server("404 Not Found", problem, 1);
    let mut client = Client::new(server.url);
    let answer = block_on(client.json::<()>(Method::GET, "/", None::<&()>));
    let error = answer.unwrap_err();
    assert_eq!(error.to_string(), "there is no session (404 Not Found, unknown_session)");
}

#[test]
fn a_body_that_is_not_json_is_an_error() {
    for status in ["200 OK", "500 Oops"] {
        let server = server(status, "<html>", 1);
        let mut client = Client::new(server.url);
        let answer = block_on(client.json::<()>(Method::GET, "/", None::<&()>));
        assert!(matches!(answer, Err(ClientError::Malformed { .. })), "{answer:?}");
    }
}

#[test]
fn a_token_is_sent_and_never_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let asked = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let mut head = String::new();
        while reader.read_line(&mut head).unwrap() > 2 {}
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        head
    });
    let with = |token: &str| {
        Client::new(Remote { url: url.clone(), token: Some(Token::new(token.into())) })
    };
    let mut client = with("viv_abc");
    assert!(!format!("{client:?}").contains("viv_abc"));
    block_on(client.send(Method::GET, "/", vec![])).unwrap();
    let head = asked.join().unwrap();
    assert!(head.to_lowercase().contains("authorization: bearer viv_abc\r\n"), "{head}");
    let error = block_on(with("sec\nret").send(Method::GET, "/", vec![])).unwrap_err();
    assert!(error.to_string().contains("characters that no token has"), "{error}");
    assert!(!error.to_string().contains("ret"), "{error}");
}

#[test]
fn a_failed_connection_is_reported_with_the_url() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url: Url = format!("http://{free}").parse().unwrap();
    let answer = block_on(Client::new(url.clone()).send(Method::GET, "/", vec![]));
    assert_eq!(answer.unwrap_err().to_string(), format!("cannot connect to {url}"));
}

/// The request lines of what is asked, and the bodies.
fn asked(ask: impl AsyncFnOnce(Client)) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let seen = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let mut seen = Vec::new();
        loop {
            let (mut line, mut length) = (String::new(), 0);
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return seen;
            }
            let first = line.trim_end_matches(" HTTP/1.1\r\n").to_owned();
            line.clear();
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body = String::from_utf8(body).unwrap();
            seen.push(format!("{first} {body}").trim_end().to_owned());
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull";
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    block_on(ask(Client::new(url)));
    seen.join().unwrap()
}

#[test]
fn every_route_has_its_method() {
    use vivarium_api_types::{
        BranchRequest, CheckpointRequest, CompleteReply, ContextSpec, ProbeRequest,
    };
    use vivarium_api_types::{CallAnswer, CallError, ContinueRequest, SessionPatch, SessionState};
    use vivarium_api_types::{
        Change, FileChange, FilePage, Page, PtySize, RollbackRequest, SessionQuery,
    };
    let seen = asked(async |mut client| {
        // None of the answers is the route's: only what is asked counts here.
        let c = &mut client;
        drop(c.host().await);
        drop(c.tenants().await);
        drop(c.create_session(&Default::default()).await);
        drop(c.session("s").await);
        let query = SessionQuery {
            page: Page { limit: 5, after: Some("a b".into()) },
            state: vec![SessionState::Idle, SessionState::Running],
            metadata: [("for".into(), "a test".into())].into(),
        };
        drop(c.list_sessions(&query).await);
        let patch = SessionPatch { idle_timeout_ms: Change::Remove, ..Default::default() };
        drop(c.update_session("s", &patch).await);
        c.delete_session("s").await.unwrap();
        drop(c.interrupt("s").await);
        drop(c.reset("s").await);
        drop(c.keepalive("s").await);
        drop(c.suspend_session("s").await);
        drop(c.resume_session("s").await);
        let request = BranchRequest { count: 3, checkpoint: Some("a".into()) };
        drop(c.branch_session("s", &request).await);
        drop(c.make_checkpoint("s", &CheckpointRequest { name: Some("a".into()) }).await);
        drop(c.list_checkpoints("s").await);
        drop(c.diff_checkpoints("s", "a", None).await);
        drop(c.diff_checkpoints("s", "a", Some("b")).await);
        c.delete_checkpoint("s", "a").await.unwrap();
        drop(c.roll_back("s", &RollbackRequest { checkpoint: "a".into() }).await);
        drop(c.imageable("s").await);
        drop(c.list_contexts("s").await);
        drop(c.open_context("s", &ContextSpec { id: Some("a".into()) }).await);
        drop(c.context("s", "a").await);
        c.delete_context("s", "a").await.unwrap();
        drop(c.reset_context("s", "a").await);
        drop(c.interrupt_context("s", "a").await);
        drop(c.create_preview("s", 80).await);
        let probe = ProbeRequest { code: "a".into(), ..ProbeRequest::default() };
        drop(c.assist::<CompleteReply>("s", &probe).await);
        drop(c.execute("s", &Default::default(), true).await);
        drop(c.command("s", &Default::default()).await);
        drop(c.run(&Default::default()).await);
        drop(c.list_executions("s", &Page { limit: 2, after: Some("9".into()) }).await);
        drop(c.execution("s", "3").await);
        c.signal("s", "3", "SIGTERM").await.unwrap();
        drop(c.calls("s", "3").await);
        let answer = CallAnswer {
            error: Some(CallError { message: "no".into(), data: None }),
            ..CallAnswer::default()
        };
        c.answer_call("s", "3", "1", &answer).await.unwrap();
        let answers = [("1".to_owned(), answer)].into();
        drop(c.continue_execution("s", "3", &ContinueRequest { answers }).await);
        c.resize("s", "3", PtySize { columns: 80, rows: 24 }).await.unwrap();
        drop(c.write_stdin("s", "3", b"typed".to_vec(), true).await);
        drop(c.list_files("s", &FilePage::default()).await);
        drop(c.stat_file("s", "/tmp/a").await);
        drop(c.write_file("s", "a", UploadKind::File, &b"text"[..], Some(4)).await);
        drop(c.write_file("s", "", UploadKind::Archive, &b"tar"[..], Some(3)).await);
        drop(c.make_directory("s", "d").await);
        let change = FileChange { move_to: Some("b".into()), ..Default::default() };
        drop(c.change_file("s", "a", &change).await);
        c.delete_file("s", "a").await.unwrap();
    });
    let wanted = [
        "GET /v1/host",
        "GET /metrics/tenants",
        "POST /v1/sessions {}",
        "GET /v1/sessions/s",
        "GET /v1/sessions?limit=5&after=a%20b&state=idle&state=running&metadata%5Bfor%5D=a%20test",
        "PATCH /v1/sessions/s {\"idle_timeout_ms\":null}",
        "DELETE /v1/sessions/s",
        "POST /v1/sessions/s/interrupt",
        "POST /v1/sessions/s/reset",
        "POST /v1/sessions/s/keepalive",
        "POST /v1/sessions/s/suspend",
        "POST /v1/sessions/s/resume",
        "POST /v1/sessions/s/branch {\"count\":3,\"checkpoint\":\"a\"}",
        "POST /v1/sessions/s/checkpoints {\"name\":\"a\"}",
        "GET /v1/sessions/s/checkpoints",
        "GET /v1/sessions/s/checkpoints/a/diff",
        "GET /v1/sessions/s/checkpoints/a/diff?from=b",
        "DELETE /v1/sessions/s/checkpoints/a",
        "POST /v1/sessions/s/rollback {\"checkpoint\":\"a\"}",
        "GET /v1/sessions/s/imageable",
        "GET /v1/sessions/s/contexts",
        "POST /v1/sessions/s/contexts {\"id\":\"a\"}",
        "GET /v1/sessions/s/contexts/a",
        "DELETE /v1/sessions/s/contexts/a",
        "POST /v1/sessions/s/contexts/a/reset",
        "POST /v1/sessions/s/contexts/a/interrupt",
        "POST /v1/sessions/s/previews {\"port\":80}",
        "POST /v1/sessions/s/complete {\"code\":\"a\"}",
        "POST /v1/sessions/s/execute?create=true {\"code\":\"\",\"keep\":\"both\"}",
        "POST /v1/sessions/s/commands {\"keep\":\"both\"}",
        "POST /v1/run {\"keep\":\"both\"}",
        "GET /v1/sessions/s/executions?limit=2&after=9",
        "GET /v1/sessions/s/executions/3",
        "POST /v1/sessions/s/executions/3/signal {\"signal\":\"SIGTERM\"}",
        "GET /v1/sessions/s/executions/3/calls",
        "POST /v1/sessions/s/executions/3/calls/1 {\"error\":{\"message\":\"no\"}}",
        "POST /v1/sessions/s/executions/3/continue {\"answers\":{\"1\":{\"error\":{\"message\":\"no\"}}}}",
        "POST /v1/sessions/s/executions/3/resize {\"columns\":80,\"rows\":24}",
        "POST /v1/sessions/s/executions/3/stdin?close=true typed",
        "GET /v1/sessions/s/files?path=&recursive=false&limit=100",
        "GET /v1/sessions/s/files/%2Ftmp/a?info=true",
        "PUT /v1/sessions/s/files/a text",
        "PUT /v1/sessions/s/files?unpack=true tar",
        "PUT /v1/sessions/s/files/d?directory=true",
        "PATCH /v1/sessions/s/files/a {\"move_to\":\"b\",\"replace\":false}",
        "DELETE /v1/sessions/s/files/a",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn a_write_that_was_given_up_tells_how_much_was_taken() {
    let problem = "{\"code\": \"stdin_full\", \"detail\": \"the command has read nothing for \
                   30 s; 131072 bytes were written\"}";
    let server = server("429 Too Many Requests", problem, 1);
    let mut client = Client::new(server.url);
    let error = block_on(client.write_stdin("s", "3", vec![0; 200_000], false)).unwrap_err();
    assert_eq!(error.written_bytes(), Some(131_072), "{error}");
}
