//! What an outcome has besides output: displays, files that were asked for, files that changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vivarium_tests::Daemon;

#[test]
fn displays_are_updated_and_cleared() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
display(1, display_id='a')
display(2)
display(3, display_id='a', update=True)";
    let outcome = session.execute(code).ok();
    let displays = outcome.0["displays"].as_array().unwrap();
    let texts: Vec<_> = displays.iter().map(|display| &display["mime"]["text/plain"]).collect();
    assert_eq!(texts, ["3", "2"]);
    assert_eq!(displays[0]["id"], "a");
    let cleared = session
        .execute("from IPython.display import clear_output\ndisplay(1)\nclear_output()\ndisplay(2)")
        .ok();
    let displays = cleared.0["displays"].as_array().unwrap();
    assert_eq!(displays.len(), 1);
    assert_eq!(displays[0]["mime"]["text/plain"], "2");
}

#[test]
fn files_come_back_as_they_were_asked_for_each_with_its_own_error() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
import os
open('a.csv', 'w').write('x,y\\n1,2\\n')
open('b.bin', 'wb').write(bytes(range(256)))
os.symlink('/etc/passwd', 'link')
os.mkfifo('pipe')
os.mkdir('dir')";
    let names = ["a.csv", "b.bin", "link", "pipe", "dir", "missing"];
    let mut outputs: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    outputs.push(json!({"name": "a.csv", "format": "base64"}));
    outputs.push(json!({"name": "b.bin", "format": "text"}));
    let outcome = session.execute_with(&json!({"code": code, "outputs": outputs})).ok();
    let files = outcome.0["files"].as_array().unwrap();
    assert_eq!(files.len(), 8, "{outcome}");
    assert_eq!(files[0]["text"], "x,y\n1,2\n");
    assert_eq!(files[0]["mime_type"], "text/csv");
    assert_eq!((&files[0]["format"], &files[0]["size_bytes"]), (&json!("text"), &json!(8)));
    let binary: Vec<u8> = (0..=255).collect();
    assert_eq!(files[1]["data"], STANDARD.encode(&binary));
    assert_eq!(files[1]["format"], "base64");
    for file in &files[2..6] {
        assert!(file["error"].is_string() && file.get("text").is_none(), "{file}");
    }
    assert_eq!(files[6]["data"], STANDARD.encode("x,y\n1,2\n"));
    assert!(files[7]["error"].as_str().unwrap().contains("not UTF-8"));
    let changed: Vec<_> = outcome.0["files_changed"].as_array().unwrap().clone();
    assert!(changed.contains(&json!({"name": "a.csv", "size_bytes": 8})), "{changed:?}");
    let again = session.execute("1").ok();
    assert_eq!(again.0["files_changed"], json!([]));
}

#[test]
fn files_of_an_execution_that_failed_come_back_too() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let request = json!({
        "code": "open('log', 'w').write('so far')\n1 / 0", "outputs": [{"name": "log"}]});
    let outcome = session.execute_with(&request).raised("ZeroDivisionError");
    assert_eq!(outcome.0["files"][0]["text"], "so far");
}

#[test]
fn a_result_that_is_too_large_is_left_out_and_said_to_be() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"limits": {"max_result_bytes": 10000}}));
    let request = json!({
        "code": "open('large', 'w').write('x' * 20000)\nopen('small', 'w').write('x')",
        "outputs": [{"name": "large"}, {"name": "small"}]});
    let outcome = session.execute_with(&request).ok();
    assert!(outcome.0["files"][0]["error"].is_string(), "{outcome}");
    assert_eq!(outcome.0["files"][1]["text"], "x");
}
