//! The examples for agents' frameworks, with the frameworks themselves and models that follow a script
//! (tests/frameworks): code runs twice in one session, and the agent answers what it printed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::process::Command;

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::program::{self, Finished};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup};

fn script(framework: &str, daemon: &Daemon, token: &str) -> Finished {
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!() };
    let root = program::workspace();
    let modules = ["examples/frameworks", "clients/python/src"].map(|it| root.join(it));
    let home = program::temp_dir();
    let mut python = Command::new(host::framework(framework).unwrap());
    python.arg(root.join(format!("tests/frameworks/{}_script.py", framework.replace('-', "_"))));
    python.env("PYTHONPATH", std::env::join_paths(modules).unwrap());
    python.env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", home.path());
    python.env("CREWAI_DISABLE_TELEMETRY", "true").env("OTEL_SDK_DISABLED", "true");
    python.env("VIVARIUM_URL", format!("http://127.0.0.1:{port}")).env("VIVARIUM_TOKEN", token);
    program::finish(&mut python, "")
}

fn runs(framework: &'static str) {
    if !host::has(&[Requirement::Framework(framework)]) {
        return;
    }
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let setup = Setup::default().config("dialects", "mcp = true").config("[tenant]", &tenants);
    let daemon = setup.start();
    let said = script(framework, &daemon, &own.text).expect_code(0).stdout();
    assert_eq!(said.lines().last(), Some("the product is 42"), "{said}");
    // The control.
    let refused = script(framework, &daemon, "wrong");
    assert_ne!(refused.code(), 0, "{}", refused.stdout());
    assert!(!refused.stdout().contains("the product is"), "{}", refused.stdout());
    daemon.stop_and_check();
}

#[test]
fn pydantic_ai() {
    runs("pydantic-ai");
}

#[test]
fn openai_agents() {
    runs("openai-agents");
}

#[test]
fn langchain() {
    runs("langchain");
}

#[test]
fn llamaindex() {
    runs("llamaindex");
}

#[test]
fn smolagents() {
    runs("smolagents");
}

#[test]
fn adk() {
    runs("adk");
}

#[test]
fn crewai() {
    runs("crewai");
}
