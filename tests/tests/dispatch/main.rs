//! Tool dispatch: one call, one text, and no more rights than its token has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Setup, Shared, wait};

static DAEMON: Shared = Shared::new(switched_on);

fn switched_on() -> Setup {
    Setup::default().config("dialects", "tools = true")
}

fn raw(at: &Endpoint, token: Option<&str>, kind: &str, body: &[u8]) -> Response {
    let token = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("Content-Type", kind)];
    headers.extend(token.as_deref().map(|token| ("Authorization", token)));
    Client::connect(at).send("POST", "/tools", &headers, Some(body))
}

fn content(response: &Response) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    let answer = response.json();
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    answer["content"].as_str().unwrap().to_owned()
}

fn call(at: &Endpoint, token: Option<&str>, name: &str, arguments: Value) -> String {
    let body = json!({"name": name, "arguments": arguments}).to_string();
    content(&raw(at, token, "application/json", body.as_bytes()))
}

/// The session that an answer names.
fn session(content: &str) -> String {
    let (_, rest) = content.split_once("[session ").unwrap_or_else(|| panic!("{content}"));
    rest.split_once(']').unwrap().0.to_owned()
}

#[test]
fn state_stays_with_the_session_that_is_passed_on() {
    let daemon = DAEMON.hold();
    let at = daemon.unix();
    let first =
        call(&at, None, "run_python", json!({"code": "x = 41\nopen('a.txt', 'w').write('é')"}));
    let id = session(&first);
    assert!(first.contains(&format!("[file a.txt in session {id}]")), "{first}");
    let second = call(&at, None, "run_python", json!({"code": "x + 1", "session": id}));
    assert!(second.starts_with("[result] 42\n"), "{second}");
    let read = call(&at, None, "read_file", json!({"path": "a.txt", "session": id}));
    assert_eq!(read, "é");
    let ran = call(&at, None, "run_command", json!({"command": "exit 3", "session": id}));
    assert!(ran.contains("[exit code 3]"), "{ran}");
    call(&at, None, "end_session", json!({"session": id}));
    let ended = call(&at, None, "run_python", json!({"code": "x", "session": id}));
    assert!(ended.contains("unknown_session"), "{ended}");
}

#[test]
fn what_goes_wrong_is_text() {
    let daemon = DAEMON.hold();
    let at = daemon.unix();
    let raised = call(&at, None, "run_python", json!({"code": "1/0"}));
    assert!(raised.contains("ZeroDivisionError"), "{raised}");
    assert!(call(&at, None, "format_disk", json!({})).contains("format_disk"));
    let unnamed = call(&at, None, "run_python", json!({"code": 1}));
    assert!(unnamed.contains("code") && unnamed.contains("invalid_arguments"), "{unnamed}");
    let escaped = call(&at, None, "write_file", json!({"path": "../a", "text": ""}));
    assert!(escaped.ends_with(')') && !escaped.contains("bytes now"), "{escaped}");
    let bad: [&[u8]; 6] =
        [b"", b"{", b"[]", b"{\"name\": 1}", b"{\"name\": \"x\", \"arguments\": []}", b"\xff"];
    for body in bad {
        let said = content(&raw(&at, None, "application/json", body));
        assert!(said.contains("(invalid_arguments)"), "{said}");
    }
    let kind = content(&raw(&at, None, "text/plain", b"{\"name\": \"list_sessions\"}"));
    assert!(kind.contains("unsupported_media_type"), "{kind}");
    // The control: the same body with its type.
    let listed = content(&raw(&at, None, "application/json", b"{\"name\": \"list_sessions\"}"));
    assert!(!listed.contains("unsupported_media_type"), "{listed}");
}

#[test]
fn tokens_and_tenants_are_those_of_the_api() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    for token in [None, Some("wrong")] {
        for body in [&b"{\"name\": \"list_sessions\"}"[..], b"{"] {
            raw(&at, token, "application/json", body).expect_problem(401, "unauthenticated");
        }
    }
    let (mine, theirs) = (Some(owner.text.as_str()), Some(stranger.text.as_str()));
    let id = session(&call(&at, mine, "write_file", json!({"path": "secret", "text": "secret"})));
    let calls = [
        ("run_python", json!({"code": "open('secret').read()"})),
        ("run_command", json!({"command": "cat secret"})),
        ("write_file", json!({"path": "secret", "text": ""})),
        ("read_file", json!({"path": "secret"})),
        ("list_files", json!({})),
        ("reset_session", json!({})),
        ("end_session", json!({})),
    ];
    for (tool, arguments) in calls {
        let with = |session: &str| {
            let mut arguments = arguments.clone();
            arguments["session"] = json!(session);
            arguments
        };
        let said = call(&at, theirs, tool, with(&id));
        assert!(said.contains("unknown_session"), "{tool}: {said}");
        let of_none = call(&at, theirs, tool, with("never-was"));
        assert_eq!(
            of_none.replace("never-was", &id),
            said,
            "{tool} tells another's session from none"
        );
    }
    let read = call(&at, mine, "read_file", json!({"path": "secret", "session": id}));
    assert_eq!(read, "secret");
    daemon.stop_and_check();
}

#[test]
fn body_over_the_limit_is_refused_before_it_is_read() {
    let daemon = switched_on().config("server", "max_body_bytes = 65536").start();
    let mut client = Client::connect(&daemon.unix());
    client.send_raw(
        b"POST /tools HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n",
    );
    let said = content(&client.receive().unwrap());
    assert!(said.contains("body_too_large"), "{said}");
    daemon.stop_and_check();
}

#[test]
fn session_of_a_client_that_left_is_ended() {
    let daemon = switched_on().start();
    let count = || {
        let list = daemon.request("GET", "/v1/sessions", None).expect_success();
        list["sessions"].as_array().unwrap().len()
    };
    let body = json!({"name": "run_python", "arguments": {"code": "while True: pass"}}).to_string();
    let mut client = Client::connect(&daemon.tcp());
    client.ask("POST", "/tools", &[], Some(body.as_bytes()));
    wait::until_true("the session is there", || count() == 1);
    drop(client);
    wait::until_true("its session is gone", || count() == 0);
    call(&daemon.tcp(), None, "run_python", json!({"code": "1"}));
    assert_eq!(count(), 1, "the session of a client that stays is kept");
    daemon.stop_and_check();
}

#[test]
fn switched_off_it_is_not_there() {
    let daemon = Setup::default().start();
    let answer = raw(&daemon.unix(), None, "application/json", b"{\"name\": \"list_sessions\"}");
    answer.expect_problem(404, "unknown_path");
    daemon.stop_and_check();
}
