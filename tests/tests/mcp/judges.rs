//! Judges from npm (tests/mcp): the conformance suite of MCP, the Inspector, and the SDKs of TypeScript.

use std::process::Command;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::program::{self, Finished};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup};

use super::{Mcp, switched_on};

/// The SDK of each age, as `sdk.mjs` names it, and the version that it has to agree on.
const SDKS: [(&str, &str); 3] =
    [("v1", "2025-11-25"), ("v2-legacy", "2025-11-25"), ("v2", "2026-07-28")];

/// Each revision that the suite knows, and how many of its checks pass. Those that fail are in
/// `tests/mcp/conformance`, each by name, and the suite wants all others to pass: this number tells
/// that none of them is skipped.
const CONFORMANCE: [(&str, u32); 3] = [("2025-06-18", 32), ("2025-11-25", 39), ("2026-07-28", 90)];

/// A program of Node, below `tests/mcp`, with a home of its own.
fn judge(script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let home = program::temp_dir();
    let node = host::mcp_judges().unwrap();
    let mut command = Command::new(&node);
    command.arg(program::workspace().join("tests/mcp").join(script)).args(arguments);
    command.env("HOME", home.path()).envs(variables.iter().copied());
    program::finish(&mut command, "")
}

fn url(daemon: &Daemon) -> String {
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    format!("http://127.0.0.1:{port}/mcp")
}

/// A daemon of two tenants, and the token of one.
fn with_tenants(setup: Setup) -> (Daemon, String) {
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    (setup.config("[tenant]", &tenants).start(), own.text)
}

fn conformance(daemon: &Daemon, revision: &str, failures: &str) -> Finished {
    let failures = program::workspace().join(format!("tests/mcp/conformance/{failures}.yaml"));
    let script = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let url = url(daemon);
    let which = ["server", "--url", &url, "--suite", "all", "--spec-version", revision];
    let failures = ["--expected-failures", failures.to_str().unwrap()];
    judge(script, &[&which[..], &failures[..]].concat(), &[])
}

#[test]
fn conformance_suite_finds_what_is_expected() {
    if !host::has(&[Requirement::McpJudges]) {
        return;
    }
    let daemon = switched_on().start();
    // A resource, for what is checked of resources.
    Mcp::of(&daemon).does("write_file", json!({"path": "a.txt", "text": "a"}));
    for (revision, passed) in CONFORMANCE {
        let said = conformance(&daemon, revision, revision).expect_code(0).stdout();
        assert!(said.contains(&format!("Total: {passed} passed")), "{revision}: {said}");
    }
    // The control: other failures than those that are expected, and fewer.
    let others = conformance(&daemon, "2025-11-25", "2025-06-18").expect_code(1);
    assert!(others.stdout().contains("Unexpected failures"), "{}", others.stdout());
    let fewer = conformance(&daemon, "2026-07-28", "2025-11-25").expect_code(1);
    assert!(fewer.stdout().contains("server-stateless"), "{}", fewer.stdout());
    daemon.stop_and_check();
}

/// What the Inspector prints of a request that has to succeed.
#[track_caller]
fn inspected(arguments: &[&str]) -> Value {
    let said = inspect(arguments).expect_code(0).stdout();
    serde_json::from_str::<Value>(&said).unwrap()["result"].clone()
}

fn inspect(arguments: &[&str]) -> Finished {
    let script = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let plain = ["--cli", "--format", "json"];
    judge(script, &[&plain[..], arguments].concat(), &[])
}

#[test]
fn inspector_sees_and_calls_tools() {
    if !host::has(&[Requirement::McpJudges]) {
        return;
    }
    let (daemon, token) = with_tenants(switched_on());
    let url = url(&daemon);
    let header = format!("Authorization: Bearer {token}");
    for era in ["legacy", "modern"] {
        let server = [url.as_str(), "--transport", "http", "--protocol-era", era];
        let of = |header: &str, more: &[&str]| -> Vec<String> {
            let all = [&server[..], &["--stored-auth-only", "--header", header], more].concat();
            all.into_iter().map(str::to_owned).collect()
        };
        let ask = |more: &[&str]| {
            let arguments = of(&header, more);
            inspected(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let fails = |header: &str, more: &[&str], code: i32| {
            let arguments = of(header, more);
            inspect(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(code)
        };
        // With `--strict` it ends with 6 if a schema of a tool is one that clients cannot take.
        let tools = ask(&["--method", "tools/list", "--strict"]);
        assert_eq!(tools["tools"][0]["name"], "run_python", "{era}: {tools}");
        let run = |arguments: &Value| {
            let arguments = arguments.to_string();
            let call = ["--method", "tools/call", "--tool-name", "run_python"];
            ask(&[&call[..], &["--tool-args-json", &arguments]].concat())
        };
        let first = run(&json!({"code": "x = 41"}));
        let session = &first["structuredContent"]["session"];
        let second =
            run(&json!({"code": "open('a', 'w').write('1,2')\nx + 1", "session": session}));
        assert_eq!(second["structuredContent"]["result"]["repr"], "42", "{era}: {second}");
        let uri = second["structuredContent"]["files_changed"][0]["uri"].as_str().unwrap();
        let read = ask(&["--method", "resources/read", "--uri", uri]);
        assert_eq!(read["contents"][0]["text"], "1,2", "{era}: {read}");
        // The controls: code that fails, a tool that there is not, and a token that is wrong.
        let call = ["--method", "tools/call", "--tool-name"];
        fails(&header, &[&call[..], &["run_python", "--tool-arg", "code=1/0"]].concat(), 5);
        fails(&header, &[&call[..], &["no_such_tool"]].concat(), 5);
        let refused = fails("Authorization: Bearer wrong", &["--method", "tools/list"], 3);
        assert!(refused.stderr().contains("auth"), "{era}: {}", refused.stderr());
    }
    daemon.stop_and_check();
}

#[test]
fn typescript_sdks_drive_a_daemon_over_http() {
    if !host::has(&[Requirement::McpJudges]) {
        return;
    }
    let (daemon, token) = with_tenants(switched_on());
    for (sdk, version) in SDKS {
        let arguments = [sdk, &url(&daemon)];
        let said = judge("sdk.mjs", &arguments, &[("VIVARIUM_TOKEN", &token)]);
        assert_eq!(said.expect_code(0).stdout().trim(), version, "{sdk}");
        // The control.
        let refused = judge("sdk.mjs", &arguments, &[("VIVARIUM_TOKEN", "wrong")]).expect_code(1);
        assert!(refused.stderr().contains("401"), "{sdk}: {}", refused.stderr());
    }
    daemon.stop_and_check();
}

#[test]
fn typescript_sdks_drive_a_daemon_on_standard_input() {
    if !host::has(&[Requirement::McpJudges]) {
        return;
    }
    let (daemon, token) = with_tenants(Setup::default());
    let vivarium = program::path("vivarium").display().to_string();
    for (sdk, version) in SDKS {
        let arguments = [sdk, &vivarium, "mcp", "--url", &daemon.unix().url()];
        let said = judge("sdk.mjs", &arguments, &[("VIVARIUM_TOKEN", &token)]);
        assert_eq!(said.expect_code(0).stdout().trim(), version, "{sdk}");
    }
    daemon.stop_and_check();
}
