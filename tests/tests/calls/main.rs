//! Calls out of the sandbox: code calls functions of its client's, by events and in rounds, and each end of a
//! call is the documented one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bounds;
mod counted;
mod ends;
mod flow;
mod grants;
mod hostile;
mod kept;
mod rounds;
mod servers;

use serde_json::{Value, json};
use vivarium_tests::Session;
use vivarium_tests::events::{Event, Events};
use vivarium_tests::http::Response;

/// Two tools: one that takes an integer, and one that takes anything.
fn tools() -> Value {
    json!([
        {
            "name": "add",
            "description": "Adds one.",
            "parameters": {"properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
        {"name": "echo"},
    ])
}

const IMPORT: &str = "import vivarium\nfrom vivarium import tools\n";

/// A request that may call both.
fn calling(code: &str) -> Value {
    json!({"code": format!("{IMPORT}{code}"), "tools": tools()})
}

/// Starts code, and follows it.
fn start(session: &Session<'_>, code: &str) -> Events {
    start_with(session, &calling(code))
}

fn start_with(session: &Session<'_>, request: &Value) -> Events {
    let mut events = session.stream_with("/execute", &[], request);
    events.expect("started");
    events
}

/// Answers a call.
fn answer(session: &Session<'_>, call: &Event, body: &Value) -> Response {
    let at = |name: &str| call.data[name].as_str().unwrap();
    answer_at(session, at("execution_id"), at("call_id"), body)
}

fn answer_at(session: &Session<'_>, execution: &str, call: &str, body: &Value) -> Response {
    session.request("POST", &format!("/executions/{execution}/calls/{call}"), Some(body))
}

fn result(session: &Session<'_>, call: &Event, value: &Value) {
    let answered = answer(session, call, &json!({ "result": value }));
    assert_eq!(answered.status, 204, "{}", String::from_utf8_lossy(&answered.body));
}

/// Answers each call with what it was given, to the end. Returns the last event, and how many calls there were.
fn echo_all(session: &Session<'_>, events: &mut Events) -> (Value, usize) {
    let mut calls = 0;
    while let Some(event) = events.next_event() {
        match event.name.as_str() {
            "call" => {
                calls += 1;
                result(session, &event, &event.data["arguments"].clone());
            }
            "done" => return (event.data, calls),
            _ => {}
        }
    }
    panic!("the stream has ended without an end");
}

/// The next event of this name, whatever comes before.
fn until(events: &mut Events, name: &str) -> Event {
    loop {
        let event = events.next_event().unwrap_or_else(|| panic!("no {name}"));
        if event.name == name {
            return event;
        }
    }
}
