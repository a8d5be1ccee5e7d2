//! What is said on a kernel's sockets.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::wait;

use super::{Socket, ask, at, content, is_time, kernel, kinds};

#[test]
fn outputs_come_in_order_between_busy_and_idle() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    let messages = socket.execute("print('a')\ndisplay({'x': 1}, display_id='d')\n6 * 7");
    assert_eq!(
        kinds(&messages),
        [
            "status",
            "execute_input",
            "stream",
            "display_data",
            "execute_result",
            "execute_reply",
            "status"
        ]
    );
    assert_eq!(content(&messages, "stream"), &json!({"name": "stdout", "text": "a\n"}));
    assert_eq!(content(&messages, "display_data")["transient"]["display_id"], "d");
    assert_eq!(content(&messages, "execute_result")["data"]["text/plain"], "42");
    let reply = content(&messages, "execute_reply");
    assert_eq!((&reply["status"], &reply["execution_count"]), (&json!("ok"), &json!(1)));
    assert!(messages.iter().all(|message| is_time(&message["header"]["date"])));
    let silent = json!({"code": "7", "silent": true});
    let id = socket.ask("execute_request", silent);
    assert_eq!(kinds(&socket.answers(&id, true)), ["status", "execute_reply", "status"]);
    assert_eq!(content(&socket.execute("8"), "execute_reply")["execution_count"], 2);
    // Pieces of a line are one message, unless a busy host takes long between them.
    let code =
        "import time\nfor n in range(20):\n print('a', end='')\n time.sleep(0.001)\n print('b')";
    wait::until_true("whole lines", || {
        let messages = socket.execute(code);
        let streams = kinds(&messages).iter().filter(|kind| **kind == "stream").count();
        assert!(streams > 0);
        streams < 35
    });
    daemon.release();
}

#[test]
fn code_that_fails_aborts_what_waits() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut socket = Socket::open(&at, "", &kernel);
    let wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n";
    let codes = [&format!("{wait}1 / 0"), "1", "2"];
    let ids = codes.map(|code| socket.ask("execute_request", json!({"code": code})));
    let info = socket.ask("kernel_info_request", json!({}));
    socket.answers(&info, true);
    let go = format!("/v1/sessions/{kernel}/files/go");
    let kind = [("Content-Type", "application/octet-stream")];
    let put = Client::connect(&at).send("PUT", &go, &kind, Some(b""));
    assert!((200..300).contains(&put.status), "{put:?}");
    let [failed, first, second] = ids;
    let messages = socket.answers(&failed, true);
    let error = content(&messages, "error");
    assert_eq!(
        (&error["ename"], &error["evalue"]),
        (&json!("ZeroDivisionError"), &json!("division by zero"))
    );
    assert!(error["traceback"].as_array().unwrap().len() > 1);
    for id in [first, second] {
        assert_eq!(content(&socket.answers(&id, true), "execute_reply")["status"], "aborted");
    }
    assert_eq!(content(&socket.execute("3"), "execute_reply")["status"], "ok");
    daemon.release();
}

#[test]
fn two_sockets_hear_the_same_and_the_asker_is_replied_to() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let [mut one, mut other] = [(); 2].map(|()| Socket::open(&at, "", &kernel));
    let messages = one.execute("print('a')");
    let id = messages[0]["parent_header"]["msg_id"].as_str().unwrap().to_owned();
    let heard = other.answers(&id, false);
    let of_all: Vec<_> =
        kinds(&messages).into_iter().filter(|kind| *kind != "execute_reply").collect();
    assert_eq!(kinds(&heard), of_all);
    daemon.release();
}

#[test]
fn questions_are_answered() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    socket.execute("def doubled(x):\n    'Twice.'\n    return 2 * x");
    let mut asks = |kind: &str, asked| {
        let id = socket.ask(&format!("{kind}_request"), asked);
        content(&socket.answers(&id, true), &format!("{kind}_reply")).clone()
    };
    let info = asks("kernel_info", json!({}));
    assert_eq!(
        (&info["language_info"]["name"], &info["protocol_version"]),
        (&json!("python"), &json!("5.3"))
    );
    let completed = asks("complete", json!({"code": "doub", "cursor_pos": 4}));
    assert_eq!(
        (&completed["matches"][0], &completed["cursor_start"]),
        (&json!("doubled"), &json!(0))
    );
    let inspected = asks("inspect", json!({"code": "doubled", "cursor_pos": 7, "detail_level": 0}));
    assert!(inspected["data"]["text/plain"].as_str().unwrap().contains("Twice."), "{inspected}");
    assert_eq!(asks("is_complete", json!({"code": "for i in x:"}))["status"], "incomplete");
    assert_eq!(asks("comm_info", json!({}))["comms"], json!({}));
    let past = asks("history", json!({"hist_access_type": "tail", "n": 10}));
    assert_eq!(past["history"][0][1], 1);
    let id = socket.ask("comm_open", json!({"comm_id": "c", "target_name": "t", "data": {}}));
    assert_eq!(content(&socket.answers(&id, false), "comm_close")["comm_id"], "c");
    daemon.release();
}

