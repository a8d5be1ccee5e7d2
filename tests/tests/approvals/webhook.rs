//! A web service that is told of calls that wait, played by the test, and judged by an implementation
//! of Standard Webhooks that is not ours.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::tenants::{RELOADED, Token, reload};
use vivarium_tests::{Daemon, program, wait};

use super::{allow, approval, ask, decide, done, make, setup, until};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request, and where to answer it.
struct Request {
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    stream: TcpStream,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn answer(mut self, status: &str, body: &str) {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        drop(self.stream.write_all(format!("{head}{body}").as_bytes()));
    }

    /// Whether the outside judge takes the signature.
    fn is_genuine(&self) -> bool {
        let code = "import json, sys\n\
                    from standardwebhooks.webhooks import Webhook\n\
                    headers, body = json.load(sys.stdin)\n\
                    Webhook(sys.argv[1]).verify(body, headers)";
        let python = host::tool("python").unwrap();
        let mut judge = Command::new(python)
            .args(["-c", code, SECRET])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let headers: serde_json::Map<_, _> =
            self.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let body = String::from_utf8(self.body.clone()).unwrap();
        let input = json!([headers, body]).to_string();
        judge.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        judge.wait().unwrap().success()
    }
}

fn read(stream: TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, headers, body, stream })
}

/// A daemon that tells a service of the test's; what that is sent; and the tenant that has to ask.
fn daemon(rule: &str, more: &str) -> (Daemon, Receiver<Request>, Token, tempfile::TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if sender.send(read(stream.unwrap())).is_err() {
                return;
            }
        }
    });
    let (filtered, received) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(request) = requests.recv() {
            if let Some(request) = request
                && filtered.send(request).is_err()
            {
                return;
            }
        }
    });
    let dir = program::temp_dir();
    let secret = dir.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let webhook = format!(
        "webhook_url = \"http://localhost:{port}/hook\"\nwebhook_secret_file = {secret:?}\n\
         webhook_allow_addresses = [\"127.0.0.1\"]\n{more}"
    );
    let (setup, one, _) = setup(rule);
    (setup.config("approval", &webhook).start(), received, one, dir)
}

