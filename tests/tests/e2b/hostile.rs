//! Tokens, ids and signatures of others; envelopes that are none; clients that leave.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};
use vivarium_tests::{Daemon, wait};

use super::{Api, DAEMON, ENVD, INTERPRETER, Sandbox, envelope, switched_on};

const LIST: &str = "/process.Process/List";

fn with_two() -> (Daemon, Token, Token) {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    (switched_on().config("[tenant]", &tenants).start(), owner, stranger)
}

fn inside(sandbox: &Sandbox, port: &str, method: &str, path: &str, token: (&str, &str)) -> u16 {
    let more = [token, ("Content-Type", "application/json")];
    sandbox.send(port, method, path, &more, Some(b"{}")).status
}

#[test]
fn nothing_of_another_tenants_opens_anything() {
    let (daemon, owner, stranger) = with_two();
    let (mine, theirs) = (Api::of(&daemon, &owner.text), Api::of(&daemon, &stranger.text));
    let (own, other) = (mine.create(&json!({})), theirs.create(&json!({})));
    let path = format!("/sandboxes/{}", own.id);
    for (method, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/connect"),
        ("POST", "/timeout"),
        ("POST", "/pause"),
        ("POST", "/refreshes"),
        ("GET", "/metrics"),
    ] {
        let body = json!({"timeout": 5});
        let answer = theirs.ask(method, &format!("{path}{rest}"), Some(&body));
        assert_eq!(answer.status, 404, "{method} {rest}");
    }
    for key in ["", "wrong", own.envd.as_str()] {
        let nobody = Api::of(&daemon, key);
        assert_eq!(nobody.ask("GET", "/v2/sandboxes", None).status, 401, "{key}");
        assert_eq!(nobody.ask("POST", "/v2/sandboxes", Some(&json!({}))).status, 401, "{key}");
    }
    // The positive controls, and what is one byte away from them.
    let access = |token| inside(&own, ENVD, "POST", LIST, ("X-Access-Token", token));
    assert_eq!(access(&own.envd), 200);
    let contexts = |name, token| inside(&own, INTERPRETER, "GET", "/contexts", (name, token));
    assert_eq!(contexts("E2B-Traffic-Access-Token", &own.traffic), 200);
    let near = format!("{}x", own.envd);
    for token in [other.envd.as_str(), other.traffic.as_str(), &own.traffic, &owner.text, &near, ""]
    {
        assert_eq!(access(token), 401, "{token}");
    }
    for token in [other.envd.as_str(), other.traffic.as_str(), &owner.text, ""] {
        assert_eq!(contexts("E2B-Traffic-Access-Token", token), 401, "{token}");
    }
    // Their token, with the id of this sandbox by the name of the host.
    let host = format!("{ENVD}-{}.e2b.example", own.id);
    let by_host = |token: &str| {
        let headers = [("Host", host.as_str()), ("X-Access-Token", token)];
        Client::connect(&own.at).send("GET", "/health", &headers, None).status
    };
    assert_eq!((by_host(&own.envd), by_host(&other.envd)), (204, 401));
    // Without a name, each token finds its own.
    let unnamed = |token: &str| {
        let headers = [("X-Access-Token", token), ("Content-Type", "application/json")];
        Client::connect(&own.at).send("POST", LIST, &headers, Some(b"{}")).status
    };
    assert_eq!((unnamed(&own.envd), unnamed(&other.envd)), (200, 200));
    for token in [own.traffic.as_str(), &owner.text, &near, ""] {
        assert_eq!(unnamed(token), 401, "{token}");
    }
    let log = daemon.log();
    for secret in [&own.envd, &own.traffic, &owner.text, &stranger.text] {
        assert!(!log.contains(secret.as_str()), "a token is in the log");
    }
    daemon.stop_and_check();
}

