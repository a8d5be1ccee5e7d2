//! What of requests reaches servers, and what of their answers reaches clients.

use std::collections::BTreeSet;

use vivarium_tests::Daemon;
use vivarium_tests::http::Client;

use crate::{answer, get, literal, path, session_with};

#[test]
fn server_does_not_learn_who_asks() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&answer(""))));
    let hostile = "Authorization: Bearer secret\r\nCookie: a=secret\r\nProxy-Authorization: secret\r\n\
                   Connection: X-Secret, close\r\nX-Secret: secret\r\nTE: trailers\r\nUpgrade: h2c\r\n\
                   Referer: http://localhost/secret\r\nForwarded: for=secret\r\nX-Kept: kept\r\n";
    // A server in the session that is asked directly gets all of it.
    let direct = format!(
        "s = socket.create_connection(('127.0.0.1', 8000)); s.sendall({}); s.recv(99); heads[-1].count(b'ecret')",
        literal(&format!("GET / HTTP/1.1\r\nHost: a\r\n{hostile}\r\n"))
    );
    assert_eq!(session.value(&direct), "8");

    let mut client = Client::connect(&daemon.tcp());
    let request =
        format!("GET {} HTTP/1.1\r\nHost: localhost:1\r\n{hostile}\r\n", path(&session, "/x"));
    client.send_raw(request.as_bytes());
    assert_eq!(client.receive().unwrap().status, 200);
    let head = session.value("heads[-1].decode().lower()");
    let lines: BTreeSet<_> =
        head.trim_matches('\'').split("\\r\\n").filter(|line| !line.is_empty()).collect();
    let prefix = format!("x-forwarded-prefix: {}", path(&session, ""));
    let expected = [
        "get /x http/1.1",
        "connection: close",
        "host: localhost:8000",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-host: localhost:1",
        "x-forwarded-proto: http",
        "x-kept: kept",
        &prefix,
    ];
    assert_eq!(lines, BTreeSet::from(expected));
    daemon.stop_and_check();
}

#[test]
fn answer_does_not_act_on_the_origin_of_the_api() {
    let daemon = crate::DAEMON.hold();
    let hostile = "HTTP/1.1 200 OK\r\nX-Kept: kept\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n\
                   Service-Worker-Allowed: /\r\nClear-Site-Data: \"*\"\r\nAlt-Svc: h2=\":1\"\r\n\
                   Strict-Transport-Security: max-age=9\r\nAccess-Control-Allow-Origin: *\r\n\
                   Content-Security-Policy: sandbox allow-scripts allow-same-origin\r\n\
                   X-Content-Type-Options: none\r\nX-Accel-Redirect: /etc/passwd\r\nX-Sendfile: /etc/passwd\r\n\
                   WWW-Authenticate: Basic\r\nConnection: X-Hop\r\nX-Hop: hop\r\nTransfer-Encoding: chunked\r\n\
                   Trailer: Set-Cookie\r\n\r\n2\r\nhi\r\n0\r\nSet-Cookie: late=1\r\n\r\n";
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(hostile)));
    let found = get(&daemon, &session, "/");
    assert_eq!((found.status, found.body.as_slice()), (200, &b"hi"[..]));
    let names: BTreeSet<_> = found.headers.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "content-security-policy",
        "content-type",
        "date",
        "transfer-encoding",
        "x-content-type-options",
        "x-kept",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    assert_eq!(found.header("content-security-policy"), Some("sandbox"));
    assert_eq!(found.header("x-content-type-options"), Some("nosniff"));
    daemon.release();
}

#[test]
fn server_sends_nobody_out_of_its_own_path() {
    let daemon = Daemon::start();
    let code = "
def redirect(peer):
    place = heads[-1].split()[1].split(b'=', 1)[1]
    peer.sendall(b'HTTP/1.1 307 Away\\r\\nLocation: ' + bytes.fromhex(place.decode()) + b'\\r\\nContent-Length: 0\\r\\n\\r\\n')
serve(8000, redirect)";
    let session = session_with(&daemon, code);
    let location = |place: &str| {
        let hex: String = place.bytes().map(|byte| format!("{byte:02x}")).collect();
        let found = get(&daemon, &session, &format!("/a/b?to={hex}"));
        assert_eq!(found.status, 307, "{place}");
        found.header("location").map(str::to_owned)
    };
    for (place, rest) in [("/x?y", "/x?y"), ("c", "/a/c"), ("http://localhost:8000/x", "/x")] {
        assert_eq!(location(place), Some(path(&session, rest)), "{place}");
    }
    for place in [
        "/../../../../v1/host",
        "../../../8001/",
        "/%2e%2e/8001/",
        "//evil.example/",
        "/\\evil.example/",
        "http://evil.example/",
        "javascript:alert(1)",
        "/\t/evil.example",
    ] {
        assert_eq!(location(place), None, "{place}");
    }
    daemon.stop_and_check();
}
