//! Servers in sessions, as clients of the daemon see them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bodies;
mod browser;
mod clients;
mod frameworks;
mod framing;
mod headers;
mod hostile;
mod preview;
mod preview_tenants;
mod refusals;
mod servers;
mod websocket;

use serde_json::json;
use vivarium_tests::http::{Client, Response};
use vivarium_tests::{Daemon, Session, Setup, Shared};

/// For tests that ask nothing of it that another would notice.
static DAEMON: Shared = Shared::new(Setup::default);

/// `serve(port, answer)`: answers each connection, once it has sent a request's head, with these bytes,
/// or as this function of the connection likes. `heads` has the heads.
const RAW_SERVER: &str = r"
import socket, threading

heads = []

def read_head(peer):
    data = b''
    while b'\r\n\r\n' not in data and (more := peer.recv(65536)):
        data += more
    return data

def serve(port, answer, host='127.0.0.1'):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    def converse(peer):
        with peer:
            heads.append(read_head(peer))
            answer(peer) if callable(answer) else peer.sendall(answer)
    def accept():
        while True:
            peer = listener.accept()[0]
            threading.Thread(target=converse, args=(peer,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
";

/// A session with a network of its own, in which this has run after [`RAW_SERVER`].
#[track_caller]
fn session_with<'d>(daemon: &'d Daemon, code: &str) -> Session<'d> {
    let session = daemon.session_with(&json!({"network": "loopback"}));
    assert_eq!(session.execute(&format!("{RAW_SERVER}\n{code}")).ok().stderr(), "");
    session
}

fn path(session: &Session<'_>, rest: &str) -> String {
    session.path(&format!("/ports/8000{rest}"))
}

/// The answer of the server on port 8000.
#[track_caller]
fn get(daemon: &Daemon, session: &Session<'_>, rest: &str) -> Response {
    Client::connect(&daemon.tcp()).send("GET", &path(session, rest), &[], None)
}

/// An answer in HTTP whose body this is.
fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// As a literal of bytes in Python.
fn literal(text: &str) -> String {
    format!("b{text:?}")
}
