//! The official SDK of Python as a judge: it validates every answer by the protocol's own models, and
//! structured content by the schemas of the tools.

use std::process::Command;

use serde_json::Value;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::program::{self, Finished, Runner};
use vivarium_tests::tenants::{Token, entry, two};

use super::switched_on;

/// The SDK's two ways to begin, and the version that each has to agree on.
const MODES: [(&str, &str); 2] = [("auto", "2026-07-28"), ("legacy", "2025-11-25")];

fn judged(mode: &str, server: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut python = Command::new(host::tool("python").unwrap());
    let script = program::workspace().join("tests/tests/mcp/sdk.py");
    python.arg(script).arg(mode).args(server).envs(variables.iter().copied());
    program::finish(&mut python, "")
}

#[track_caller]
fn passes(mode: &str, version: &str, server: &[&str], variables: &[(&str, &str)]) {
    let said = judged(mode, server, variables).expect_code(0).stdout();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["version"], version, "{mode}");
}

#[test]
fn sdk_drives_a_daemon_over_http() {
    if !host::has(&[Requirement::McpSdk]) {
        return;
    }
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let url = format!("http://127.0.0.1:{port}/mcp");
    for (mode, version) in MODES {
        passes(mode, version, &[&url], &[("VIVARIUM_TOKEN", &own.text)]);
        // The control.
        let refused = judged(mode, &[&url], &[("VIVARIUM_TOKEN", "wrong")]);
        assert_ne!(refused.code(), 0, "{mode}: {}", refused.stdout());
    }
    daemon.stop_and_check();
}

#[test]
fn sdk_drives_a_daemon_on_standard_input() {
    if !host::has(&[Requirement::McpSdk]) {
        return;
    }
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = vivarium_tests::Setup::default().config("[tenant]", &tenants).start();
    let vivarium = program::path("vivarium").display().to_string();
    for (mode, version) in MODES {
        let server = [vivarium.as_str(), "mcp", "--url", &daemon.unix().url()];
        passes(mode, version, &server, &[("VIVARIUM_TOKEN", &own.text)]);
    }
    daemon.stop_and_check();
}

#[test]
fn sdk_drives_an_embedded_engine() {
    if !host::has(&[Requirement::McpSdk]) {
        return;
    }
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let vivarium = program::vivarium(&Runner::Self_, dir.path());
    let vivarium = vivarium.get_program().to_str().unwrap().to_owned();
    for (mode, version) in MODES {
        passes(mode, version, &[&vivarium, "mcp", "--config", &config], &[]);
    }
}
