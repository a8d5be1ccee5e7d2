//! The stateless revision and the ones that begin with `initialize`, as clients speak them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vivarium_tests::Daemon;
use vivarium_tests::http::{Client, Response};

use super::{DAEMON, Mcp, STATELESS, raw};

const OLD: [(&str, &str); 2] =
    [("Accept", "application/json, text/event-stream"), ("MCP-Protocol-Version", "2025-11-25")];

fn old(daemon: &Daemon, method: &str, params: &Value) -> Response {
    let message = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
    raw(&daemon.tcp(), &OLD, message.to_string().as_bytes())
}

#[test]
fn dialect_that_is_off_is_not_there() {
    let daemon = Daemon::start();
    let problem = Mcp::of(&daemon).post("server/discover", json!({}));
    problem.expect_problem(404, "unknown_path");
    daemon.stop_and_check();
}

#[test]
fn discover_says_what_there_is() {
    let daemon = DAEMON.hold();
    let found = Mcp::of(&daemon).ask("server/discover", json!({}));
    assert_eq!(found["supportedVersions"], json!([STATELESS]));
    assert!(found["capabilities"]["tools"].is_object() && found["ttlMs"].is_u64(), "{found}");
    assert_eq!(found["cacheScope"], "private");
}

#[test]
fn initialize_answers_with_the_version_that_it_is_asked_for() {
    let daemon = DAEMON.hold();
    let mut clients = BTreeSet::new();
    for (asked, given) in
        [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")]
    {
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }});
        let answer = raw(&daemon.tcp(), &OLD[..1], message.to_string().as_bytes());
        let result = answer.expect_success()["result"].clone();
        assert_eq!(result["protocolVersion"], given);
        assert_eq!(result["serverInfo"]["name"], "vivarium");
        assert!(result.get("resultType").is_none(), "{result}");
        let client = answer.header("mcp-session-id").unwrap();
        assert!(clients.insert(client.to_owned()), "each client has an id of its own");
    }
    assert_eq!(old(&daemon, "ping", &json!({})).expect_success()["result"], json!({}));
    let ran = json!({"name": "run_python", "arguments": {"code": "6 * 7"}});
    let answer = old(&daemon, "tools/call", &ran).expect_success();
    assert_eq!(answer["id"], "a");
    assert_eq!(answer["result"]["structuredContent"]["result"]["repr"], "42");
}

#[test]
fn each_revision_has_its_own_methods() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    for method in ["ping", "initialize", "prompts/list", "logging/setLevel", "tools/none"] {
        let (status, code, message) = mcp.error(method, json!({}));
        assert_eq!((status, code), (404, -32601), "{message}");
    }
    for method in ["server/discover", "prompts/list"] {
        let answer = old(&daemon, method, &json!({}));
        assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (200, Some(-32601)));
    }
}

#[test]
fn notifications_are_taken_without_an_answer() {
    let daemon = DAEMON.hold();
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "id": 7, "result": {}}),
    ] {
        let answer = raw(&daemon.tcp(), &OLD, message.to_string().as_bytes());
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{message}");
    }
}

#[test]
fn other_methods_of_http_are_not_taken() {
    let daemon = DAEMON.hold();
    for method in ["GET", "DELETE", "PUT"] {
        let answer = Client::connect(&daemon.tcp()).send(method, "/mcp", &OLD, None);
        answer.expect_problem(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("POST"), "{method}");
    }
}
