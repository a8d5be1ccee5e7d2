//! What is no message of MCP, and headers that contradict it.

use serde_json::{Value, json};
use vivarium_tests::http::Client;

use super::{DAEMON, Mcp, raw, switched_on};

const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

#[track_caller]
fn refused(body: &[u8]) -> (u16, Option<i64>, Value) {
    let daemon = DAEMON.hold();
    let answer = raw(&daemon.tcp(), &[ACCEPT], body);
    let answered = answer.json();
    (answer.status, answered["error"]["code"].as_i64(), answered["id"].clone())
}

#[test]
fn what_is_no_message_is_refused() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let nested = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{deep}}}"#);
    for bad in ["", "{", "nonsense", "{\"a\":1}{}", &deep, &nested] {
        assert_eq!(refused(bad.as_bytes()), (400, Some(-32700), Value::Null), "{bad:.30}");
    }
    assert_eq!(refused(b"{\"a\": \"\xff\"}").1, Some(-32700));
    let one = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for bad in [json!([one]), json!([]), json!(null), json!("ping"), json!(7)] {
        assert_eq!(refused(bad.to_string().as_bytes()), (400, Some(-32600), Value::Null), "{bad}");
    }
    for bad in [
        json!({"id": 1, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "method": ["ping"]}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}),
    ] {
        assert_eq!(refused(bad.to_string().as_bytes()), (400, Some(-32600), json!(1)), "{bad}");
    }
    // The control.
    assert_eq!(refused(one.to_string().as_bytes()), (200, None, json!(1)));
}

#[test]
fn headers_that_contradict_the_body_are_refused() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    let call = json!({"name": "list_sessions"});
    let (message, right) = mcp.request("tools/call", call);
    let body = message.to_string().into_bytes();
    let send = |headers: &[(&str, String)]| {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = raw(&daemon.tcp(), &headers, &body);
        (answer.status, answer.json()["error"]["code"].as_i64())
    };
    assert_eq!(send(&right), (200, None));
    for name in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"] {
        let without: Vec<_> = right.iter().filter(|(other, _)| *other != name).cloned().collect();
        assert_eq!(send(&without), (400, Some(-32020)), "without {name}");
        let wrong = [&without[..], &[(name, "end_session".to_owned())]].concat();
        assert_eq!(send(&wrong), (400, Some(-32020)), "another {name}");
        let value = right.iter().find(|(other, _)| *other == name).unwrap().1.clone();
        let twice = [&right[..], &[(name, value)]].concat();
        assert_eq!(send(&twice), (400, Some(-32020)), "{name} twice");
    }
}

#[test]
fn unknown_version_is_told_which_there_is() {
    let daemon = DAEMON.hold();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let headers = [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/list")];
    let answer = raw(&daemon.tcp(), &headers, message.to_string().as_bytes());
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, error["code"].as_i64()), (400, Some(-32022)));
    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": "2099-01-01"}));
}

#[test]
fn bodies_are_bounded_and_of_json() {
    let daemon = switched_on().config("server", "max_body_bytes = 65536").start();
    let mcp = Mcp::of(&daemon);
    let code = |length: usize| json!({"code": format!("#{}\n1", "x".repeat(length))});
    let call = |length| json!({"name": "run_python", "arguments": code(length)});
    assert_eq!(mcp.post("tools/call", call(30_000)).status, 200);
    mcp.post("tools/call", call(70_000)).expect_problem(413, "body_too_large");
    let (message, headers) = mcp.request("tools/call", call(10));
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Content-Type", "text/plain"));
    let answer = raw(&daemon.tcp(), &headers, message.to_string().as_bytes());
    answer.expect_problem(415, "unsupported_media_type");
    daemon.stop_and_check();
}

#[test]
fn pages_of_other_origins_and_names_are_kept_away() {
    let daemon = DAEMON.hold();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let send = |headers: &[(&str, &str)]| {
        Client::connect(&daemon.tcp()).send("POST", "/mcp", headers, Some(body.as_bytes()))
    };
    assert_eq!(send(&[ACCEPT]).status, 200);
    send(&[ACCEPT, ("Origin", "http://evil.example")]).expect_problem(403, "cross_origin");
    send(&[ACCEPT, ("Host", "evil.example")]).expect_problem(403, "host_not_allowed");
}
