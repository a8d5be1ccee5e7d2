//! Bodies are passed on as they come, in both directions.

use serde_json::json;
use vivarium_tests::Daemon;
use vivarium_tests::http::Client;

use crate::{path, session_with};

#[test]
fn each_event_of_a_stream_arrives_before_the_next_is_sent() {
    let daemon = Daemon::start();
    let code = "
go = threading.Semaphore(0)
def events(peer):
    if b'/more' in heads[-1]:
        go.release()
        return peer.sendall(b'HTTP/1.1 204 No Content\\r\\n\\r\\n')
    peer.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n\\r\\n')
    for number in range(5):
        peer.sendall(b'data: %d\\n\\n' % number)
        go.acquire()
serve(8000, events)";
    let session = session_with(&daemon, code);
    let mut client = Client::connect(&daemon.tcp());
    client.ask("GET", &path(&session, "/"), &[], None);
    assert_eq!(client.receive_head().unwrap().header("content-type"), Some("text/event-stream"));
    for number in 0..5 {
        assert_eq!(client.chunk().unwrap(), format!("data: {number}\n\n").into_bytes());
        assert_eq!(crate::get(&daemon, &session, "/more").status, 204);
    }
    assert!(client.chunk().unwrap().is_empty());
    daemon.stop_and_check();
}

#[test]
fn each_part_of_a_request_arrives_before_the_next_is_sent() {
    let daemon = Daemon::start();
    let code = "
def echo(peer):
    rest = heads[-1].split(b'\\r\\n\\r\\n', 1)[1]
    peer.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n' + rest)
    while not rest.endswith(b'0\\r\\n\\r\\n'):
        rest = peer.recv(65536)
        peer.sendall(rest)
serve(8000, echo)";
    let session = session_with(&daemon, code);
    let mut client = Client::connect(&daemon.tcp());
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        path(&session, "/")
    );
    client.send_raw(head.as_bytes());
    assert_eq!(client.receive_head().unwrap().status, 200);
    let mut echoed = Vec::new();
    for part in [&b"1\r\nb\r\n"[..], b"1\r\nc\r\n", b"0\r\n\r\n"] {
        let before = echoed.len();
        while echoed.len() == before {
            echoed.extend(client.chunk().unwrap());
        }
        client.send_raw(part);
    }
    while let Some(chunk) = client.chunk().filter(|chunk| !chunk.is_empty()) {
        echoed.extend(chunk);
    }
    assert_eq!(String::from_utf8(echoed).unwrap(), "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n");
    daemon.stop_and_check();
}

#[test]
fn large_bodies_arrive_whole() {
    const BYTES: usize = 24 << 20;
    let daemon = crate::DAEMON.hold();
    let code = "
def echo(peer):
    head, body = heads[-1].split(b'\\r\\n\\r\\n', 1)
    length = int(head.lower().split(b'content-length: ')[1].split()[0])
    parts = [body]
    while (length := length - len(parts[-1])) > 0:
        parts.append(peer.recv(1 << 20))
    body = b''.join(parts)
    peer.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(body) + body)
serve(8000, echo)";
    let session = session_with(&daemon, code);
    let body: Vec<u8> = (0..BYTES).map(|index| u8::try_from(index % 251).unwrap()).collect();
    let mut client = Client::connect(&daemon.unix());
    // At one time: the server answers only after it has all, so that neither waits for the other.
    let found = client.send("PUT", &path(&session, "/"), &[], Some(&body));
    assert_eq!(found.status, 200);
    assert!(found.body == body, "{} bytes", found.body.len());
    assert_eq!(session.execute_with(&json!({"code": "heads.clear()"})).ok().stderr(), "");
    daemon.release();
}
