//! Servers of a sandbox, by the headers and by the name of the host, each with a token.

use serde_json::{Value, json};
use vivarium_tests::Daemon;
use vivarium_tests::http::{Client, Response};

use super::{Api, DAEMON, Sandbox};

/// A server that tells what it was asked, and sends who asks for `/moved` elsewhere.
const SERVER: &str = r"
import http.server, json, threading

class Tells(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
        told = json.dumps({'path': self.path, 'body': body, 'headers': dict(self.headers)}).encode()
        moved = self.path == '/moved'
        self.send_response(302 if moved else 200)
        if moved:
            self.send_header('Location', '/new?x=1')
        self.send_header('Content-Length', str(len(told)))
        self.end_headers()
        self.wfile.write(told)
    do_GET = do_POST
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Tells)
threading.Thread(target=server.serve_forever, daemon=True).start()
";

fn serving(daemon: &Daemon) -> (Sandbox, Sandbox) {
    let api = Api::of(daemon, "x");
    let sandbox = api.create(&json!({"allow_internet_access": false}));
    let lines = sandbox.lines(SERVER);
    assert_eq!(lines.last().unwrap()["type"], "end_of_execution", "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
    (sandbox, api.create(&json!({})))
}

fn by_headers(sandbox: &Sandbox, port: &str, path: &str, token: (&str, &str)) -> Response {
    sandbox.send(port, "POST", path, &[token], Some(b"sent"))
}

fn by_host(sandbox: &Sandbox, port: &str, path: &str, token: (&str, &str)) -> Response {
    let host = format!("{port}-{}.e2b.example", sandbox.id);
    let headers = [("Host", host.as_str()), token];
    Client::connect(&sandbox.at).send("POST", path, &headers, Some(b"sent"))
}

#[test]
fn servers_are_reached_by_headers_and_by_the_hosts_name() {
    let daemon = DAEMON.hold();
    let (sandbox, other) = serving(&daemon);
    for ask in [by_headers, by_host] {
        for name in ["E2B-Traffic-Access-Token", "X-Access-Token"] {
            let token = if name == "X-Access-Token" { &sandbox.envd } else { &sandbox.traffic };
            let answer = ask(&sandbox, "8000", "/a%2Fb?c=d", (name, token));
            assert_eq!(answer.status, 200, "{answer:?}");
            let told: Value = answer.json();
            assert_eq!((&told["path"], &told["body"]), (&json!("/a%2Fb?c=d"), &json!("sent")));
            // Its own headers stay outside.
            let seen = told["headers"].to_string().to_lowercase();
            for own in ["e2b-", "x-access-token", &sandbox.envd, &sandbox.traffic] {
                assert!(!seen.contains(&own.to_lowercase()), "{own}: {seen}");
            }
        }
        let traffic = ("E2B-Traffic-Access-Token", sandbox.traffic.as_str());
        let moved = ask(&sandbox, "8000", "/moved", traffic);
        assert_eq!((moved.status, moved.header("location")), (302, Some("/new?x=1")));
        // Nothing listens on this one, and the SDKs know by what.
        let closed = ask(&sandbox, "8001", "/", traffic);
        assert_eq!((closed.status, &closed.json()["port"]), (502, &json!(8001)), "{closed:?}");
        for token in ["", "wrong", &other.traffic, &other.envd] {
            let refused = ask(&sandbox, "8000", "/", ("E2B-Traffic-Access-Token", token));
            assert_eq!(refused.status, 401, "{token}");
        }
        // The name of a sandbox that is none.
        let gone = Sandbox { id: "i0123456789abcdef012".to_owned(), ..sandbox.clone() };
        assert_eq!(ask(&gone, "8000", "/", traffic).status, 502);
    }
}