/// The tokens of a sandbox stand for the one that was shown: what may only read gets no more by
/// connecting, and what is withdrawn opens nothing.
#[test]
fn a_sandboxs_tokens_are_worth_what_was_shown() {
    let (own, reader) = (Token::new(), Token::new());
    let more = format!(
        "[[tenant.token]]\nhash = {:?}\nscopes = [\"read\"]\nname = \"reads\"",
        reader.hash
    );
    let tokens = entry("own", &own, &more);
    let daemon = switched_on().config("[tenant]", &tokens).start();
    let (mine, reading) = (Api::of(&daemon, &own.text), Api::of(&daemon, &reader.text));
    let sandbox = mine.create(&json!({}));
    assert_eq!(reading.ask("POST", "/v2/sandboxes", Some(&json!({}))).status, 403);
    let connect = format!("/v2/sandboxes/{}/connect", sandbox.id);
    let opened = reading.ask("POST", &connect, Some(&json!({})));
    let read = reading.opened(&opened.expect_success());
    assert_ne!(read.envd, sandbox.envd);
    let may = |of: &Sandbox| of.execute(&json!({"code": "1"})).status;
    assert_eq!((may(&sandbox), may(&read)), (200, 403));
    assert_eq!(inside(&read, ENVD, "POST", LIST, ("X-Access-Token", &read.envd)), 200);
    let text = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    let text = text.replace(&own.hash, &Token::new().hash);
    reload(&daemon, &text, RELOADED);
    assert_eq!(may(&sandbox), 401);
    daemon.stop_and_check();
}

fn signed(sandbox: &Sandbox, path: &str, operation: &str, expiration: Option<i64>) -> String {
    let end = expiration.map(|time| format!(":{time}")).unwrap_or_default();
    let text = format!("{path}:{operation}::{}{end}", sandbox.envd);
    let signature = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
    let signature = signature.replace('+', "%2B").replace('/', "%2F");
    let end = expiration.map(|time| format!("&signature_expiration={time}")).unwrap_or_default();
    format!("/files?path={path}&signature={signature}{end}")
}

fn get(sandbox: &Sandbox, path: &str) -> Response {
    Client::connect(&sandbox.at).send("GET", path, &[], None)
}

#[test]
fn a_signature_is_for_one_file_and_one_way_and_one_time() {
    let (daemon, owner, stranger) = with_two();
    let sandbox = Api::of(&daemon, &owner.text).create(&json!({}));
    let other = Api::of(&daemon, &stranger.text).create(&json!({}));
    for (of, content) in [(&sandbox, "mine"), (&other, "theirs")] {
        let token =
            [("X-Access-Token", of.envd.as_str()), ("Content-Type", "application/octet-stream")];
        let written = of.send(ENVD, "POST", "/files?path=f", &token, Some(content.as_bytes()));
        assert_eq!(written.status, 200);
    }
    // Without the name of a sandbox, each finds its own.
    let (past, future) = (Some(1), Some(4_000_000_000));
    assert_eq!(get(&sandbox, &signed(&sandbox, "f", "read", None)).body, b"mine");
    assert_eq!(get(&sandbox, &signed(&other, "f", "read", future)).body, b"theirs");
    let good = signed(&sandbox, "f", "read", future);
    for bad in [
        signed(&sandbox, "f", "read", past),
        signed(&sandbox, "f", "write", None),
        good.replace("4000000000", "4000000001"),
        good.replace("path=f", "path=g"),
        good.replace("path=f", "path=%2Ftmp%2Ff"),
        good.replace("signature=v1_", "signature=v2_"),
        good.clone() + "&username=user",
        "/files?path=f".to_owned(),
        "/files?path=f&signature=".to_owned(),
    ] {
        assert_eq!(get(&sandbox, &bad).status, 401, "{bad}");
    }
    // It is no token for anything else, nor for the sandbox of another.
    let (_, query) = good.split_once('?').unwrap();
    for path in [format!("{LIST}?{query}"), format!("/health?{query}")] {
        let answer = sandbox.send(ENVD, "GET", &path, &[], None);
        assert_eq!(answer.status, 401, "{path}");
    }
    assert_eq!(other.send(ENVD, "GET", &good, &[], None).status, 401);
    assert_eq!(sandbox.send(ENVD, "GET", &good, &[], None).body, b"mine");
    daemon.stop_and_check();
}

