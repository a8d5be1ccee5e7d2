//! Clients that send what no client should.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Session};

use crate::{answer, literal, path, session_with};

/// Keeps all that each connection sends, and answers at its head.
const RECORDER: &str = "
import time
def record(peer):
    data = heads[-1]
    records.append(data)
    at = len(records) - 1
    peer.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n')
    while not records[at].endswith(b'0\\r\\n\\r\\n') and (more := peer.recv(65536)):
        records[at] += more
    peer.sendall(b'ok')
records = []
serve(8000, record)";

#[test]
fn malformed_requests_reach_no_server() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&answer("served"))));
    let target = path(&session, "/");
    let (long, many) = (format!("A: {}", "b".repeat(40 << 10)), "A: b\r\n".repeat(100));
    for headers in [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: +4",
        "Content-Length: -4",
        "Content-Length: 4, 5",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Content-Length : 4",
        "A: b\r\n folded",
        "A\0: b",
        "A: b\0c",
        " A: b",
        long.as_str(),
        many.as_str(),
    ] {
        let mut client = Client::connect(&daemon.tcp());
        let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n");
        client.send_raw(head.as_bytes());
        let headers = &headers[..headers.len().min(40)];
        let refused = client.receive_head();
        assert!(
            refused.as_ref().is_none_or(|found| (400..500).contains(&found.status)),
            "{headers}: {refused:?}"
        );
    }
    assert_eq!(session.value("len(heads)"), "0");
    daemon.stop_and_check();
}

/// RFC 9112, 6.3. What follows the body is the client's next request to the daemon, whom it may ask.
#[test]
fn request_with_two_lengths_smuggles_nothing() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, RECORDER);
    let inner = "GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for lengths in [
        "Content-Length: 70\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
    ] {
        let mut client = Client::connect(&daemon.tcp());
        let target = path(&session, "/");
        client.send_raw(
            format!(
                "POST {target} HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n4\r\nbody\r\n0\r\n\r\n{inner}"
            )
            .as_bytes(),
        );
        assert_eq!(client.receive().unwrap().body, b"ok", "{lengths}");
        let next = client.receive();
        assert!(next.is_none_or(|next| next.status == 404 || next.status == 400), "{lengths}");
        assert_eq!(session.value("b'smuggled' in records[-1]"), "False", "{lengths}");
        let count =
            "records[-1].lower().count(b'content-length') + records[-1].count(b'\\r\\n\\r\\n')";
        // The end of the head, and that of the last chunk.
        assert_eq!(session.value(count), "2", "{lengths}");
    }
    assert_eq!(session.value("len(records)"), "2");
    daemon.stop_and_check();
}

#[test]
fn trailers_of_a_request_go_no_further() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, RECORDER);
    let mut client = Client::connect(&daemon.tcp());
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n\
         Trailer: X-Forwarded-For, Authorization\r\n\r\n1;ext=secret\r\na\r\n\
         0\r\nX-Forwarded-For: secret\r\nAuthorization: secret\r\n\r\n",
        path(&session, "/")
    );
    client.send_raw(head.as_bytes());
    assert_eq!(client.receive().unwrap().body, b"ok");
    assert_eq!(session.value("b'secret' in records[-1]"), "False");
    assert_eq!(session.value("records[-1].endswith(b'1\\r\\na\\r\\n0\\r\\n\\r\\n')"), "True");
    daemon.stop_and_check();
}

#[test]
fn connection_names_no_header_that_the_daemon_sets() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&answer(""))));
    let named =
        "Host, X-Forwarded-For, X-Forwarded-Prefix, Content-Length, close, Transfer-Encoding";
    let headers = [("Connection", named), ("X-Forwarded-For", "192.0.2.1")];
    let mut client = Client::connect(&daemon.tcp());
    let found = client.send("POST", &path(&session, "/"), &headers, Some(b"body"));
    assert_eq!(found.status, 200);
    let head = session.value("heads[-1].decode().lower()");
    for line in [
        "host: localhost:8000".to_owned(),
        "x-forwarded-for: 127.0.0.1".to_owned(),
        format!("x-forwarded-prefix: {}", path(&session, "")),
        "content-length: 4".to_owned(),
    ] {
        assert!(head.contains(&format!("\\r\\n{line}\\r\\n")), "{line} in {head}");
    }
    daemon.stop_and_check();
}

