//! The OpenAPI document is valid, and the API is what it says, whatever it is sent: schemathesis makes requests from
//! the document, right ones and wrong ones, and compares the answers with it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::process::{Command, Stdio};

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Setup, program};

/// Requests for each operation and kind of request.
const EXAMPLES: &str = "25";

#[test]
fn the_document_is_valid() {
    if !host::has(&[Requirement::Schemathesis]) {
        return;
    }
    let daemon = Setup::default().start();
    let dir = program::temp_dir();
    let document = daemon.request("GET", "/openapi.json", None).expect_success();
    let valid = |document: &serde_json::Value| {
        let file = dir.path().join("openapi.json");
        fs::write(&file, document.to_string()).unwrap();
        let validator = host::tool("openapi-spec-validator").unwrap();
        let output = Command::new(validator).arg(file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_valid, said) = valid(&document);
    assert!(is_valid, "{said}");
    // The control: one response without the description that OpenAPI 3.1 requires.
    let mut wrong = document;
    let response = &mut wrong["paths"]["/healthz"]["get"]["responses"]["200"];
    response.as_object_mut().unwrap().remove("description").unwrap();
    assert!(!valid(&wrong).0);
    daemon.stop_and_check();
}

/// Says which examples of requests are refused by their schemas, and how many there are. A request of
/// JSON without one is refused too.
const JUDGE: &str = "
import json, sys
from jsonschema import Draft202012Validator
document = json.load(open(sys.argv[1]))
count = 0
for path, item in document['paths'].items():
    for method, operation in item.items():
        body = operation.get('requestBody', {}) if isinstance(operation, dict) else {}
        for kind, content in body.get('content', {}).items():
            if not kind.endswith('json'): continue
            count += 1
            schema = {**content['schema'], 'components': document['components']}
            found = [error.message for error in Draft202012Validator(schema).iter_errors(content.get('example'))]
            if found or 'example' not in content: print(method, path, found)
print(count, 'examples')";

#[test]
fn every_example_of_a_request_is_right_by_its_schema() {
    if !host::has(&[Requirement::Schemathesis]) {
        return;
    }
    let daemon = Setup::default().start();
    let dir = program::temp_dir();
    let document = daemon.request("GET", "/openapi.json", None).expect_success();
    let judged = |document: &serde_json::Value| {
        let file = dir.path().join("openapi.json");
        fs::write(&file, document.to_string()).unwrap();
        let mut python = Command::new(host::tool("schemathesis").unwrap().with_file_name("python"));
        let output = python.args(["-c", JUDGE]).arg(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(judged(&document), "26 examples\n");
    // The controls: a number over its maximum, a field that there is not, and no example.
    for (path, example) in [
        ("/v1/sessions/{id}/executions/{execution_id}/resize", r#"{"columns": 5000, "rows": 1}"#),
        ("/v1/sessions/{id}/execute", r#"{"code": "1", "kode": "2"}"#),
        ("/v1/run", "null"),
    ] {
        let mut wrong = document.clone();
        let content = &mut wrong["paths"][path]["post"]["requestBody"]["content"];
        content["application/json"]["example"] = serde_json::from_str(example).unwrap();
        assert!(judged(&wrong).contains(path), "{path}");
    }
    daemon.stop_and_check();
}

#[test]
fn no_request_finds_a_server_error_or_an_answer_that_is_not_documented() {
    if !host::has(&[Requirement::Schemathesis, Requirement::Uv]) {
        return;
    }
    // Each creation is a session that nobody deletes.
    let dir = program::temp_dir();
    let uv = dir.path().join("uv");
    fs::copy(host::tool("uv").unwrap(), &uv).unwrap();
    // Sessions can be suspended and branched.
    let daemon = Setup::with_start_mode(StartMode::Forked)
        .config("environments.default", "images = true")
        .config("session", "max_sessions = 20\nmax_exec_timeout = \"2s\"\nexec_timeout = \"2s\"")
        .config("builds", &format!("uv = {uv:?}"))
        .start();
    let url = daemon.tcp().url();
    // In two processes of one worker each: in Debian's Python 3.11.2 threads that parse at a time fail each other
    // (cpython issue 106905).
    let judges = ["--include-path-regex", "--exclude-path-regex"].map(|of_sessions| {
        Command::new(host::tool("schemathesis").unwrap())
            .arg("run")
            .arg(format!("{url}/openapi.json"))
            .args(["--checks", "all", "--phases", "examples,coverage,fuzzing"])
            // What a field may hold beside its type (a name without "..", one of code, argv and shell)
            // is more than a schema says: such a request is right by the schema, and refused by 422.
            .args(["--exclude-checks", "positive_data_acceptance"])
            // It can make no tar archives; tests/files does.
            .args(["--exclude-operation-id", "upload_all"])
            .args([of_sessions, "^/v1/sessions/"])
            .args(["--max-examples", EXAMPLES, "--workers", "1", "--seed", "1", "--no-color"])
            .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
            .env("PYTHONPATH", env!("CARGO_MANIFEST_DIR"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for judge in judges {
        let output = judge.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", daemon.log());
        // That it has tested anything.
        assert!(said.contains("Test cases:"), "{said}");
    }
    daemon.stop_and_check();
}