#[test]
fn envelopes_that_are_none_are_refused() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({}));
    let start = b"{\"process\": {\"cmd\": \"true\"}}";
    for method in
        ["process.Process/Start", "process.Process/Connect", "process.Process/StreamInput"]
    {
        for body in [
            Vec::new(),
            b"{}".to_vec(),
            vec![0, 0xff, 0xff, 0xff, 0xff],
            [&[0, 0, 0, 0, 200][..], start].concat(),
            envelope(1, start),
            envelope(7, start),
            envelope(0, b"[]"),
            envelope(0, b"{\"process\": 1}"),
            envelope(0, &[0xff; 16]),
        ] {
            let answer = sandbox.stream_of(method, &body);
            // A stream without a message says nothing, and nothing was wrong with it.
            let is_empty_input = body.is_empty() && method.ends_with("StreamInput");
            assert_eq!(answer.status, 200, "{method} {body:?}");
            let (events, end) = super::messages(&answer.body);
            if !is_empty_input {
                assert!(events.is_empty(), "{method} {body:?}: {events:?}");
                assert!(end["error"]["code"].is_string(), "{method} {body:?}: {end}");
            }
        }
    }
    for body in ["", "[]", "{\"path\": 1}", "{\"path\":", "null"] {
        let more =
            [("X-Access-Token", sandbox.envd.as_str()), ("Content-Type", "application/json")];
        let path = "/filesystem.Filesystem/MakeDir";
        let answer = sandbox.send(ENVD, "POST", path, &more, Some(body.as_bytes()));
        assert!((400..500).contains(&answer.status), "{body}: {answer:?}");
    }
    assert_eq!(sandbox.call("process.Process/Nothing", &json!({})).status, 501);
    assert_eq!(sandbox.call("other.Service/Method", &json!({})).json()["code"], "unimplemented");
}

/// A client that leaves interrupts its code, and leaves its processes as they are.
#[test]
fn who_leaves_interrupts_code_and_no_process() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({}));
    let leave = |port: &str, path: &str, kind: &str, body: &[u8]| {
        let headers = [("X-Access-Token", sandbox.envd.as_str()), ("Content-Type", kind)];
        let mut client = Client::connect(&sandbox.at);
        client.ask("POST", path, &sandbox.headers(port, &headers), Some(body));
        assert_eq!(client.receive_head().unwrap().status, 200);
        assert!(client.chunk().is_some());
    };
    let code = json!({"code": "import time; time.sleep(1000)"}).to_string();
    leave(INTERPRETER, "/execute", "application/json", code.as_bytes());
    let lines = sandbox.lines("6*7");
    assert_eq!(lines[1]["text"], "42");
    let spec = json!({"process": {"cmd": "sleep", "args": ["1000"]}, "stdin": false}).to_string();
    let spec = envelope(0, spec.as_bytes());
    leave(ENVD, "/process.Process/Start", "application/connect+json", &spec);
    let list = || sandbox.call("process.Process/List", &json!({})).expect_success();
    assert_eq!(list()["processes"].as_array().unwrap().len(), 1);
    let pid = list()["processes"][0]["pid"].clone();
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"});
    drop(sandbox.call("process.Process/SendSignal", &kill).expect_success());
    wait::until_true("it has ended", || list()["processes"] == Value::Array(Vec::new()));
}

/// A page cannot use the API of who has no tenants; a sandbox's own tokens are no cookies either.
#[test]
fn pages_of_another_origin_make_no_sandbox() {
    let daemon = DAEMON.hold();
    let api = Api::of(&daemon, "x");
    let ask = |name: &str, value: &str| {
        let headers = [(name, value), ("X-API-KEY", "x"), ("Content-Type", "application/json")];
        Client::connect(&api.at).send("POST", "/v2/sandboxes", &headers, Some(b"{}")).status
    };
    assert_eq!(ask("Origin", "http://evil.example"), 403);
    assert_eq!(ask("Host", "evil.example"), 403);
    assert_eq!(ask("Accept", "*/*"), 201);
}

#[test]
fn compressed_bodies_have_the_bound_of_others() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({}));
    let send = |coding: &str, body: &[u8]| {
        let more = [
            ("X-Access-Token", sandbox.envd.as_str()),
            ("Content-Type", "application/octet-stream"),
            ("Content-Encoding", coding),
        ];
        sandbox.send(ENVD, "POST", "/files?path=z", &more, Some(body)).status
    };
    let zipped = |len: usize| {
        use std::io::Write as _;
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(&vec![0; len]).unwrap();
        to.finish().unwrap()
    };
    assert_eq!(send("gzip", &zipped(1 << 20)), 200);
    assert_eq!(send("gzip", &zipped(64 << 20)), 413);
    assert_eq!(send("gzip", b"not gzip"), 400);
    assert_eq!(send("br", b"x"), 415);
}
