//! Files, processes and code of a sandbox, as the SDKs ask for them.

use serde_json::{Value, json};

use super::{Api, DAEMON, ENVD, Sandbox, envelope};

fn text(event: &Value, stream: &str) -> String {
    use base64::Engine as _;
    let data = event["event"]["data"][stream].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn printed(events: &[Value], stream: &str) -> String {
    events.iter().map(|event| text(event, stream)).collect()
}

fn shell(line: &str) -> Value {
    let process = json!({"cmd": "/bin/bash", "args": ["-l", "-c", line]});
    json!({"process": process, "stdin": false})
}

fn put(sandbox: &Sandbox, path: &str, content: &[u8]) {
    let token =
        [("X-Access-Token", sandbox.envd.as_str()), ("Content-Type", "application/octet-stream")];
    let answer = sandbox.send(ENVD, "POST", &format!("/files?path={path}"), &token, Some(content));
    assert_eq!(answer.status, 200, "{answer:?}");
    let name = path.rsplit('/').next().unwrap();
    assert_eq!(answer.json()[0]["name"], name);
}

#[test]
fn a_process_tells_its_output_and_its_end() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({}));
    let start = "process.Process/Start";
    let (events, end) = sandbox.stream(start, &shell("pwd; echo $HOME; echo no >&2; exit 3"));
    assert_eq!(end, json!({}));
    assert!(events[0]["event"]["start"]["pid"].is_u64(), "{events:?}");
    assert_eq!(printed(&events, "stdout"), "/home/user\n/home/user\n");
    assert_eq!(printed(&events, "stderr"), "no\n");
    let expected = json!({
        "exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3",
    });
    assert_eq!(events.last().unwrap()["event"]["end"], expected);
    let mut elsewhere = shell("pwd");
    elsewhere["process"]["cwd"] = json!("/tmp");
    assert_eq!(printed(&sandbox.stream(start, &elsewhere).0, "stdout"), "/tmp\n");
    put(&sandbox, "file", b"");
    for (cwd, why) in [("missing", "does not exist"), ("file", "is not a directory")] {
        elsewhere["process"]["cwd"] = json!(cwd);
        let (events, end) = sandbox.stream(start, &elsewhere);
        assert!(events.is_empty(), "{events:?}");
        assert_eq!(end["error"]["code"], "invalid_argument");
        assert_eq!(end["error"]["message"], format!("cwd '/home/user/{cwd}' {why}"));
    }
}

#[test]
fn a_process_is_written_to_listed_and_killed_beside_others() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({}));
    let mut spec = shell("cat");
    (spec["stdin"], spec["tag"]) = (json!(true), json!("mine"));
    let headers =
        [("X-Access-Token", sandbox.envd.as_str()), ("Content-Type", "application/connect+json")];
    let mut client = vivarium_tests::http::Client::connect(&sandbox.at);
    let body = envelope(0, spec.to_string().as_bytes());
    let path = "/process.Process/Start";
    client.ask("POST", path, &sandbox.headers(ENVD, &headers), Some(&body));
    assert_eq!(client.receive_head().unwrap().status, 200);
    let mut told = client.chunk().unwrap();
    let started: Value = serde_json::from_slice(&told.split_off(5)).unwrap();
    let pid = &started["event"]["start"]["pid"];
    let list = || sandbox.call("process.Process/List", &json!({})).expect_success();
    let listed = &list()["processes"];
    assert_eq!((&listed[0]["pid"], &listed[0]["tag"]), (pid, &json!("mine")));
    assert_eq!(listed[0]["config"]["cmd"], "/bin/bash");
    let by_tag = json!({"tag": "mine"});
    let input = json!({"process": by_tag, "input": {"stdin": "aGk="}});
    drop(sandbox.call("process.Process/SendInput", &input).expect_success());
    let mut told = client.chunk().unwrap();
    assert_eq!(text(&serde_json::from_slice(&told.split_off(5)).unwrap(), "stdout"), "hi");
    let stream: Vec<u8> = [
        json!({"start": {"process": by_tag}}),
        json!({"data": {"input": {"stdin": "YQ"}}}),
        json!({"data": {"input": {"stdin": "Yg=="}}}),
    ]
    .iter()
    .flat_map(|message| envelope(0, message.to_string().as_bytes()))
    .collect();
    let answer = sandbox.stream_of("process.Process/StreamInput", &stream);
    assert_eq!(super::messages(&answer.body), (vec![json!({})], json!({})));
    let mut echoed = String::new();
    while echoed.len() < 2 {
        let mut told = client.chunk().unwrap();
        echoed += &text(&serde_json::from_slice(&told.split_off(5)).unwrap(), "stdout");
    }
    assert_eq!(echoed, "ab");
    // Code does not wait for it.
    assert_eq!(sandbox.lines("6*7")[1]["text"], "42");
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    drop(sandbox.call("process.Process/SendSignal", &kill).expect_success());
    let mut rest = Vec::new();
    while let Some(chunk) = client.chunk() {
        rest.extend(chunk);
    }
    let (events, _) = super::messages(&rest);
    assert_eq!(events.last().unwrap()["event"]["end"]["status"], "signal: killed");
    let again = sandbox.call("process.Process/SendSignal", &kill);
    assert_eq!((again.status, &again.json()["code"]), (404, &json!("not_found")));
    assert_eq!(list()["processes"], json!([]));
}

