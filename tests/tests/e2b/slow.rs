//! Clients that read nothing of what they ask for.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::wait;

use super::{Api, ENVD, INTERPRETER, Sandbox, envelope, switched_on};

/// Asks for what never ends, and reads its head alone.
fn unread(sandbox: &Sandbox, port: &str, path: &str, kind: &str, body: &[u8]) -> Client {
    let headers = [("X-Access-Token", sandbox.envd.as_str()), ("Content-Type", kind)];
    let mut client = Client::connect(&sandbox.at);
    client.ask("POST", path, &sandbox.headers(port, &headers), Some(body));
    assert_eq!(client.receive_head().unwrap().status, 200);
    client
}

#[test]
fn who_reads_nothing_holds_up_nobody_else() {
    let setup = switched_on().config("sandbox", "max_output_bytes = \"unlimited\"");
    let daemon = setup.start();
    let api = Api::of(&daemon, "x");
    let sandbox = api.create(&json!({}));
    let before = daemon.process().status_number("VmHWM").unwrap();
    let spec = json!({"process": {"cmd": "yes"}, "stdin": false}).to_string();
    let kind = "application/connect+json";
    let start = "/process.Process/Start";
    let process = unread(&sandbox, ENVD, start, kind, &envelope(0, spec.as_bytes()));
    let opened = [
        ("E2B-Traffic-Access-Token", sandbox.traffic.as_str()),
        ("Content-Type", "application/json"),
    ];
    let opened = sandbox.send(INTERPRETER, "POST", "/contexts", &opened, Some(b"{}"));
    let context = opened.expect_success()["id"].clone();
    let code = json!({"code": "while True: print('x' * 1000)", "context_id": context}).to_string();
    let flood = unread(&sandbox, INTERPRETER, "/execute", "application/json", code.as_bytes());
    for _ in 0..20 {
        let lines = sandbox.lines("print('x' * 100_000); 1 + 1");
        assert_eq!(lines[lines.len() - 2]["text"], "2");
    }
    let grown_kib = daemon.process().status_number("VmHWM").unwrap() - before;
    assert!(grown_kib < 64 << 10, "grown by {grown_kib} KiB");
    // Once they are gone, the code is interrupted, and its context free for other code.
    drop((process, flood));
    let answer = sandbox.execute(&json!({"code": "6*7", "context_id": context}));
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.contains("\"42\""), "{text}");
    let list = || sandbox.call("process.Process/List", &json!({})).expect_success();
    let pid = list()["processes"][0]["pid"].clone();
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    drop(sandbox.call("process.Process/SendSignal", &kill).expect_success());
    wait::until_true("it has ended", || list()["processes"] == json!([]));
    daemon.stop_and_check();
}
