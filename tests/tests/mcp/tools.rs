//! The tools: what they do, and how they say what they do not.

use serde_json::{Value, json};
use vivarium_tests::wait;

use super::{DAEMON, Mcp, switched_on, text};

#[test]
fn state_stays_from_call_to_call() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    let first = mcp.does("run_python", json!({"code": "import math\nx = 41"}));
    assert_eq!(first["session_created"], true);
    let session = &first["session"];
    let second = mcp.tool("run_python", json!({"code": "print('é')\nx + 1", "session": session}));
    assert_eq!(second["structuredContent"]["result"], json!({"type": "int", "repr": "42"}));
    assert_eq!(second["structuredContent"]["stdout"], "é\n");
    let expected = format!("é\n[result] 42\n[session {}]", session.as_str().unwrap());
    assert_eq!(text(&second), expected);
    mcp.does("reset_session", json!({"session": session}));
    let lost = mcp.tool("run_python", json!({"code": "x", "session": session}));
    assert_eq!(
        (lost["isError"].as_bool(), lost["structuredContent"]["status"].as_str()),
        (Some(true), Some("error"))
    );
    assert!(text(&lost).contains("NameError") && text(&lost).contains("fresh kernel"), "{lost}");
    let listed = mcp.does("list_sessions", json!({}));
    let has = |list: &Value| {
        list["sessions"].as_array().unwrap().iter().any(|one| one["session"] == *session)
    };
    assert!(has(&listed), "{listed}");
    mcp.does("end_session", json!({"session": session}));
    assert!(!has(&mcp.does("list_sessions", json!({}))));
    let refused = mcp.refused("run_python", json!({"code": "1", "session": session}));
    assert!(
        refused.contains("without `session`") && refused.contains("unknown_session"),
        "{refused}"
    );
}

#[test]
fn commands_have_an_exit_code() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    let ran =
        mcp.tool("run_command", json!({"command": "cat; echo no >&2; exit 3", "stdin": "in\n"}));
    assert_eq!(ran["structuredContent"]["exit_code"], 3);
    assert_eq!(
        (ran["isError"].as_bool(), ran["structuredContent"]["stderr"].as_str()),
        (Some(true), Some("no\n"))
    );
    assert!(text(&ran).starts_with("in\n[stderr]\nno\n[exit code 3]\n[session m-"), "{ran}");
    let session = &ran["structuredContent"]["session"];
    let ok = mcp.does("run_command", json!({"command": "pwd", "session": session}));
    assert_eq!((ok["stdout"].as_str(), ok["exit_code"].as_i64()), (Some("/workspace\n"), Some(0)));
}

#[test]
fn figures_are_images_and_files_are_links() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let code = format!(
        "import base64, os\n\
         class Figure:\n    def _repr_png_(self): return base64.b64decode({png:?})\n\
         display(Figure())\n\
         os.makedirs('out dir'); open('out dir/a.csv', 'w').write('1,2')\n\
         open('gone', 'w').close(); os.remove('gone')"
    );
    let ran = mcp.tool("run_python", json!({"code": code}));
    let content = ran["content"].as_array().unwrap();
    let of = |kind: &str| {
        content.iter().find(|item| item["type"] == kind).unwrap_or_else(|| panic!("{ran}"))
    };
    assert_eq!(
        (&of("image")["mimeType"], &of("image")["data"]),
        (&json!("image/png"), &json!(png))
    );
    let session = ran["structuredContent"]["session"].as_str().unwrap();
    let link = of("resource_link");
    assert_eq!(link["uri"], format!("vivarium://{session}/out%20dir/a.csv"));
    assert_eq!((&link["name"], &link["size"]), (&json!("a.csv"), &json!(3)));
    let read = mcp.ask("resources/read", json!({"uri": link["uri"]}));
    assert_eq!(read["contents"][0]["text"], "1,2");
}

