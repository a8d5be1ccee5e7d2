//! The older transport, as vLLM uses it: events at `GET /sse`, messages to `POST /messages`.

use std::process::Command;

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup, program, wait};

fn switched_on() -> Setup {
    Setup::default().config("dialects", "mcp_legacy_sse = true")
}

/// A connection, and where its messages go.
struct Connection {
    at: Endpoint,
    token: Option<String>,
    events: Events,
    endpoint: String,
}

impl Connection {
    fn open(daemon: &Daemon, token: Option<&Token>) -> Self {
        let (at, token) = (daemon.unix(), token.map(|token| format!("Bearer {}", token.text)));
        let headers: Vec<_> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
        let mut events = Events::open(&at, "GET", "/sse", &headers, None);
        let endpoint = events.expect("endpoint").data.as_str().unwrap().to_owned();
        Self { at, token, events, endpoint }
    }

    fn post(&self, message: &Value) -> Response {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(self.token.iter().map(|token| ("Authorization", token.as_str())));
        let body = message.to_string().into_bytes();
        Client::connect(&self.at).send("POST", &self.endpoint, &headers, Some(&body))
    }

    fn call(&self, id: u64, code: &str) -> Response {
        let params = json!({"name": "python", "arguments": {"code": code}});
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    /// What code comes to.
    #[track_caller]
    fn python(&mut self, code: &str) -> String {
        assert_eq!(self.call(7, code).status, 202);
        let answer = self.events.expect("message").data;
        assert_eq!(answer["id"], 7, "{answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

fn until_running(daemon: &Daemon) {
    wait::until_true("the code runs", || sessions(daemon, "?state=running").len() == 1);
}

/// The ids of sessions.
fn sessions(daemon: &Daemon, query: &str) -> Vec<Value> {
    let path = format!("/v1/sessions{query}");
    let listed = daemon.request("GET", &path, None).expect_success();
    listed["sessions"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
}

#[test]
fn vllm_runs_python() {
    if !host::has(&[Requirement::McpSdk]) {
        return;
    }
    let daemon = switched_on().start();
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let mut python = Command::new(host::tool("python").unwrap());
    let script = program::workspace().join("tests/tests/mcp/vllm.py");
    python.arg(script).arg(format!("http://127.0.0.1:{port}/sse"));
    let said = program::finish(&mut python, "").expect_code(0).stdout();
    assert_eq!(said, "well\n");
    daemon.stop_and_check();
}

#[test]
fn session_ends_with_its_connection_and_so_does_its_code() {
    let daemon = switched_on().start();
    let mut connection = Connection::open(&daemon, None);
    assert_eq!(connection.python("6 * 7"), "[result] 42");
    assert_eq!(sessions(&daemon, "").len(), 1);
    assert_eq!(connection.call(1, "while True: pass").status, 202);
    until_running(&daemon);
    drop(connection);
    wait::until_true("the session ends", || sessions(&daemon, "").is_empty());
    daemon.stop_and_check();
}

#[test]
fn code_that_is_cancelled_ends_and_is_not_answered() {
    let daemon = switched_on().start();
    let mut connection = Connection::open(&daemon, None);
    let code = "x = 1\nopen('began', 'w').close()\nwhile True: pass";
    assert_eq!(connection.call(1, code).status, 202);
    until_running(&daemon);
    let session = sessions(&daemon, "")[0].as_str().unwrap().to_owned();
    let file = format!("/v1/sessions/{session}/files/began");
    wait::until_true("its file", || daemon.request("GET", &file, None).status == 200);
    let cancelled = |id: u64| {
        let params = json!({"requestId": id});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    };
    // The control: there is no such request.
    assert_eq!(connection.post(&cancelled(2)).status, 202);
    assert_eq!(connection.call(3, "x").status, 202);
    assert_eq!(connection.post(&cancelled(1)).status, 202);
    let answer = connection.events.expect("message").data;
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(3), &json!(false)),
        "{answer}"
    );
    daemon.stop_and_check();
}

#[test]
fn connection_takes_messages_of_its_own_tenant_alone() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let mut mine = Connection::open(&daemon, Some(&owner));
    let mut theirs = Connection::open(&daemon, Some(&stranger));
    let own = std::mem::replace(&mut theirs.endpoint, mine.endpoint.clone());
    assert_eq!(theirs.call(1, "1").status, 404);
    theirs.endpoint = "/messages?session_id=none".to_owned();
    assert_eq!(theirs.call(1, "1").status, 404);
    theirs.endpoint = own;
    assert_eq!(theirs.python("1"), "[result] 1");
    assert_eq!(mine.python("2"), "[result] 2");
    mine.token = None;
    mine.call(1, "1").expect_problem(401, "unauthenticated");
    let refused = Client::connect(&daemon.unix()).send("GET", "/sse", &[], None);
    refused.expect_problem(401, "unauthenticated");
    daemon.stop_and_check();
}

#[test]
fn nonsense_is_refused_and_the_connection_goes_on() {
    let daemon = switched_on().start();
    let mut connection = Connection::open(&daemon, None);
    for nonsense in [json!([]), json!("x"), json!({"id": 1}), json!({"jsonrpc": "2.0", "id": {}})] {
        assert_eq!(connection.post(&nonsense).status, 400, "{nonsense}");
    }
    for (method, params, code) in [
        ("nonsense", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": "run_python"}), -32602),
        ("tools/call", json!({"name": "python", "arguments": {"code": 1}}), -32602),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        assert_eq!(connection.post(&message).status, 202);
        let answer = connection.events.expect("message").data;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    assert_eq!(connection.python("1"), "[result] 1");
    daemon.stop_and_check();
}

#[test]
fn requests_that_nobody_can_answer_yet_are_bounded() {
    let daemon = switched_on().start();
    let connection = Connection::open(&daemon, None);
    let statuses: Vec<_> =
        (0..64).map(|id| connection.call(id, "while True: pass").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(statuses[0], 202);
    drop(connection);
    wait::until_true("the session ends", || sessions(&daemon, "").is_empty());
    daemon.stop_and_check();
}

#[test]
fn daemon_stops_while_a_client_listens() {
    let daemon = switched_on().start();
    let mut connection = Connection::open(&daemon, None);
    assert_eq!(connection.python("1"), "[result] 1");
    daemon.stop_and_check();
    assert_eq!(connection.events.next_event(), None);
}
