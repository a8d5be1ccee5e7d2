//! `vivarium mcp`: one line for each message, with an engine of its own or a daemon's.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Setup};

/// A server that is talked to line by line.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let dir = program::temp_dir();
        let config = program::config(dir.path(), "");
        let mut command = program::vivarium(&Runner::Self_, dir.path());
        command.args(["mcp", "--config", &config]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, output, _dir: dir }
    }

    fn embedded() -> Self {
        Self::start(&[])
    }

    fn of(daemon: &Daemon) -> Self {
        Self::start(&["--url", &daemon.unix().url()])
    }

    fn send(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&message.to_string());
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has ended");
        serde_json::from_str(&line).unwrap()
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask(7, "tools/call", &json!({"name": name, "arguments": arguments}));
        let answer = self.receive();
        assert_eq!(answer["id"], 7, "{answer}");
        answer["result"].clone()
    }

    /// Ends its input, and waits for its end.
    fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        let lines = (&mut self.output).lines();
        let rest = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        rest
    }
}

#[test]
fn both_ages_are_spoken_line_by_line() {
    let mut server = Server::embedded();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
    server.ask(1, "initialize", &hello);
    assert_eq!(server.receive()["result"]["protocolVersion"], "2025-06-18");
    server.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}});
    server.ask(2, "server/discover", &meta);
    assert_eq!(server.receive()["result"]["resultType"], "complete");
    let ran = server.tool("run_python", &json!({"code": "6 * 7"}));
    assert_eq!(ran["structuredContent"]["result"]["repr"], "42");
    assert_eq!(server.end(), [Value::Null; 0]);
}

#[test]
fn lines_that_are_no_messages_are_answered_and_the_server_goes_on() {
    let daemon = Daemon::start();
    let mut server = Server::of(&daemon);
    for (line, code) in [("nonsense", -32700), ("[]", -32600), ("{}", -32600), ("\u{1}", -32700)] {
        server.send(line);
        assert_eq!(server.receive()["error"]["code"], code, "{line}");
    }
    server.send("");
    let ran = server.tool("run_python", &json!({"code": "1"}));
    assert_eq!(ran["isError"], false, "{ran}");
    server.end();
    daemon.stop_and_check();
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let daemon = Daemon::start();
    let mut server = Server::of(&daemon);
    let code = json!({"code": "import time; time.sleep(0.5); print('done')"});
    server.ask(1, "tools/call", &json!({"name": "run_python", "arguments": code}));
    let rest = server.end();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["result"]["structuredContent"]["stdout"], "done\n");
    daemon.stop_and_check();
}

#[test]
fn cancelled_code_ends_and_is_not_answered() {
    let daemon = Daemon::start();
    for mut server in [Server::of(&daemon), Server::embedded()] {
        let ran = server.tool("run_python", &json!({"code": "pass"}));
        let session = ran["structuredContent"]["session"].clone();
        for progress in [json!({}), json!({"progressToken": "t"})] {
            let code = "print('began', flush=True)\nopen('began', 'w').close()\nwhile True: pass";
            let arguments = json!({"code": code, "session": session});
            let params = json!({"name": "run_python", "arguments": arguments, "_meta": progress});
            server.ask(1, "tools/call", &params);
            // What follows waits behind it, for as long as it runs.
            loop {
                server.ask(
                    7,
                    "tools/call",
                    &json!({"name": "list_files", "arguments": {"session": session}}),
                );
                let mut answer = server.receive();
                while answer["method"] == "notifications/progress" {
                    answer = server.receive();
                }
                assert_eq!(answer["id"], 7, "{answer}");
                if answer.to_string().contains("began") {
                    break;
                }
            }
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": 1}});
            server.send(&cancelled.to_string());
            let after = json!({"code": "import os; os.remove('began')", "session": session});
            server.ask(7, "tools/call", &json!({"name": "run_python", "arguments": after}));
            let mut answer = server.receive();
            while answer["method"] == "notifications/progress" {
                answer = server.receive();
            }
            assert_eq!(
                (&answer["id"], &answer["result"]["isError"]),
                (&json!(7), &json!(false)),
                "{answer}"
            );
        }
        assert_eq!(server.end(), [Value::Null; 0]);
    }
    daemon.stop_and_check();
}

#[test]
fn token_comes_from_the_environment() {
    use vivarium_tests::tenants::{Token, entry, two};
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let input = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "run_python", "arguments": {"code": "6 * 7"}}});
    for (token, expected) in [(Some(&own.text), "42"), (None, "unauthenticated")] {
        let dir = program::temp_dir();
        let mut command = program::vivarium(&Runner::Self_, dir.path());
        command.args(["mcp", "--url", &daemon.unix().url()]);
        if let Some(token) = token {
            command.env("VIVARIUM_TOKEN", token);
        }
        let said = program::finish(&mut command, &format!("{input}\n")).expect_code(0).stdout();
        assert!(said.contains(expected), "{said}");
    }
    daemon.stop_and_check();
}
