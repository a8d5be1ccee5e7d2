//! Calls that wait until somebody allows or denies them: nothing runs that nobody allowed, whoever
//! asks, waits, decides or goes away.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod deciders;
mod egress;
mod executions;
mod killed;
mod limits;
mod tightening;
mod webhook;

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup, wait};

/// A daemon whose tenant `one` has to ask, under these further keys, and `other` has not.
fn setup(rule: &str) -> (Setup, Token, Token) {
    let (one, other) = (Token::new(), Token::new());
    let asks = format!("[tenant.approval]\nexecutions = \"ask\"\n{rule}");
    let tenants = two(&entry("one", &one, &asks), &entry("other", &other, ""));
    let setup = Setup::default().config("session", "queue_depth = 1000");
    (setup.config("[tenant]", &tenants), one, other)
}

fn daemon(rule: &str) -> (Daemon, Token, Token) {
    let (setup, one, other) = setup(rule);
    (setup.start(), one, other)
}

fn make(at: &Endpoint, token: &Token, id: &str) {
    assert_eq!(token.ask(at, "POST", "/v1/sessions", Some(&json!({ "id": id }))).status, 201);
}

/// Begins to run code, which is to wait for approval; its stream, and the approval's id.
fn ask(at: &Endpoint, token: &Token, session: &str, body: &Value) -> (Events, String) {
    ask_at(at, token, &format!("/v1/sessions/{session}/execute"), body)
}

fn ask_at(at: &Endpoint, token: &Token, path: &str, body: &Value) -> (Events, String) {
    let authorization = format!("Bearer {}", token.text);
    let headers = [("Authorization", authorization.as_str())];
    let mut events = Events::open(at, "POST", path, &headers, Some(body));
    assert_eq!(events.head.status, 200, "{:?}", events.head);
    let awaiting = events.expect("awaiting_approval");
    let id = awaiting.data["approval_id"].as_str().unwrap().to_owned();
    (events, id)
}

/// Decides as the administrator, which the test is on the Unix socket.
fn decide(at: &Endpoint, id: &str, decision: &Value) -> Response {
    Client::connect(at).json("POST", &format!("/v1/approvals/{id}"), Some(decision))
}

fn allow(at: &Endpoint, id: &str) {
    let decided = decide(at, id, &json!({"decision": "allow"})).expect_success();
    assert_eq!(decided["state"], "allowed");
}

/// What became of it, once nothing more does.
fn done(events: &mut Events) -> Value {
    events.rest().pop().unwrap().data
}

fn approval(at: &Endpoint, id: &str) -> Value {
    Client::connect(at).json("GET", &format!("/v1/approvals/{id}"), None).expect_success()
}

/// Waits until an approval has this state.
fn until(at: &Endpoint, id: &str, state: &str) {
    wait::until_true(state, || approval(at, id)["state"] == state);
}