#[test]
fn files_are_where_processes_find_them() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({}));
    put(&sandbox, "a/b.txt", b"one");
    put(&sandbox, "/tmp/c.txt", b"two");
    let at =
        |method: &str, body: Value| sandbox.call(&format!("filesystem.Filesystem/{method}"), &body);
    let entry = at("Stat", json!({"path": "a/b.txt"})).expect_success();
    let entry = &entry["entry"];
    assert_eq!((&entry["path"], &entry["size"]), (&json!("/home/user/a/b.txt"), &json!(3)));
    assert_eq!((&entry["mode"], &entry["permissions"]), (&json!(0o644), &json!("-rw-r--r--")));
    let (events, _) = sandbox.stream("process.Process/Start", &shell("cat a/b.txt /tmp/c.txt"));
    assert_eq!(printed(&events, "stdout"), "onetwo");
    let list = at("ListDir", json!({"path": "/home/user", "depth": 1})).expect_success();
    assert_eq!(list["entries"][0]["path"], "/home/user/a");
    assert_eq!(list["entries"].as_array().unwrap().len(), 1, "{list}");
    let deep = at("ListDir", json!({"path": ".", "depth": 2})).expect_success();
    assert_eq!(deep["entries"].as_array().unwrap().len(), 2, "{deep}");
    drop(at("MakeDir", json!({"path": "d/e"})).expect_success());
    assert_eq!(at("MakeDir", json!({"path": "d/e"})).json()["code"], "already_exists");
    let moved = at("Move", json!({"source": "a/b.txt", "destination": "d/f"})).expect_success();
    assert_eq!(moved["entry"]["path"], "/home/user/d/f");
    for path in ["/etc/passwd", "/", "../../etc"] {
        let refused = at("Stat", json!({"path": path}));
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (403, &json!("permission_denied")),
            "{path}"
        );
    }
    for _ in 0..2 {
        drop(at("Remove", json!({"path": "d"})).expect_success());
    }
    assert_eq!(at("Stat", json!({"path": "d"})).status, 404);
}

#[test]
fn code_gives_lines_and_contexts_are_apart() {
    let daemon = DAEMON.hold();
    let sandbox = Api::of(&daemon, "x").create(&json!({"envVars": {"A": "b"}}));
    let lines =
        sandbox.lines("import os\nx = 1\nprint('out')\nos.path.expanduser('~'), os.environ['A']");
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["number_of_executions", "stdout", "result", "end_of_execution"]);
    assert_eq!(lines[0]["execution_count"], 1);
    assert_eq!(
        (&lines[1]["text"], &lines[2]["text"]),
        (&json!("out\n"), &json!("('/home/user', 'b')"))
    );
    let failed = sandbox.lines("1/0");
    assert_eq!(
        (&failed[0]["execution_count"], &failed[1]["name"]),
        (&json!(2), &json!("ZeroDivisionError"))
    );
    let seen = sandbox.lines("import os; os.environ['E2B_SANDBOX_ID'], os.environ['E2B_SANDBOX']");
    assert_eq!(seen[1]["text"], format!("('{}', 'true')", sandbox.id));
    // Pieces of a line are one message, unless a busy host takes long between them.
    let code =
        "import time\nfor n in range(20):\n print('a', end='')\n time.sleep(0.001)\n print('b')";
    vivarium_tests::wait::until_true("whole lines", || {
        let printed = sandbox.lines(code);
        let texts: Vec<_> = printed.iter().filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(texts.concat(), "ab\n".repeat(20));
        texts.len() < 35
    });
    let long = sandbox.lines("print('x' * (11 << 20))");
    let last = &long[long.len() - 2];
    assert_eq!(last["type"], "stderr");
    assert!(last["text"].as_str().unwrap().contains("the rest of stdout is left out"), "{last}");
    let token = [
        ("E2B-Traffic-Access-Token", sandbox.traffic.as_str()),
        ("Content-Type", "application/json"),
    ];
    let contexts = |method: &str, path: &str, body: Option<&[u8]>| {
        sandbox.send(super::INTERPRETER, method, &format!("/contexts{path}"), &token, body)
    };
    let opened = contexts("POST", "", Some(br#"{"cwd": "/home/user/sub"}"#)).expect_success();
    let id = opened["id"].as_str().unwrap();
    let run = |code: &str| {
        let answer = sandbox.execute(&json!({"code": code, "context_id": id, "language": null}));
        String::from_utf8(answer.body).unwrap()
    };
    assert!(run("import os; os.getcwd()").contains("/sub"));
    assert!(run("x").contains("NameError"));
    assert_eq!(contexts("GET", "", None).expect_success().as_array().unwrap().len(), 2);
    assert_eq!(contexts("POST", &format!("/{id}/restart"), None).status, 200);
    assert!(run("import os; os.getcwd()").contains("/sub"));
    assert_eq!(contexts("DELETE", &format!("/{id}"), None).status, 204);
    assert_eq!(sandbox.execute(&json!({"code": "1", "context_id": id})).status, 404);
    assert_eq!(sandbox.execute(&json!({"code": "1", "language": "r"})).status, 501);
    let both = json!({"code": "1", "language": "python", "context_id": "main"});
    assert_eq!(sandbox.execute(&both).status, 400);
}