/// On one connection, sent at once: each reaches its own session, in turn.
#[test]
fn pipelined_requests_reach_each_its_own_session() {
    let daemon = Daemon::start();
    let [one, other] = ["one", "other"]
        .map(|name| session_with(&daemon, &format!("serve(8000, {})", literal(&answer(name)))));
    let mut client = Client::connect(&daemon.tcp());
    let get = |session: &Session<'_>, more: &str| {
        format!("GET {} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n", path(session, "/"))
    };
    let asks = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    // An upgrade that is not made leaves the connection to HTTP.
    let all = [get(&one, ""), get(&other, asks), get(&one, asks), get(&other, "")].concat();
    client.send_raw(all.as_bytes());
    for expected in ["one", "other", "one", "other"] {
        assert_eq!(String::from_utf8_lossy(&client.receive().unwrap().body), expected);
    }
    for session in [&one, &other] {
        assert_eq!(session.value("[head.count(b'GET') for head in heads]"), "[1, 1]");
    }
    daemon.stop_and_check();
}

/// A `WebSocket` begins with a request without a body (RFC 6455, 4.1): with one, where the tunnel
/// begins would be anybody's guess.
#[test]
fn request_with_a_body_becomes_no_tunnel() {
    let daemon = Daemon::start();
    let code = "serve(8000, b'HTTP/1.1 101 Switching\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')";
    let session = session_with(&daemon, code);
    for (framing, body) in
        [("Content-Length: 4", "body"), ("Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n")]
    {
        let mut client = Client::connect(&daemon.tcp());
        client.send_raw(
            format!(
                "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{framing}\r\n\r\n{body}",
                path(&session, "/")
            )
            .as_bytes(),
        );
        client.receive().unwrap().expect_problem(502, "bad_port_answer");
        assert_eq!(session.value("b'pgrade' in heads[-1]"), "False", "{framing}");
    }
    daemon.stop_and_check();
}

#[test]
fn endless_request_ends_with_an_answer_or_its_connection() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, RECORDER);
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        path(&session, "/")
    );
    for (what, start, flood) in [
        ("extension", "1;", "x".repeat(65536)),
        ("trailer", "0\r\nA: ", "x".repeat(65536)),
        ("trailers", "0\r\n", "A: b\r\n".repeat(10000)),
        ("size", "", "f".repeat(65536)),
    ] {
        let mut client = Client::connect(&daemon.tcp());
        client.send_raw(format!("{head}{start}").as_bytes());
        for _ in 0..64 {
            client.send_raw(flood.as_bytes());
        }
        // Nothing of it is a whole answer of the server's.
        assert!(client.receive().is_none_or(|found| found.status >= 400), "{what}");
        let whole = "any(b'x' * 100 in one or len(one) > 9999 for one in records[-1:])";
        assert_eq!(session.value(whole), "False");
    }
    daemon.stop_and_check();
}

/// A Unix socket tells a client that only sends no more from one that has left.
#[test]
fn client_that_sends_no_more_gets_its_answer() {
    let daemon = crate::DAEMON.hold();
    let code = format!(
        "go = threading.Event()\ndef late(peer):\n    go.wait()\n    peer.sendall({})\nserve(8000, late)",
        literal(&answer("late"))
    );
    let session = session_with(&daemon, &code);
    let mut client = Client::connect(&daemon.unix());
    client.ask("GET", &path(&session, "/"), &[], None);
    client.half_close();
    vivarium_tests::wait::until_true("the request", || session.value("len(heads)") == "1");
    assert_eq!(session.execute("go.set()").ok().stderr(), "");
    assert_eq!(client.receive().unwrap().body, b"late");
    daemon.release();
}

/// They hold what their session has, and nothing of another's.
#[test]
fn silent_connections_keep_no_other_session_waiting() {
    const MAX: usize = 64;
    let daemon = Daemon::start();
    // Without threads, of which a session may not have as many.
    let accept = "
held = []
def accept(listener):
    while True: held.append(listener.accept()[0])
listener = socket.create_server(('127.0.0.1', 8000), backlog=128)
threading.Thread(target=accept, args=(listener,), daemon=True).start()";
    let silent = session_with(&daemon, accept);
    let other = session_with(&daemon, &format!("serve(8000, {})", literal(&answer("other"))));
    let mut held = Vec::new();
    for _ in 0..MAX {
        let mut client = Client::connect(&daemon.tcp());
        client.ask("GET", &path(&silent, "/"), &[], None);
        held.push(client);
    }
    vivarium_tests::wait::until_true("all of them", || {
        silent.value("len(held)") == MAX.to_string()
    });
    let mut late = Client::connect(&daemon.tcp());
    late.ask("GET", &path(&silent, "/"), &[], None);
    assert_eq!(crate::get(&daemon, &other, "/").body, b"other");
    late.receive().unwrap().expect_problem(429, "too_many_port_connections");
    drop(held);
    // Their places are free again.
    let put = format!("serve(8001, {})", literal(&answer("free")));
    assert_eq!(silent.execute_with(&json!({"code": put})).ok().stderr(), "");
    let free = daemon.request("GET", &silent.path("/ports/8001/"), None);
    assert_eq!(free.status, 200);
    daemon.stop_and_check();
}
