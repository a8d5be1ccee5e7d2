//! `WebSocket`, by a server and a client that have nothing but the standard library.

use vivarium_tests::Daemon;
use vivarium_tests::http::Client;
use vivarium_tests::wait;

use crate::{path, session_with};

/// RFC 6455: the handshake, and text frames under 126 bytes.
const ECHO: &str = "
import base64, hashlib
def echo(peer):
    lines = heads[-1].decode().split('\\r\\n')
    headers = {name.lower(): value for name, _, value in (line.partition(': ') for line in lines)}
    key = headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    peer.sendall(('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'
                  f'Sec-WebSocket-Accept: {accept}\\r\\nSec-WebSocket-Protocol: chat\\r\\nSet-Cookie: a=b\\r\\n\\r\\n').encode())
    while (head := peer.recv(2)) and head[0] == 0x81:
        mask, text = peer.recv(4), peer.recv(head[1] & 127)
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text)).upper()
        peer.sendall(bytes([0x81, len(text)]) + text)
    ended.set()
ended = threading.Event()
serve(8000, echo)";

fn asks(daemon: &Daemon, path: &str) -> Client {
    let mut client = Client::connect(&daemon.tcp());
    let headers = [
        ("Connection", "keep-alive, Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "chat"),
        ("Authorization", "Bearer secret"),
    ];
    client.ask("GET", path, &headers, None);
    client
}

fn open(daemon: &Daemon, path: &str) -> Client {
    let mut client = asks(daemon, path);
    let head = client.receive_head().unwrap();
    assert_eq!(head.status, 101);
    assert_eq!(head.header("upgrade"), Some("websocket"));
    assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.header("sec-websocket-protocol"), Some("chat"));
    assert_eq!(head.header("set-cookie"), None);
    client
}

fn says(client: &mut Client, text: &[u8]) {
    let mask = [1, 2, 3, 4];
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap()];
    frame.extend(mask);
    frame.extend(text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    client.send_raw(&frame);
}

fn hears(client: &mut Client) -> Vec<u8> {
    let head = client.exactly(2).unwrap();
    assert_eq!(head[0], 0x81);
    client.exactly(head[1].into()).unwrap()
}

#[test]
fn messages_go_both_ways_until_the_client_leaves() {
    let daemon = crate::DAEMON.hold();
    let session = session_with(&daemon, ECHO);
    let mut client = open(&daemon, &path(&session, "/socket"));
    for text in ["one", "two", "three"] {
        says(&mut client, text.as_bytes());
        assert_eq!(hears(&mut client), text.to_uppercase().into_bytes());
    }
    assert_eq!(session.value("b'secret' in heads[-1]"), "False");
    assert_eq!(session.value("ended.is_set()"), "False");
    drop(client);
    assert_eq!(session.value("ended.wait(20)"), "True");
    daemon.release();
}

#[test]
fn end_of_the_session_ends_its_sockets() {
    let daemon = crate::DAEMON.hold();
    let session = session_with(&daemon, ECHO);
    let mut client = open(&daemon, &path(&session, "/"));
    says(&mut client, b"x");
    assert_eq!(hears(&mut client), b"X");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    assert_eq!(client.exactly(1), None);
    daemon.release();
}

#[test]
fn daemon_stops_with_sockets_open() {
    let daemon = crate::DAEMON.hold();
    let session = session_with(&daemon, ECHO);
    let mut client = open(&daemon, &path(&session, "/"));
    says(&mut client, b"x");
    assert_eq!(hears(&mut client), b"X");
    daemon.release();
    assert_eq!(client.exactly(1), None);
}

/// A socket that is open is a request under way: it is not closed for others, and it counts.
#[test]
fn open_sockets_hold_their_connections() {
    let daemon = vivarium_tests::Setup::default().config("server", "max_connections = 8").start();
    let session = session_with(&daemon, ECHO);
    let mut client = open(&daemon, &path(&session, "/"));
    let idle: Vec<_> = (0..20).filter_map(|_| Client::try_connect(&daemon.tcp()).ok()).collect();
    wait::until_true("an answer", || {
        Client::connect(&daemon.tcp()).json("GET", "/healthz", None).status == 200
    });
    says(&mut client, b"still here");
    assert_eq!(hears(&mut client), b"STILL HERE");
    drop(idle);
    daemon.stop_and_check();
}

#[test]
fn switch_to_another_protocol_is_a_problem() {
    let daemon = crate::DAEMON.hold();
    for upgrade in [
        "",
        "Upgrade: h2c\\r\\n",
        "Upgrade: websocket, h2c\\r\\n",
        "Upgrade: websocket\\r\\nUpgrade: h2c\\r\\n",
    ] {
        let code = format!(
            "serve(8000, b'HTTP/1.1 101 Switching\\r\\nConnection: upgrade\\r\\n{upgrade}\\r\\nsmuggled')"
        );
        let session = session_with(&daemon, &code);
        let mut client = asks(&daemon, &path(&session, "/"));
        client.receive().unwrap().expect_problem(502, "bad_port_answer");
        assert_eq!(client.json("GET", "/healthz", None).status, 200, "{upgrade}");
    }
    daemon.release();
}

/// What nobody reads stays in the server, but for what sockets hold.
#[test]
fn flood_into_a_socket_that_nobody_reads_stops() {
    const MAX_BYTES: u64 = 32 << 20;
    let daemon = crate::DAEMON.hold();
    let code = "
def flood(peer):
    global sent
    peer.sendall(b'HTTP/1.1 101 Switching\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')
    try:
        while True: sent += peer.send(b'x' * 65536)
    except OSError: ended.set()
sent, ended = 0, threading.Event()
serve(8000, flood)";
    let session = session_with(&daemon, code);
    let mut client = asks(&daemon, &path(&session, "/"));
    assert_eq!(client.receive_head().unwrap().status, 101);
    let mut before = 0;
    wait::until_true("no more", || {
        let sent = session.value("sent").parse::<u64>().unwrap();
        assert!(sent < MAX_BYTES, "{sent}");
        std::mem::replace(&mut before, sent) == sent && sent > 0
    });
    assert_eq!(daemon.request("GET", "/healthz", None).status, 200);
    drop(client);
    assert_eq!(session.value("ended.wait(20)"), "True");
    daemon.release();
}
