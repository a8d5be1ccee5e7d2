//! Files of sessions as resources.

use serde_json::{Value, json};

use super::{DAEMON, Mcp, switched_on};

#[test]
fn files_are_listed_page_by_page_and_read() {
    let daemon = switched_on().start();
    let mcp = Mcp::of(&daemon);
    for number in 0..12 {
        let session = json!({"id": format!("s{number:02}")});
        let made = daemon.request("POST", "/v1/sessions", Some(&session));
        assert_eq!(made.status, 201);
        let file = json!({"path": "a.txt", "text": format!("{number}"), "session": session["id"]});
        mcp.does("write_file", file);
    }
    let first = mcp.ask("resources/list", json!({}));
    let second = mcp.ask("resources/list", json!({"cursor": first["nextCursor"]}));
    assert_eq!(second.get("nextCursor"), None, "{second}");
    let uris = |page: &Value| -> Vec<String> {
        let all = page["resources"].as_array().unwrap().iter();
        all.map(|one| one["uri"].as_str().unwrap().to_owned()).collect()
    };
    let mut all = [uris(&first), uris(&second)].concat();
    all.sort();
    let expected: Vec<_> = (0..12).map(|number| format!("vivarium://s{number:02}/a.txt")).collect();
    assert_eq!(all, expected);
    let read = mcp.ask("resources/read", json!({"uri": "vivarium://s07/a.txt"}));
    assert_eq!(read["contents"][0]["text"], "7");
    daemon.stop_and_check();
}

#[test]
fn what_is_no_file_is_an_error() {
    let daemon = DAEMON.hold();
    let mcp = Mcp::of(&daemon);
    let session = mcp.session();
    mcp.does("run_python", json!({"code": "import os; os.mkdir('d'); os.symlink('/etc/passwd', 'l')", "session": session}));
    for uri in [
        "file:///etc/passwd".to_owned(),
        "vivarium://none/a".to_owned(),
        format!("vivarium://{session}/none"),
        format!("vivarium://{session}/d"),
        format!("vivarium://{session}/l"),
        format!("vivarium://{session}/..%2F..%2Fetc%2Fpasswd"),
        format!("vivarium://{session}/%2Fetc%2Fpasswd"),
        format!("vivarium://{session}%2F..%2Fother/a"),
        format!("vivarium://{session}/a?info=true"),
    ] {
        let (status, code, message) = mcp.error("resources/read", json!({"uri": uri}));
        assert_eq!((status, code), (400, -32602), "{uri}: {message}");
        assert!(!message.contains("root:"), "{message}");
    }
    assert_eq!(mcp.error("resources/read", json!({"uri": 1})).1, -32602);
    let templates = mcp.ask("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "vivarium://{session}/{+path}");
}
