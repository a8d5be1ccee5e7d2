//! MCP: what agents' hosts send is understood, in both ages of the protocol, over HTTP and on standard
//! input, and it lets nobody do what the API would not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod hostile;
mod judges;
mod leaving;
mod malformed;
mod resources;
mod revisions;
mod sdk;
mod sse;
mod stdio;
mod tools;

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::{Daemon, Setup, Shared};

/// For tests that ask nothing of it that another would notice.
static DAEMON: Shared = Shared::new(switched_on);

const STATELESS: &str = "2026-07-28";

fn switched_on() -> Setup {
    Setup::default().config("dialects", "mcp = true")
}

/// A client of the stateless revision.
#[derive(Debug, Clone)]
struct Mcp {
    at: Endpoint,
    token: Option<String>,
}

impl Mcp {
    fn of(daemon: &Daemon) -> Self {
        Self { at: daemon.unix(), token: None }
    }

    fn with_token(daemon: &Daemon, token: &str) -> Self {
        Self { at: daemon.unix(), token: Some(format!("Bearer {token}")) }
    }

    /// The message, and the headers that go with it.
    fn request(&self, method: &str, mut params: Value) -> (Value, Vec<(&'static str, String)>) {
        let mut headers = vec![
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version", STATELESS.to_owned()),
            ("Mcp-Method", method.to_owned()),
        ];
        if let Some(name) = params.get("name").or_else(|| params.get("uri")) {
            headers.push(("Mcp-Name", name.as_str().unwrap_or_default().to_owned()));
        }
        headers.extend(self.token.clone().map(|token| ("Authorization", token)));
        let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS);
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        (json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), headers)
    }

    fn post(&self, method: &str, params: Value) -> Response {
        let (message, headers) = self.request(method, params);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = message.to_string().into_bytes();
        Client::connect(&self.at).send("POST", "/mcp", &headers, Some(&body))
    }

    /// The result of a request that has to have one.
    #[track_caller]
    fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.post(method, params).expect_success();
        assert!(answer.get("error").is_none(), "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        answer["result"].clone()
    }

    /// The code and the message of an error.
    #[track_caller]
    fn error(&self, method: &str, params: Value) -> (u16, i64, String) {
        let response = self.post(method, params);
        let error = response.json()["error"].clone();
        let message = error["message"].as_str().unwrap_or_else(|| panic!("{response:?}"));
        (response.status, error["code"].as_i64().unwrap(), message.to_owned())
    }

    #[track_caller]
    fn tool(&self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// The structured content of a tool that has to succeed.
    #[track_caller]
    fn does(&self, name: &str, arguments: Value) -> Value {
        let result = self.tool(name, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// What a tool says that has to be refused.
    #[track_caller]
    fn refused(&self, name: &str, arguments: Value) -> String {
        let result = self.tool(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// A new session.
    #[track_caller]
    fn session(&self) -> String {
        let ran = self.does("run_python", json!({"code": "pass"}));
        ran["session"].as_str().unwrap().to_owned()
    }
}

/// Posts these bytes with these headers.
fn raw(at: &Endpoint, headers: &[(&str, &str)], body: &[u8]) -> Response {
    Client::connect(at).send("POST", "/mcp", headers, Some(body))
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}