#[test]
fn interrupted_code_is_an_error_and_keeps_its_kernel() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    socket.execute("x = 1");
    let id =
        socket.ask("execute_request", json!({"code": "print('on', flush=True)\nwhile True: pass"}));
    while socket.hear()["msg_type"] != "stream" {}
    socket.ask("interrupt_request", json!({}));
    let messages = socket.answers(&id, true);
    assert_eq!(content(&messages, "error")["ename"], "KeyboardInterrupt");
    assert_eq!(content(&socket.execute("x"), "execute_result")["data"]["text/plain"], "1");
    daemon.release();
}

#[test]
fn lost_kernel_is_told_and_counts_anew() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    socket.execute("1");
    let messages = socket.execute("import os; os._exit(3)");
    assert_eq!(content(&messages, "error")["ename"], "exited");
    let told = socket.hear();
    assert_eq!(
        (&told["content"]["execution_state"], &told["parent_header"]),
        (&json!("restarting"), &json!({}))
    );
    assert_eq!(content(&socket.execute("1"), "execute_reply")["execution_count"], 1);
    daemon.release();
}

#[test]
fn code_goes_on_without_its_client() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut socket = Socket::open(&at, "", &kernel);
    let code = "print('on', flush=True)\nimport time; time.sleep(0.3)\nx = 'done'";
    socket.ask("execute_request", json!({"code": code}));
    while socket.hear()["msg_type"] != "stream" {}
    drop(socket);
    wait::until_true("its end", || {
        ask(&at, "GET", &format!("/api/kernels/{kernel}"), None).json()["connections"] == 0
    });
    let mut again = Socket::open(&at, "", &kernel);
    assert_eq!(content(&again.execute("x"), "execute_result")["data"]["text/plain"], "'done'");
    daemon.release();
}

#[test]
fn what_a_kernel_here_has_not_is_an_error() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    assert_eq!(content(&socket.execute("input()"), "error")["ename"], "EOFError");
    let asked = json!({"code": "1", "user_expressions": {"a": "1"}});
    let id = socket.ask("execute_request", asked);
    let reply = content(&socket.answers(&id, true), "execute_reply").clone();
    assert_eq!((&reply["status"], &reply["execution_count"]), (&json!("ok"), &json!(2)));
    assert_eq!(reply["user_expressions"]["a"]["status"], "error");
    daemon.release();
}

#[test]
fn code_runs_for_as_long_as_the_session_may() {
    let daemon =
        super::switched_on().config("session", "max_exec_timeout = \"1s\"\nexec_timeout = \"1s\"");
    let daemon = daemon.start();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    let messages = socket.execute("while True: pass");
    // Nobody else interrupts it.
    assert_eq!(content(&messages, "error")["ename"], "KeyboardInterrupt");
    daemon.stop_and_check();
}

/// As browsers without a notebook's server between them and the gateway.
#[test]
fn binary_protocol_is_spoken_where_it_is_offered() {
    const V1: &str = "v1.kernel.websocket.jupyter.org";
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut headers = super::OPENING.to_vec();
    headers.push(("Sec-WebSocket-Protocol", V1));
    let mut client = Client::connect(&at);
    client.ask("GET", &format!("/jupyter/api/kernels/{kernel}/channels"), &headers, None);
    assert_eq!(client.receive_head().unwrap().header("sec-websocket-protocol"), Some(V1));
    let mut socket = Socket { client, asked: 0 };
    let header = json!({"msg_id": "a", "msg_type": "kernel_info_request", "username": "u",
                        "session": "s", "date": "", "version": "5.3"});
    let parts = ["shell".to_owned(), header.to_string(), "{}".into(), "{}".into(), "{}".into()];
    let mut at = 8 * (2 + parts.len() as u64);
    let mut frame = (1 + parts.len() as u64).to_le_bytes().to_vec();
    frame.extend(at.to_le_bytes());
    for part in &parts {
        at += part.len() as u64;
        frame.extend(at.to_le_bytes());
    }
    frame.extend(parts.concat().bytes());
    socket.frame(2, &frame);
    loop {
        let (kind, said) = socket.hear_raw().unwrap();
        assert_eq!((kind, &said[..8]), (2, &6_u64.to_le_bytes()[..]));
        if String::from_utf8_lossy(&said).contains("kernel_info_reply") {
            break;
        }
    }
    daemon.release();
}
