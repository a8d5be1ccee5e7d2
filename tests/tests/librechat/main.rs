//! LibreChat's code API: files stay, variables do not, and ids of another tenant are unknown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::process::Command;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::program;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup, Shared, wait};

static DAEMON: Shared = Shared::new(switched_on);

const FORM: &str = "multipart/form-data; boundary=B";

fn switched_on() -> Setup {
    Setup::default().config("dialects", "librechat = true")
}

struct Chat {
    at: Endpoint,
    header: Option<(&'static str, String)>,
}

impl Chat {
    fn send(&self, method: &str, path: &str, kind: &str, body: Option<&[u8]>) -> Response {
        let mut headers = vec![("Content-Type", kind)];
        headers.extend(self.header.iter().map(|(name, value)| (*name, value.as_str())));
        Client::connect(&self.at).send(method, &format!("/librechat/{path}"), &headers, body)
    }

    fn exec(&self, body: &Value) -> Response {
        self.send("POST", "exec", "application/json", Some(body.to_string().as_bytes()))
    }

    fn upload(&self, name: &str, content: &str) -> Response {
        let body = format!(
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--B--\r\n"
        );
        self.send("POST", "upload", FORM, Some(body.as_bytes()))
    }

    fn get(&self, path: &str) -> Response {
        self.send("GET", path, "application/json", None)
    }
}

fn alone(at: Endpoint) -> Chat {
    Chat { at, header: None }
}

#[test]
fn files_stay_and_variables_do_not() {
    let daemon = DAEMON.hold();
    let chat = alone(daemon.unix());
    let code = "x = 1\nopen('/mnt/data/a.txt', 'w').write('kept')\nprint('é')";
    let first = chat.exec(&json!({"lang": "py", "code": code})).expect_success();
    assert_eq!(first["stdout"].as_str().unwrap().lines().next(), Some("é"));
    let (session, file) = (first["session_id"].as_str().unwrap(), &first["files"][0]);
    assert_eq!(file["name"], "a.txt");
    let code = "print(open('/mnt/data/a.txt').read())\nx";
    let again = chat.exec(&json!({"lang": "py", "code": code, "session_id": session}));
    let again = again.expect_success();
    assert_eq!(again["stdout"], "kept\n");
    assert!(again["stderr"].as_str().unwrap().contains("NameError"), "{again}");
    let at = format!("download/{session}/{}", file["id"].as_str().unwrap());
    assert_eq!(chat.get(&at).body, b"kept");
    let bash = json!({"lang": "bash", "code": "cat /mnt/data/a.txt", "session_id": session});
    assert_eq!(chat.exec(&bash).expect_success()["stdout"], "kept");
    let removed = json!({"lang": "bash", "code": "rm a.txt; pwd", "session_id": session});
    let removed = chat.exec(&removed).expect_success();
    assert_eq!(
        (&removed["deleted_files"], &removed["stdout"]),
        (&json!(["a.txt"]), &json!("/workspace\n"))
    );
    assert_eq!(chat.exec(&json!({"lang": "rs", "code": ""})).status, 400);
}

#[test]
fn arguments_reach_code_whose_lines_keep_their_numbers() {
    let daemon = DAEMON.hold();
    let chat = alone(daemon.unix());
    let argument = "a'\"\\\n]; boom()";
    let code = "from __future__ import annotations\nimport sys\nprint(sys.argv[1])\n1/0";
    let ran = chat.exec(&json!({"lang": "py", "code": code, "args": [argument]})).expect_success();
    let told = ran["stdout"].as_str().unwrap();
    assert_eq!(told, "a'\"\\\n]; boom()\n");
    assert!(ran["stderr"].as_str().unwrap().contains("line 4"), "{ran}");
}

#[test]
fn uploads_are_copied_into_the_session_that_uses_them() {
    let daemon = switched_on().start();
    let chat = alone(daemon.unix());
    let sent = chat.upload("in.csv", "1,2").expect_success();
    let (storage, id) = (&sent["storage_session_id"], &sent["files"][0]["fileId"]);
    let files = json!([{"id": id, "name": "in.csv", "storage_session_id": storage}]);
    let code = "print(open('/mnt/data/in.csv').read())";
    let ran = chat.exec(&json!({"lang": "py", "code": code, "files": files})).expect_success();
    assert_eq!(ran["stdout"], "1,2\n");
    assert_ne!(ran["session_id"], *storage);
    let sessions = || {
        let list = daemon.request("GET", "/v1/sessions", None).expect_success();
        list["sessions"].as_array().unwrap().len()
    };
    let before = sessions();
    for name in ["../out", "/etc/passwd", "a/../../out", "a\0b", ""] {
        let refused = chat.upload(name, "x");
        assert!([400, 422].contains(&refused.status), "{name:?}: {refused:?}");
    }
    wait::until_true("no session is left of them", || sessions() == before);
    for body in ["", "--B", "--B\r\n\r\n", "nonsense"] {
        let refused = chat.send("POST", "upload", FORM, Some(body.as_bytes()));
        assert_eq!(refused.status, 400, "{body}");
    }
    assert_eq!(chat.send("POST", "upload", "multipart/form-data", Some(b"x")).status, 415);
    let part = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\n\r\n";
    let many = format!("{}--B--\r\n", part.repeat(101));
    chat.send("POST", "upload", FORM, Some(many.as_bytes())).expect_problem(400, "invalid_request");
    daemon.stop_and_check();
}

#[test]
fn body_over_the_limit_is_refused_before_it_is_read() {
    let daemon = switched_on().config("server", "max_body_bytes = 65536").start();
    let at = daemon.unix();
    for path in ["exec", "upload", "upload/batch"] {
        let mut client = Client::connect(&at);
        let head = format!(
            "POST /librechat/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n\
             Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n"
        );
        client.send_raw(head.as_bytes());
        client.receive().unwrap().expect_problem(413, "body_too_large");
    }
    assert_eq!(alone(at).upload("a", &"x".repeat(60_000)).status, 200);
    daemon.stop_and_check();
}

#[test]
fn session_of_a_client_that_left_is_ended() {
    let daemon = switched_on().start();
    let count = |query: &str| {
        let list = daemon.request("GET", &format!("/v1/sessions{query}"), None).expect_success();
        list["sessions"].as_array().unwrap().len()
    };
    for (lang, code) in [("py", "while True: pass"), ("bash", "while :; do :; done")] {
        let body = json!({"lang": lang, "code": code}).to_string();
        let mut client = Client::connect(&daemon.tcp());
        client.ask("POST", "/librechat/exec", &[], Some(body.as_bytes()));
        wait::until_true("the session is there", || count("") == 1);
        drop(client);
        wait::until_true("its session is gone", || count("") == 0);
    }
    // The control: the session of a client that stays is kept.
    assert_eq!(alone(daemon.tcp()).exec(&json!({"lang": "py", "code": "1"})).status, 200);
    assert_eq!(count(""), 1);
    daemon.stop_and_check();
}

#[test]
fn refusals_have_the_status_of_the_api() {
    let daemon = switched_on().config("session", "max_sessions = 1").start();
    let chat = alone(daemon.unix());
    assert_eq!(chat.exec(&json!({"lang": "py", "code": "1"})).status, 200);
    let full = chat.exec(&json!({"lang": "py", "code": "1"}));
    assert_eq!(full.status, 429, "{full:?}");
    assert!(String::from_utf8_lossy(&full.body).contains("too_many_sessions"), "{full:?}");
    let unknown = chat.exec(&json!({"lang": "py", "code": "1", "session_id": "none"}));
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"].as_str().unwrap().contains("(unknown_session)"));
    assert_eq!(chat.exec(&json!({"lang": "py"})).status, 400);
    daemon.stop_and_check();
}

fn client(daemon: &Daemon, base: &str) {
    let url = format!("{}{base}", daemon.tcp().url());
    let mut node = Command::new(host::tool("node").unwrap());
    node.arg(program::workspace().join("tests/librechat/client.cjs"));
    node.env("LIBRECHAT_CODE_BASEURL", url).env_remove("PROXY");
    let said = program::finish(&mut node, "").expect_code(0).stdout();
    assert!(said.ends_with("passed\n"), "{said}");
}

#[test]
fn code_tools_of_librechat_run_against_a_daemon() {
    if !host::has(&[Requirement::LibrechatClient]) {
        return;
    }
    let daemon = switched_on().start();
    client(&daemon, "/librechat");
    daemon.stop_and_check();
    let (own, other) = (Token::new(), Token::new());
    let tenants = two(&entry("own", &own, ""), &entry("other", &other, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    client(&daemon, &format!("/librechat/t/{}", own.text));
    assert!(!daemon.log().contains(&own.text), "the token is logged");
    daemon.stop_and_check();
}

#[test]
fn ids_of_another_tenant_are_unknown() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let with = |header| Chat { at: daemon.unix(), header };
    let mine = with(Some(("X-API-Key", owner.text.clone())));
    let theirs = with(Some(("Authorization", format!("Bearer {}", stranger.text))));
    for nobody in [with(None), with(Some(("X-API-Key", "wrong".to_owned())))] {
        assert_eq!(nobody.upload("a", "x").status, 401);
        assert_eq!(nobody.exec(&json!({"lang": "py", "code": ""})).status, 401);
    }
    let sent = mine.upload("secret", "secret").expect_success();
    let session = sent["session_id"].as_str().unwrap();
    let id = sent["files"][0]["fileId"].as_str().unwrap();
    let (download, list) = (format!("download/{session}/{id}"), format!("files/{session}"));
    assert_eq!(mine.get(&download).body, b"secret");
    assert_eq!(mine.get(&list).expect_success().as_array().unwrap().len(), 1);
    assert_eq!((theirs.get(&download).status, theirs.get(&list).status), (404, 404));
    let object = format!("sessions/{session}/objects/{id}");
    assert_eq!((mine.get(&object).status, theirs.get(&object).status), (200, 404));
    let files = json!([{"id": id, "name": "a", "storage_session_id": session}]);
    for call in [
        json!({"lang": "py", "code": "1", "session_id": session}),
        json!({"lang": "bash", "code": "cat secret", "session_id": session}),
        json!({"lang": "py", "code": "1", "files": files}),
    ] {
        assert_eq!(theirs.exec(&call).status, 404, "{call}");
    }
    daemon.stop_and_check();
}
