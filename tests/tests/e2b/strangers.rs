//! E2B's own SDKs, as their registries have them: the newest, and those that frameworks pin.

use std::path::PathBuf;
use std::process::Command;

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::program;
use vivarium_tests::tenants::{Token, entry, two};

use super::{listener, switched_on};

fn said(mut command: Command) -> String {
    program::finish(&mut command, "").expect_code(0).stdout()
}

/// A daemon with two tenants, and what an SDK needs to use it as one of them.
fn run(make: impl FnOnce(PathBuf) -> Command) {
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = switched_on()
        .config("environments.default", "template = \"auto\"\nimages = true")
        .config("[tenant]", &tenants)
        .start();
    daemon.until_logged("template ready");
    let Endpoint::Tcp(port) = listener(&daemon) else { unreachable!() };
    let url = format!("http://127.0.0.1:{port}");
    let mut command = make(program::workspace().join("tests/tests/e2b"));
    command.env("E2B_API_URL", &url).env("E2B_SANDBOX_URL", &url).env("E2B_API_KEY", &own.text);
    let said = said(command);
    assert!(said.trim_end().ends_with("passed"), "{said}");
    daemon.stop_and_check();
}

fn python(sdk: &'static str, parts: &'static str) {
    if !host::has(&[Requirement::E2bSdks]) {
        return;
    }
    run(|scripts| {
        let mut python = Command::new(host::tool("python").unwrap());
        python.env("PYTHONPATH", host::e2b_sdk(sdk).unwrap());
        // Some versions take only keys of E2B's own form, unless they are told.
        python.env("E2B_VALIDATE_API_KEY", "false");
        python.arg(scripts.join("sdk.py")).arg(parts);
        python
    });
}

#[test]
fn newest_python_sdk_finds_everything() {
    python("newest", "all");
}

/// Their `run_code` goes to an address of E2B's own, whatever they are told.
#[test]
fn pinned_python_sdks_have_commands_and_files() {
    python("openai-agents", "envd");
    python("crewai", "envd");
}

/// Its executor takes the newest SDK.
#[test]
fn agents_of_smolagents_run_their_code() {
    if !host::has(&[Requirement::E2bSdks, Requirement::Framework("smolagents")]) {
        return;
    }
    run(|scripts| {
        let mut python = Command::new(host::framework("smolagents").unwrap());
        python.env("PYTHONPATH", host::e2b_sdk("newest").unwrap());
        python.arg(scripts.join("smolagents_agent.py"));
        python
    });
}

#[test]
fn javascript_sdk_finds_everything() {
    if !host::has(&[Requirement::E2bJsSdk, Requirement::Node]) {
        return;
    }
    run(|scripts| {
        let mut node = Command::new("/usr/bin/node");
        // Modules are looked for beside the script.
        let own = host::e2b_sdk("js").unwrap().join("sdk.mjs");
        std::fs::copy(scripts.join("sdk.mjs"), &own).unwrap();
        node.arg(own);
        node
    });
}
