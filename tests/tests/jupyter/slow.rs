//! Clients that read nothing, and clients that vanish.

use serde_json::{Value, json};
use vivarium_tests::http::Endpoint;
use vivarium_tests::wait;

use super::{Socket, ask, at, content, kernel, kinds};

/// Displays, each of 16 KiB: together more than all buffers of a connection and all that may wait, and
/// less than an execution may display.
const DISPLAYS: usize = 1900;

fn connections(at: &Endpoint, kernel: &str) -> Value {
    ask(at, "GET", &format!("/api/kernels/{kernel}"), None).expect_success()["connections"].clone()
}

/// One that reads nothing is cut off while it is still there, and does not get what waited without end.
/// The other, which reads, hears all.
#[test]
fn client_that_reads_nothing_is_cut_off() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut slow = Socket::open(&at, "", &kernel);
    let mut good = Socket::open(&at, "", &kernel);
    assert_eq!(connections(&at, &kernel), 2);
    let code = format!(
        "class Large:\n    def __repr__(self): return 'x' * 16384\n\
         for n in range({DISPLAYS}): display(Large())\n'end'"
    );
    let messages = good.execute(&code);
    assert_eq!(content(&messages, "execute_result")["data"]["text/plain"], "'end'");
    let displays = kinds(&messages).into_iter().filter(|kind| *kind == "display_data").count();
    assert_eq!(displays, DISPLAYS);
    assert_eq!(connections(&at, &kernel), 1);
    let heard = slow.ended();
    assert!(heard < DISPLAYS, "it was sent {heard} messages");
    assert_eq!(content(&good.execute("1"), "execute_reply")["status"], "ok");
    daemon.release();
}

#[test]
fn clients_that_vanish_are_forgotten() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut good = Socket::open(&at, "", &kernel);
    // Without a word, within the head of a frame, within its payload, and between parts of a message.
    for part in [&b""[..], b"\x81", b"\x81\xfe\x10\0\0\0\0\0{", b"\x01\x81\0\0\0\0{"] {
        let mut socket = Socket::open(&at, "", &kernel);
        assert_eq!(connections(&at, &kernel), 2);
        socket.client.send_raw(part);
        drop(socket);
        wait::until_true("its end", || connections(&at, &kernel) == 1);
    }
    // While it is told something.
    let mut socket = Socket::open(&at, "", &kernel);
    let code = "for n in range(200): display('x' * 16384)\n'end'";
    let id = socket.ask("execute_request", json!({"code": code}));
    while socket.hear()["msg_type"] != "display_data" {}
    drop(socket);
    let messages = good.answers(&id, false);
    assert_eq!(content(&messages, "execute_result")["data"]["text/plain"], "'end'");
    wait::until_true("its end", || connections(&at, &kernel) == 1);
    daemon.release();
}