/// As after somebody who edits as root: the daemon's user cannot read it.
fn lock(path: &Path, is_locked: bool) {
    let mode = if is_locked { 0o000 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn secret_that_the_daemon_can_not_read_is_noticed_at_start_and_reload() {
    let dir = program::temp_dir();
    let secret = dir.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    lock(&secret, true);
    let webhook = format!(
        "webhook_url = \"https://hook.example\"\nwebhook_secret_file = {secret:?}\n\
         timeout = \"1m\""
    );
    let configured = || setup("").0.config("approval", &webhook);
    let (status, log) = configured().try_start().unwrap_err();
    let named = format!("cannot read {} (fix: ", secret.display());
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("approval.webhook_secret_file") && log.contains(&named), "{log}");
    // The control, and then a reload.
    lock(&secret, false);
    let daemon = configured().start();
    lock(&secret, true);
    let config = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    let other = config.replace("timeout = \"1m\"", "timeout = \"2m\"");
    reload(&daemon, &other, "not reloaded");
    let status = Client::connect(&daemon.unix()).json("GET", "/v1/admin/status", None);
    let why = status.expect_success()["failed_reload"].clone();
    assert!(why["error"].as_str().unwrap().contains(&named), "{why}");
    assert!(!daemon.log().contains("configuration reloaded"));
    fs::write(&secret, "whsec_short").unwrap();
    lock(&secret, false);
    reload(&daemon, &other, "base64");
    assert!(!daemon.log().contains("whsec_short"));
    fs::write(&secret, SECRET).unwrap();
    reload(&daemon, &other, RELOADED);
    daemon.stop_and_check();
}

fn next(requests: &Receiver<Request>) -> Request {
    requests.recv_timeout(wait::DEADLINE).unwrap()
}

fn started(at: &Endpoint, one: &Token, code: &str) -> (vivarium_tests::events::Events, String) {
    ask(at, one, "a", &json!({ "code": code }))
}

#[test]
fn signed_requests_are_sent_until_one_is_answered_and_the_answer_decides() {
    if !host::has(&[Requirement::StandardWebhooks]) {
        return;
    }
    let (daemon, requests, one, _dir) = daemon("", "");
    let at = daemon.unix();
    make(&at, &one, "a");
    // An error, then an answer that decides.
    let (mut events, id) = started(&at, &one, "'s3cret'");
    let first = next(&requests);
    assert_eq!((&*first.path, first.header("webhook-id")), ("/hook", id.as_str()));
    assert!(first.is_genuine());
    let body = first.json();
    assert_eq!(body["type"], "approval.requested");
    assert_eq!((&body["data"]["id"], &body["data"]["tenant"]), (&json!(id), &json!("one")));
    assert_eq!(body["data"]["execution"]["code"], Value::Null);
    assert_eq!(body["data"]["execution"]["code_bytes"], 8);
    assert!(!String::from_utf8_lossy(&first.body).contains("s3cret"));
    first.answer("500 Oops", r#"{"decision": "allow"}"#);
    let second = next(&requests);
    assert_eq!(approval(&at, &id)["state"], "pending", "an error decides nothing");
    assert_eq!(second.header("webhook-id"), id, "the same message");
    assert!(second.is_genuine());
    // The judge judges.
    let mut forged = second.json();
    forged["data"]["tenant"] = json!("other");
    let copy = Request {
        path: String::new(),
        headers: second.headers.clone(),
        body: forged.to_string().into_bytes(),
        stream: second.stream.try_clone().unwrap(),
    };
    assert!(!copy.is_genuine());
    second.answer("200 OK", r#"{"decision": "allow", "remember": "tenant", "reason": "fine"}"#);
    assert_eq!(done(&mut events)["status"], "ok");
    let decided = approval(&at, &id);
    assert_eq!((&decided["by"], &decided["reason"]), (&json!("webhook"), &json!("fine")));
    assert_eq!(decided["remember"], "nothing", "no more than the rule says");

    let (mut events, _) = started(&at, &one, "1");
    next(&requests).answer("200 OK", r#"{"decision": "deny", "reason": "no"}"#);
    let outcome = done(&mut events);
    assert_eq!(outcome["cause"], "approval_denied");
    assert!(outcome["detail"].as_str().unwrap().ends_with("no"), "{outcome}");

    // A redirect is not followed, too long an answer not read; 202 leaves it to the queue.
    let (mut events, id) = started(&at, &one, "2");
    next(&requests).answer("307 Elsewhere\r\nLocation: /other", "");
    let again = next(&requests);
    assert_eq!(again.path, "/hook");
    again.answer(
        "200 OK",
        &format!("{{\"decision\": \"allow\", \"more\": \"{}\"}}", "x".repeat(1 << 20)),
    );
    let again = next(&requests);
    assert_eq!(approval(&at, &id)["state"], "pending");
    again.answer("202 Accepted", r#"{"decision": "allow"}"#);
    wait::until_true("it to be accepted", || {
        let metrics = vivarium_tests::http::Client::connect(&at).json("GET", "/metrics", None);
        let text = String::from_utf8(metrics.body).unwrap();
        text.contains("vivarium_approval_webhook_requests_total{outcome=\"accepted\"} 1")
    });
    assert_eq!(approval(&at, &id)["state"], "pending");
    allow(&at, &id);
    assert_eq!(done(&mut events)["status"], "ok");
    daemon.stop_and_check();
}

#[test]
fn service_that_hangs_or_answers_late_decides_nothing_and_gets_code_if_it_is_to() {
    let (daemon, requests, one, _dir) = daemon("timeout = \"4s\"", "webhook_code = true");
    let at = daemon.unix();
    make(&at, &one, "a");
    let (mut events, id) = started(&at, &one, "6 * 7");
    let hung = next(&requests);
    assert_eq!(hung.json()["data"]["execution"]["code"], "6 * 7");
    assert_eq!(done(&mut events)["cause"], "approval_timeout");
    hung.answer("200 OK", r#"{"decision": "allow"}"#);
    until(&at, &id, "timed_out");
    decide(&at, &id, &json!({"decision": "allow"})).expect_problem(409, "approval_ended");
    // Somebody decides in the queue meanwhile.
    let (mut events, id) = started(&at, &one, "1");
    let hung = next(&requests);
    allow(&at, &id);
    assert_eq!(done(&mut events)["status"], "ok");
    hung.answer("200 OK", r#"{"decision": "deny"}"#);
    daemon.stop_and_check();
}
