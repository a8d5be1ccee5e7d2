//! Where answers end, whatever a server says of it.

use vivarium_tests::Daemon;
use vivarium_tests::http::Client;

use crate::hostile::endless;
use crate::{answer, get, literal, path, session_with};

/// The path of a server that answers with these bytes, and closes.
fn served(daemon: &Daemon, bytes: &str) -> String {
    path(&session_with(daemon, &format!("serve(8000, {})", literal(bytes))), "/")
}

/// The connection is in step: what answers next is the API itself.
#[track_caller]
fn is_in_step(client: &mut Client) {
    assert!(client.json("GET", "/v1/host", None).expect_success()["layers"].is_array());
}

/// A client finds what the daemon has found, framed anew, and nothing of what follows.
#[test]
fn answer_with_several_lengths_smuggles_nothing() {
    let daemon = Daemon::start();
    let smuggled = answer("smuggled");
    for (headers, body, expected) in [
        // RFC 9112, 6.3: the encoding wins, and an intermediary drops the length.
        (
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "5\r\nwhole\r\n0\r\n\r\n",
            Some("whole"),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 3",
            "5\r\nwhole\r\n0\r\n\r\n",
            Some("whole"),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: x",
            "5\r\nwhole\r\n0\r\n\r\n",
            Some("whole"),
        ),
        (
            "Transfer-Encoding: Chunked",
            "5;a=\"b\"\r\nwhole\r\n0\r\nSet-Cookie: a\r\n\r\n",
            Some("whole"),
        ),
        ("Content-Length: 5", "whole", Some("whole")),
        ("Content-Length: 05", "whole", Some("whole")),
        ("Content-Length: 5\r\nContent-Length: 5", "whole", Some("whole")),
        ("Content-Length: 5\r\nContent-Length: 6", "whole", None),
        ("Content-Length: +5", "whole", None),
        ("Content-Length: -5", "whole", None),
        ("Content-Length: 5, 6", "whole", None),
        ("Content-Length: 18446744073709551621", "whole", None),
        ("Content-Length : 5", "whole", None),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n{body}{smuggled}");
        let target = served(&daemon, &bytes);
        let mut client = Client::connect(&daemon.tcp());
        let found = client.send("GET", &target, &[], None);
        match expected {
            Some(expected) => {
                assert_eq!(String::from_utf8_lossy(&found.body), expected, "{headers}");
                let lengths =
                    ["content-length", "transfer-encoding"].map(|name| found.header(name));
                assert!(
                    lengths.contains(&None) && lengths[0] != Some("3"),
                    "{headers}: {lengths:?}"
                );
            }
            None => drop(found.expect_problem(502, "bad_port_answer")),
        }
        is_in_step(&mut client);
    }
    daemon.stop_and_check();
}

/// The end of what has no other end is that of the connection, which then is not the client's.
#[test]
fn answer_without_a_length_ends_with_its_connection() {
    let daemon = Daemon::start();
    let inner = answer("inner");
    for head in [
        "HTTP/1.1 200 OK",
        "HTTP/1.0 200 OK",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity",
    ] {
        let target = served(&daemon, &format!("{head}\r\n\r\n{inner}"));
        let mut client = Client::connect(&daemon.tcp());
        let found = client.send("GET", &target, &[], None);
        assert_eq!(String::from_utf8_lossy(&found.body), inner, "{head}");
        is_in_step(&mut client);
    }
    daemon.stop_and_check();
}

/// RFC 9110, 6.4.1.
#[test]
fn answers_that_have_no_body_have_none() {
    let daemon = Daemon::start();
    for (method, status) in [("HEAD", "200 OK"), ("GET", "204 No"), ("GET", "304 Not")] {
        for framing in ["Content-Length: 8", "Transfer-Encoding: chunked"] {
            let target = served(
                &daemon,
                &format!("HTTP/1.1 {status}\r\n{framing}\r\n\r\n8\r\nsmuggled\r\n0\r\n\r\n"),
            );
            let mut client = Client::connect(&daemon.tcp());
            client.ask(method, &target, &[], None);
            let found = client.receive_head().unwrap();
            assert_eq!(found.status, status[..3].parse::<u16>().unwrap(), "{framing}");
            is_in_step(&mut client);
        }
    }
    daemon.stop_and_check();
}

#[test]
fn endless_framing_is_cut_off_or_ends_with_its_client() {
    let daemon = Daemon::start();
    let head = "b'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n";
    for (what, start, flood, is_cut) in [
        ("extension", "1;'", "b'x' * 65536", true),
        ("trailer", "0\\r\\nA: '", "b'x' * 65536", true),
        ("trailers", "0\\r\\n'", "b'A: b\\r\\n' * 100", true),
        ("size", "'", "b'f' * 65536", true),
        ("zeros", "'", "b'0' * 65536", true),
        ("chunk", "ffffffffffffff\\r\\n'", "b'x' * 65536", false),
    ] {
        let session = session_with(&daemon, &endless(&format!("{head}{start}"), flood));
        let mut client = Client::connect(&daemon.tcp());
        client.ask("GET", &path(&session, "/"), &[], None);
        if is_cut {
            assert!(client.receive().is_none(), "{what}");
        } else {
            assert_eq!(client.receive_head().unwrap().status, 200, "{what}");
            assert_eq!(session.value("begun.wait(20)"), "True", "{what}");
            assert_eq!(session.value("ended.is_set()"), "False", "{what}");
        }
        drop(client);
        assert_eq!(session.value("ended.wait(20)"), "True", "{what}");
    }
    daemon.stop_and_check();
}

/// RFC 9110, 15.2. They are the server's and the daemon's between them.
#[test]
fn informational_answers_reach_nobody() {
    let daemon = crate::DAEMON.hold();
    let interim =
        "HTTP/1.1 103 Early Hints\\r\\nLink: </x>; rel=preload\\r\\nSet-Cookie: a=b\\r\\n\\r\\n";
    let code = format!(
        "serve(8000, b'HTTP/1.1 100 Continue\\r\\n\\r\\n{interim}HTTP/1.1 102 Processing\\r\\n\\r\\n\
         HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nfinal')"
    );
    let session = session_with(&daemon, &code);
    let found = get(&daemon, &session, "/");
    assert_eq!((found.status, found.body.as_slice()), (200, &b"final"[..]));
    assert_eq!((found.header("link"), found.header("set-cookie")), (None, None));
    daemon.release();
}
