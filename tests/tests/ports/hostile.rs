//! Servers that do what no server should.

use vivarium_tests::Daemon;
use vivarium_tests::http::Client;

use crate::{answer, get, literal, path, session_with};

/// The answer to a request if the server answers each with these bytes and closes the connection.
fn answers(daemon: &Daemon, bytes: &str) -> vivarium_tests::http::Response {
    let session = session_with(daemon, &format!("serve(8000, {bytes})"));
    get(daemon, &session, "/")
}

#[test]
fn what_is_no_answer_is_a_problem() {
    let daemon = crate::DAEMON.hold();
    for bytes in [
        "b''",
        "b'hello'",
        "b'HTTP/1.1 200 OK\\r\\n'",
        "b'HTTP/1.1 200 OK\\r\\nNo colon\\r\\n\\r\\n'",
        "b'HTTP/1.1 200 OK\\r\\nA: b\\r\\n folded\\r\\n\\r\\n'",
        "b'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nab'",
        "b'HTTP/1.1 200 OK\\r\\nA\\0B: c\\r\\n\\r\\n'",
        "b'HTTP/1.1 99 Few\\r\\n\\r\\n'",
        "b'HTTP/1.1 200 OK\\r\\n' + b'A: b\\r\\n' * 1000 + b'\\r\\n'",
        "b'HTTP/1.1 200 OK\\r\\nA: ' + b'b' * 2**20 + b'\\r\\n\\r\\n'",
        "b'HTTP/1.1 101 Switching\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n'",
        "b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'",
    ] {
        let found = answers(&daemon, bytes);
        let problem = found.expect_problem(502, "bad_port_answer");
        assert!(problem["detail"].as_str().unwrap().contains("port 8000"), "{bytes} {problem}");
    }
    daemon.release();
}

#[test]
fn endless_head_is_cut_off() {
    let daemon = crate::DAEMON.hold();
    let heads = [
        ("one header", "b'HTTP/1.1 200 OK\\r\\nA: '", "b'b' * 65536"),
        ("headers", "b'HTTP/1.1 200 OK\\r\\n'", "b'A: b\\r\\n'"),
        ("informational answers", "b''", "b'HTTP/1.1 100 Continue\\r\\n\\r\\n' * 100"),
        ("early hints", "b''", "b'HTTP/1.1 103 Early Hints\\r\\nLink: x\\r\\n\\r\\n' * 100"),
    ];
    for (what, head, flood) in heads {
        let session = session_with(&daemon, &endless(head, flood));
        get(&daemon, &session, "/").expect_problem(502, "bad_port_answer");
        assert_eq!(session.value("ended.wait(20)"), "True", "{what}");
    }
    daemon.release();
}

#[test]
fn departed_client_ends_an_endless_answer() {
    let daemon = Daemon::start();
    let code = endless("b'HTTP/1.1 200 OK\\r\\n\\r\\n'", "b'x' * 65536");
    let session = session_with(&daemon, &code);
    let mut client = Client::connect(&daemon.tcp());
    client.ask("GET", &path(&session, "/"), &[], None);
    assert_eq!(session.value("begun.wait(20)"), "True");
    // The daemon answers others meanwhile.
    assert_eq!(daemon.request("GET", "/healthz", None).status, 200);
    drop(client);
    assert_eq!(session.value("ended.wait(20)"), "True");
    daemon.stop_and_check();
}

/// A server that never stops.
pub(crate) fn endless(head: &str, flood: &str) -> String {
    format!(
        "
def endless(peer):
    peer.sendall({head})
    try:
        while True:
            peer.sendall({flood})
            begun.set()
    except OSError: ended.set()
begun, ended = threading.Event(), threading.Event()
serve(8000, endless)"
    )
}

#[test]
fn departed_client_ends_a_silent_server() {
    let daemon = Daemon::start();
    let code = "
def silent(peer):
    begun.set()
    if peer.recv(1) == b'': ended.set()
begun, ended = threading.Event(), threading.Event()
serve(8000, silent)";
    let session = session_with(&daemon, code);
    for endpoint in [daemon.tcp(), daemon.unix()] {
        let mut client = Client::connect(&endpoint);
        client.ask("GET", &path(&session, "/"), &[], None);
        assert_eq!(session.value("begun.wait(20)"), "True");
        drop(client);
        assert_eq!(session.value("ended.wait(20)"), "True");
        assert_eq!(session.execute("begun.clear(); ended.clear()").ok().stderr(), "");
    }
    daemon.stop_and_check();
}

/// What comes after an answer is the answer to nothing.
#[test]
fn second_answer_is_not_that_to_another_request() {
    let daemon = Daemon::start();
    let twice = format!("{}{}", answer("first"), answer("smuggled"));
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&twice)));
    let mut client = Client::connect(&daemon.tcp());
    for _ in 0..3 {
        let found = client.send("GET", &path(&session, "/"), &[], None);
        assert_eq!(found.body, b"first");
        assert_eq!(client.json("GET", "/healthz", None).status, 200);
    }
    daemon.stop_and_check();
}

/// Both ends of the request are those that the daemon found, whatever else its body looks like.
#[test]
fn body_is_not_another_request() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&answer("once"))));
    let mut client = Client::connect(&daemon.tcp());
    let inner = "GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let found = client.send("POST", &path(&session, "/"), &[], Some(inner.as_bytes()));
    assert_eq!(found.body, b"once");
    let both = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        path(&session, "/")
    );
    client.send_raw(both.as_bytes());
    client.receive().unwrap();
    assert_eq!(
        session.value("any(b'content-length: 4\\r\\n' in head.lower() for head in heads)"),
        "False"
    );
    daemon.stop_and_check();
}

#[test]
fn cut_body_is_not_a_whole_one() {
    let daemon = Daemon::start();
    for bytes in [
        "b'HTTP/1.1 200 OK\\r\\nContent-Length: 10\\r\\n\\r\\nhalf'",
        "b'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n4\\r\\nhalf\\r\\n'",
        "b'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nffffffffffffffffff\\r\\nx'",
    ] {
        let session = session_with(&daemon, &format!("serve(8000, {bytes})"));
        let mut client = Client::connect(&daemon.tcp());
        client.ask("GET", &path(&session, "/"), &[], None);
        assert!(client.receive().is_none(), "{bytes}");
    }
    daemon.stop_and_check();
}

#[test]
fn end_of_the_session_ends_an_answer() {
    let daemon = Daemon::start();
    let code = "
def stream(peer):
    peer.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\nbegun')
    threading.Event().wait()
serve(8000, stream)";
    let session = session_with(&daemon, code);
    let mut client = Client::connect(&daemon.tcp());
    client.ask("GET", &path(&session, "/"), &[], None);
    assert_eq!(client.receive_head().unwrap().status, 200);
    assert_eq!(client.chunk().unwrap(), b"begun");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    // A body that ends with its connection has no other end.
    assert!(client.chunk().is_none_or(|chunk| chunk.is_empty()));
    daemon.stop_and_check();
}
