//! The API beside the sandboxes.

use serde_json::{Value, json};
use vivarium_tests::tenants::{Token, entry, two};

use super::{Api, DAEMON, ENVD, switched_on};

#[test]
fn sandboxes_are_made_found_and_ended() {
    let daemon = DAEMON.hold();
    let api = Api::of(&daemon, "anything");
    let metadata = json!({"for": "a & b", "number": "1"});
    let sandbox = api.create(&json!({"metadata": metadata, "envVars": {"A": "b"}}));
    let path = format!("/sandboxes/{}", sandbox.id);
    let told = api.ask("GET", &path, None).expect_success();
    assert_eq!((&told["metadata"], &told["state"]), (&metadata, &json!("running")));
    let list = |query: &str| {
        let listed = api.ask("GET", &format!("/v2/sandboxes?{query}"), None).expect_success();
        let ids = listed.as_array().unwrap().iter();
        ids.map(|told| told["sandboxID"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("metadata=for%3Da%252520%252526%252520b"), [sandbox.id.as_str()]);
    assert!(list("metadata=for%3Dnothing").is_empty());
    let health = |sandbox: &super::Sandbox| {
        let token = [("X-Access-Token", sandbox.envd.as_str())];
        sandbox.send(ENVD, "GET", "/health", &token, None).status
    };
    assert_eq!(health(&sandbox), 204);
    let again = api.ask("POST", &format!("/v2{path}/connect"), Some(&json!({"timeout": 90})));
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["envdAccessToken"], sandbox.envd.as_str());
    assert_eq!(api.ask("DELETE", &path, None).status, 204);
    assert_eq!(api.ask("DELETE", &path, None).status, 404);
    assert_eq!(health(&sandbox), 502);
}

/// The time is from now on, whatever the sandbox does; connecting adds to it and takes none.
#[test]
fn timeouts_are_deadlines() {
    let daemon = DAEMON.hold();
    let api = Api::of(&daemon, "anything");
    let sandbox = api.create(&json!({"timeout": 600}));
    let path = format!("/sandboxes/{}", sandbox.id);
    let secs = || {
        let native = daemon.request("GET", &format!("/v1/sessions/{}", sandbox.id), None);
        let native = native.expect_success();
        let time = |name: &str| native[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        time("deadline").duration_since(time("created_at")).as_secs()
    };
    assert!((580..=660).contains(&secs()), "{}", secs());
    let set = |rest: &str, timeout: u64| {
        let answer = api.ask("POST", &format!("{path}/{rest}"), Some(&json!({"timeout": timeout})));
        assert!(answer.status < 300, "{answer:?}");
    };
    set("connect", 60);
    assert!((580..=660).contains(&secs()), "{}", secs());
    set("connect", 1200);
    assert!(secs() > 1190, "{}", secs());
    set("timeout", 300);
    assert!(secs() < 400, "{}", secs());
}

#[test]
fn lists_come_in_parts() {
    let token = Token::new();
    let other = Token::new();
    let tenants = two(&entry("own", &token, ""), &entry("other", &other, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let api = Api::of(&daemon, &token.text);
    let made: Vec<String> = (0..3).map(|_| api.create(&json!({})).id).collect();
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page = api.ask("GET", &format!("/v2/sandboxes?limit=2{next}"), None);
        let told: Value = page.expect_success();
        let ids = told.as_array().unwrap().iter();
        found.extend(ids.map(|told| told["sandboxID"].as_str().unwrap().to_owned()));
        match page.header("x-next-token") {
            Some(token) => next = format!("&nextToken={token}"),
            None => break,
        }
    }
    // The newest comes first.
    found.reverse();
    assert_eq!(found, made);
    let theirs = Api::of(&daemon, &other.text).ask("GET", "/v2/sandboxes", None);
    assert_eq!(theirs.expect_success(), json!([]));
    daemon.stop_and_check();
}

/// Without a client that follows it, a process keeps no sandbox.
#[test]
fn who_follows_a_process_uses_its_sandbox() {
    let daemon =
        switched_on().config("session", "idle_timeout = \"3s\"\nreap_interval = \"100ms\"").start();
    let api = Api::of(&daemon, "anything");
    let process =
        |line: &str| json!({"process": {"cmd": "sh", "args": ["-c", line]}, "stdin": false});
    let left = api.create(&json!({}));
    let background = process("setsid sleep 1000 >/dev/null 2>&1 &");
    assert_eq!(left.stream("process.Process/Start", &background).1, json!({}));
    let followed = api.create(&json!({}));
    let (events, end) = followed.stream("process.Process/Start", &process("sleep 8; exit 7"));
    assert_eq!(end, json!({}));
    assert_eq!(events.last().unwrap()["event"]["end"]["exitCode"], 7, "{events:?}");
    assert_eq!(api.ask("GET", &format!("/sandboxes/{}", left.id), None).status, 404);
    assert_eq!(api.ask("GET", &format!("/sandboxes/{}", followed.id), None).status, 200);
    daemon.stop_and_check();
}

#[test]
fn what_is_not_offered_says_so() {
    let daemon = DAEMON.hold();
    let api = Api::of(&daemon, "anything");
    for (method, path) in [
        ("POST", "/sandboxes/i1/fork"),
        ("POST", "/sandboxes/i1/snapshots"),
        ("PUT", "/sandboxes/i1/network"),
        ("GET", "/v2/sandboxes/i1/logs"),
        ("GET", "/templates"),
        ("POST", "/v3/templates"),
        ("POST", "/v2/templates/t/builds/b"),
        ("GET", "/volumes"),
    ] {
        let answer = api.ask(method, path, Some(&json!({})));
        assert_eq!(answer.status, 501, "{method} {path}");
        let told = answer.json();
        assert!(told["code"] == 501 && told["message"].is_string(), "{told}");
    }
    for more in [json!({"autoPause": true}), json!({"network": {"denyOut": ["0.0.0.0/0"]}})] {
        assert_eq!(api.ask("POST", "/sandboxes", Some(&more)).status, 501, "{more}");
    }
    assert_eq!(api.ask("GET", "/nothing", None).status, 404);
}

/// A retry of a request whose answer was lost finds the sandbox.
#[test]
fn keys_make_one_sandbox() {
    let daemon = DAEMON.hold();
    let api = Api::of(&daemon, "anything");
    let create = |key: &str| {
        let headers =
            [("X-API-KEY", "x"), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
        let mut client = vivarium_tests::http::Client::connect(&api.at);
        let answer = client.send("POST", "/v2/sandboxes", &headers, Some(b"{}"));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["sandboxID"].as_str().unwrap().to_owned()
    };
    assert_eq!(create("one"), create("one"));
    assert_ne!(create("one"), create("two"));
}