#[test]
fn files_go_in_and_come_out() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    let written = mcp.does("write_file", json!({"path": "d/a.txt", "text": "aü€\n"}));
    let session = written["session"].clone();
    assert_eq!(written["size_bytes"], 7);
    let data = json!({"path": "b.bin", "data": "AP8=", "session": session});
    mcp.does("write_file", data);
    let read = |arguments: Value| {
        let result = mcp.tool("read_file", arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"].clone()
    };
    let whole = read(json!({"session": session, "path": "d/a.txt"}));
    assert_eq!(whole, json!([{"type": "text", "text": "aü€\n"}]));
    let part = read(json!({"session": session, "path": "d/a.txt", "offset": 2, "max_bytes": 3}));
    assert!(part[1]["text"].as_str().unwrap().contains("bytes 2 to 5 of 7"), "{part}");
    let end = read(json!({"session": session, "path": "d/a.txt", "offset": 99}));
    assert_eq!(end[0]["text"], "");
    let binary = read(json!({"session": session, "path": "b.bin"}));
    assert_eq!(binary[0]["resource"]["blob"], "AP8=");
    let listed = mcp.does("list_files", json!({"session": session, "recursive": true}));
    let paths: Vec<_> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["b.bin", "d", "d/a.txt"]);
    assert!(
        mcp.refused("read_file", json!({"session": session, "path": "d"})).contains("list_files")
    );
    assert!(
        mcp.refused("read_file", json!({"session": session, "path": "none"}))
            .contains("unknown_file")
    );
    let outside = mcp.refused("read_file", json!({"session": session, "path": "../../etc/passwd"}));
    assert!(!outside.contains("root:"), "{outside}");
}

#[test]
fn arguments_that_are_wrong_are_named() {
    let daemon = switched_on().start();
    let mcp = Mcp::of(&daemon);
    for (tool, arguments, named) in [
        ("run_python", json!({}), "code"),
        ("run_python", json!({"code": 1}), "code"),
        ("run_python", json!({"code": "1", "kode": ""}), "kode"),
        ("run_python", json!({"code": "1", "timeout_ms": "soon"}), "timeout_ms"),
        ("run_python", json!({"code": "1", "timeout_ms": 0}), "timeout_ms"),
        ("run_python", json!({"code": "1", "timeout_ms": 9_000_000_000_000_u64}), "timeout_ms"),
        ("run_command", json!({"command": "true", "cwd": "/etc"}), "cwd"),
        ("write_file", json!({"path": "a"}), "text"),
        ("write_file", json!({"path": "a", "data": "?"}), "data"),
        ("write_file", json!({"path": "", "text": ""}), "path"),
        ("read_file", json!({"session": "s", "path": "a", "max_bytes": 0}), "max_bytes"),
        ("end_session", json!({"session": 7}), "session"),
        ("list_sessions", json!([]), "object"),
        ("install_packages", json!({"packages": []}), "packages"),
    ] {
        let said = mcp.refused(tool, arguments.clone());
        assert!(said.contains(named), "{tool} {arguments}: {said}");
    }
    let sessions = || mcp.does("list_sessions", json!({}))["sessions"].clone();
    wait::until_true("calls that are refused leave no session", || sessions() == json!([]));
    let (status, code, message) = mcp.error("tools/call", json!({"name": "rm", "arguments": {}}));
    assert_eq!((status, code, message.as_str()), (400, -32602, "there is no tool \"rm\""));
    assert_eq!(sessions(), json!([]));
    daemon.stop_and_check();
}

#[test]
fn long_output_is_cut_to_what_a_model_reads() {
    let daemon = DAEMON.hold();
    let ran = Mcp::of(&daemon).does("run_python", json!({"code": "print('a' * 10**6, 'end')"}));
    let stdout = ran["stdout"].as_str().unwrap();
    assert!(stdout.chars().count() <= 20_000 && stdout.ends_with("end\n"), "{}", stdout.len());
    assert_eq!(ran["truncated"], true);
}

#[test]
fn time_that_is_up_is_said() {
    let daemon = DAEMON.hold();
    let arguments =
        json!({"code": "print('before', flush=True)\nwhile True: pass", "timeout_ms": 2000});
    let ran = Mcp::of(&daemon).tool("run_python", arguments);
    assert_eq!(
        (ran["isError"].as_bool(), ran["structuredContent"]["status"].as_str()),
        (Some(true), Some("timed_out"))
    );
    assert!(text(&ran).contains("before\n") && text(&ran).contains("[timed_out"), "{ran}");
}

#[test]
fn quota_that_is_used_up_says_how_long_to_wait() {
    let daemon = switched_on().config("session", "max_sessions = 1").start();
    let mcp = Mcp::of(&daemon);
    let session = mcp.session();
    let said = mcp.refused("run_python", json!({"code": "1"}));
    assert!(said.contains("too_many_sessions") && said.contains("Try again in"), "{said}");
    mcp.does("end_session", json!({"session": session}));
    mcp.session();
    daemon.stop_and_check();
}

#[test]
fn packages_are_installed_only_where_they_can_be() {
    let daemon = DAEMON.hold();
    let names = |mcp: &Mcp| -> Vec<String> {
        let listed = mcp.ask("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let plain = names(&Mcp::of(&daemon));
    assert_eq!(plain.len(), 8, "{plain:?}");
    assert!(!plain.contains(&"install_packages".to_owned()));
}
