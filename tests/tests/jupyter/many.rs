//! Many notebooks at once.

use std::thread;

use serde_json::json;
use vivarium_tests::Daemon;

use super::{Socket, at, content, kernel, switched_on};

const NOTEBOOKS: usize = 200;

/// Starters of kernels at a time.
const STARTERS: usize = 8;

/// How far the daemon's own memory may grow for one kernel and its socket. A debug build took 120 KiB.
const KIB_PER_NOTEBOOK: u64 = 1024;

fn memory_kib(daemon: &Daemon) -> u64 {
    daemon.process().status_number("VmRSS").unwrap()
}

/// Each has a kernel and a socket of its own, all execute at once, and all get their own answer.
#[test]
fn notebooks_at_once_get_their_own_answers() {
    let daemon = switched_on().config("session", "max_sessions = 250").start();
    let at = at(&daemon);
    let before = memory_kib(&daemon);
    let mut sockets: Vec<Socket> = thread::scope(|scope| {
        let start = |_| {
            let many =
                || (0..NOTEBOOKS / STARTERS).map(|_| Socket::open(&at, "", &kernel(&at, "")));
            scope.spawn(move || many().collect::<Vec<_>>())
        };
        let starters: Vec<_> = (0..STARTERS).map(start).collect();
        starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
    });
    assert_eq!(sockets.len(), NOTEBOOKS);
    let ask = |(number, socket): (usize, &mut Socket)| {
        let code = format!("print({number})\n{number} * {number}");
        socket.ask("execute_request", json!({ "code": code }))
    };
    let ids: Vec<_> = sockets.iter_mut().enumerate().map(ask).collect();
    for (number, (socket, id)) in sockets.iter_mut().zip(&ids).enumerate() {
        let messages = socket.answers(id, true);
        assert_eq!(content(&messages, "stream")["text"], format!("{number}\n"));
        let result = &content(&messages, "execute_result")["data"]["text/plain"];
        assert_eq!(result, &json!((number * number).to_string()));
    }
    let grown = memory_kib(&daemon) - before;
    assert!(grown < NOTEBOOKS as u64 * KIB_PER_NOTEBOOK, "{grown} KiB");
    daemon.stop_and_check();
}
