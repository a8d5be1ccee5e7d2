//! Progress, and clients that leave before the end.

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, wait};

use super::{Mcp, raw, switched_on};

fn begin(mcp: &Mcp, arguments: &Value, token: Option<&str>) -> Events {
    let mut params = json!({"name": "run_python", "arguments": arguments});
    if let Some(token) = token {
        params["_meta"] = json!({"progressToken": token});
    }
    let (message, headers) = mcp.request("tools/call", params);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Events::open(&mcp.at, "POST", "/mcp", &headers, Some(&message))
}

#[test]
fn progress_comes_while_code_runs_and_the_result_last() {
    let daemon = switched_on().start();
    let mcp = Mcp::of(&daemon);
    let session = mcp.session();
    let code = "import os, time\nprint('first', flush=True)\n\
                while not os.path.exists('go'): time.sleep(0.01)\nprint('second')\n7";
    let mut events = begin(&mcp, &json!({"code": code, "session": session}), Some("t1"));
    assert_eq!(events.head.header("content-type"), Some("text/event-stream"));
    let first = events.expect("message").data;
    assert_eq!(first["method"], "notifications/progress");
    assert_eq!(
        (&first["params"]["progressToken"], &first["params"]["message"]),
        (&json!("t1"), &json!("first\n"))
    );
    mcp.does("write_file", json!({"path": "go", "text": "", "session": session}));
    let rest = events.rest();
    let mut told = first["params"]["progress"].as_f64().unwrap();
    for event in &rest[..rest.len() - 1] {
        let progress = event.data["params"]["progress"].as_f64().unwrap();
        assert!(progress > told, "{rest:?}");
        told = progress;
    }
    let result = &rest.last().unwrap().data;
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!(1), &json!("complete")));
    let structured = &result["result"]["structuredContent"];
    assert_eq!(
        (&structured["stdout"], &structured["result"]["repr"]),
        (&json!("first\nsecond\n"), &json!("7"))
    );
    // Without a token the answer is JSON.
    let plain = begin(&mcp, &json!({"code": "1", "session": session}), None);
    assert_eq!(plain.head.header("content-type"), Some("application/json"));
    daemon.stop_and_check();
}

#[test]
fn refusal_with_progress_is_a_result_too() {
    let daemon = switched_on().start();
    let mcp = Mcp::of(&daemon);
    let mut events = begin(&mcp, &json!({"code": "1", "session": "none"}), Some("t"));
    let result = events.expect("message").data["result"].clone();
    assert_eq!(result["isError"], true, "{result}");
    daemon.stop_and_check();
}

/// The state of a session that has one execution.
fn status(daemon: &Daemon, session: &str) -> Value {
    let path = format!("/v1/sessions/{session}/executions");
    let list = daemon.request("GET", &path, None).expect_success();
    let listed = list["executions"].as_array().unwrap();
    listed
        .iter()
        .map(|one| one["status"].clone())
        .find(|status| !status.is_null() && *status != "ok")
        .unwrap_or(Value::Null)
}

#[test]
fn code_ends_with_its_client() {
    let daemon = switched_on().start();
    let mcp = Mcp { at: daemon.tcp(), ..Mcp::of(&daemon) };
    let code = "open('began', 'w').close()\nwhile True: pass";
    for token in [None, Some("t")] {
        let session = mcp.session();
        let arguments = json!({"code": code, "session": session, "timeout_ms": 30_000});
        let mut params = json!({"name": "run_python", "arguments": arguments});
        if let Some(token) = token {
            params["_meta"] = json!({"progressToken": token});
        }
        let (message, headers) = mcp.request("tools/call", params);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut client = Client::connect(&mcp.at);
        client.ask("POST", "/mcp", &headers, Some(message.to_string().as_bytes()));
        wait::until_true("the code runs", || {
            let list = mcp.does("list_files", json!({"session": session}));
            list["files"].as_array().unwrap().iter().any(|file| file["path"] == "began")
        });
        assert_eq!(status(&daemon, &session), Value::Null, "it goes on while its client is there");
        drop(client);
        wait::until_true("the code is interrupted", || status(&daemon, &session) == "interrupted");
    }
    daemon.stop_and_check();
}

#[test]
fn session_of_a_client_that_left_is_ended() {
    let daemon = switched_on().start();
    let mcp = Mcp { at: daemon.tcp(), ..Mcp::of(&daemon) };
    let params = json!({"name": "run_python", "arguments": {"code": "while True: pass"}});
    let (message, headers) = mcp.request("tools/call", params);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut client = Client::connect(&mcp.at);
    client.ask("POST", "/mcp", &headers, Some(message.to_string().as_bytes()));
    let running = || {
        let list = daemon.request("GET", "/v1/sessions?state=running", None).expect_success();
        list["sessions"].as_array().unwrap().len()
    };
    wait::until_true("the code runs", || running() == 1);
    drop(client);
    wait::until_true("its session is gone", || {
        let list = daemon.request("GET", "/v1/sessions", None).expect_success();
        list["sessions"].as_array().unwrap().is_empty()
    });
    daemon.stop_and_check();
}

#[test]
fn cancellation_ends_only_a_clients_own_request() {
    let daemon = switched_on().start();
    let mcp = Mcp::of(&daemon);
    let headers = |client: &'static str| {
        [("Accept", "application/json, text/event-stream"), ("Mcp-Session-Id", client)]
    };
    let cancel = |client: &'static str, id: u64| {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id}});
        let answer = raw(&mcp.at, &headers(client), notification.to_string().as_bytes());
        assert_eq!(answer.status, 202);
    };
    for meta in [json!({}), json!({"progressToken": 1})] {
        let session = mcp.session();
        let arguments = json!({"code": "while True: pass", "session": session});
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
            "params": {"name": "run_python", "arguments": arguments, "_meta": meta}});
        let mut client = Client::connect(&mcp.at);
        client.ask("POST", "/mcp", &headers("mine"), Some(call.to_string().as_bytes()));
        let path = format!("/v1/sessions/{session}");
        wait::until_true("the code runs", || {
            daemon.request("GET", &path, None).expect_success()["state"] == "running"
        });
        for (other, id) in [("theirs", 5), ("mine", 6)] {
            cancel(other, id);
        }
        assert_eq!(status(&daemon, &session), Value::Null, "it goes on");
        cancel("mine", 5);
        let answer = client.receive().unwrap();
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!said.contains("\"result\""), "{said}");
        wait::until_true("the code is interrupted", || status(&daemon, &session) == "interrupted");
    }
    daemon.stop_and_check();
}
