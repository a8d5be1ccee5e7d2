//! Servers as people run them.

use vivarium_tests::Daemon;
use vivarium_tests::http::Client;

use crate::{answer, get, literal, path, session_with};

const FILES: &str = "
import http.server, functools, os
os.makedirs('site/sub')
open('site/index.html', 'w').write('<a href=sub>here</a>')
open('site/sub/data.csv', 'w').write('a,b')
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory='site')
handler.log_message = lambda *_: None
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
";

#[test]
fn http_server_is_seen_below_its_port() {
    let daemon = crate::DAEMON.hold();
    let session = session_with(&daemon, FILES);
    let index = get(&daemon, &session, "/");
    assert_eq!((index.status, index.body.as_slice()), (200, &b"<a href=sub>here</a>"[..]));
    assert_eq!(index.header("content-type"), Some("text/html"));
    let data = get(&daemon, &session, "/sub/data.csv?x=/../y");
    assert_eq!((data.status, data.body.as_slice()), (200, &b"a,b"[..]));
    assert_eq!(get(&daemon, &session, "/nothing").status, 404);
    let mut client = Client::connect(&daemon.unix());
    client.ask("HEAD", &path(&session, "/sub/data.csv"), &[], None);
    let head = client.receive_head().unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("3")));
    // It sends the client of a directory to the same with a slash.
    let moved = get(&daemon, &session, "/sub?x");
    assert_eq!(moved.status, 301);
    assert_eq!(moved.header("location"), Some(path(&session, "/sub/?x").as_str()));
    let first = get(&daemon, &session, "");
    assert_eq!(first.status, 308);
    assert_eq!(first.header("location"), Some(path(&session, "/").as_str()));
    daemon.release();
}

#[test]
fn each_method_reaches_the_server() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&answer(""))));
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let rest = path(&session, "/a%2fb/../c?d=%20");
        let answer = Client::connect(&daemon.tcp()).send(method, &rest, &[], None);
        assert_eq!(answer.status, 200, "{method}");
        let line = session.value("heads[-1].split(b'\\r\\n')[0].decode()");
        assert_eq!(line, format!("'{method} /a%2fb/../c?d=%20 HTTP/1.1'"));
    }
    let traced = Client::connect(&daemon.tcp()).send("TRACE", &path(&session, "/"), &[], None);
    traced.expect_problem(405, "method_not_allowed");
    daemon.stop_and_check();
}

#[test]
fn server_on_either_loopback_address_is_found() {
    let daemon = crate::DAEMON.hold();
    for host in ["127.0.0.1", "0.0.0.0", "::1", "::"] {
        let code = format!("serve(8000, {}, '{host}')", literal(&answer("found")));
        let session = session_with(&daemon, &code);
        assert_eq!(get(&daemon, &session, "/").body, b"found", "{host}");
    }
    daemon.release();
}
