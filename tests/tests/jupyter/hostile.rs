//! Tokens that are missing, wrong or another's, frames that are no messages, and clients that read
//! nothing.

use serde_json::json;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::tenants::{Token, entry, two};

use super::{OPENING, Socket, ask, at, content, kernel, switched_on};

fn status(at: &Endpoint, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut client = Client::connect(at);
    client.ask("GET", path, headers, None);
    client.receive_head().unwrap().status
}

#[test]
fn tokens_are_found_where_clients_put_them() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let (at, token) = (at(&daemon), &owner.text);
    let path = "/jupyter/api/kernels";
    for scheme in ["Bearer", "token", "Token"] {
        let value = format!("{scheme} {token}");
        assert_eq!(status(&at, path, &[("Authorization", &value)]), 200, "{scheme}");
    }
    assert_eq!(status(&at, &format!("{path}?token={token}"), &[]), 200);
    assert_eq!(status(&at, &format!("/jupyter/t/{token}/api/kernels"), &[]), 200);
    for none in [path, "/jupyter/api/kernels?token=x", "/jupyter/t/x/api/kernels", "/jupyter/t/"] {
        assert_eq!(status(&at, none, &[]), 401, "{none}");
    }
    // Nowhere else.
    assert_eq!(status(&at, &format!("/v1/sessions?token={token}"), &[]), 401);
    assert_eq!(status(&at, "/v1/sessions", &[("Authorization", &format!("token {token}"))]), 401);
    let own = kernel(&at, &format!("/t/{token}"));
    let mut socket = Socket::open(&at, &format!("/t/{token}"), &own);
    assert_eq!(content(&socket.execute("1"), "execute_reply")["status"], "ok");
    assert_eq!(status(&at, &format!("/jupyter/api/kernels/{own}/channels"), &OPENING), 401);
    daemon.stop_and_check();
}

/// The control is the owner, for whom each request works.
#[test]
fn kernels_of_another_tenant_are_unknown() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on().config("[tenant]", &tenants).start();
    let at = at(&daemon);
    let [owners, strangers] = [&owner, &stranger].map(|token| format!("/t/{}", token.text));
    let id = kernel(&at, &owners);
    let mut socket = Socket::open(&at, &owners, &id);
    socket.execute("x = 41");
    let requests = [("GET", ""), ("POST", "/interrupt"), ("POST", "/restart"), ("DELETE", "")];
    let never = "00000000-0000-4000-8000-000000000000";
    for id in [id.as_str(), never] {
        let mut said = Vec::new();
        for (method, rest) in requests {
            let path = format!("{strangers}/api/kernels/{id}{rest}");
            let refused = ask(&at, method, &path, None);
            assert_eq!(refused.status, 404, "{method} {rest}");
            said.push(refused.json().to_string().replace(id, "ID"));
        }
        // What is there and what never was are told alike.
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
        let path = format!("/jupyter{strangers}/api/kernels/{id}/channels");
        assert_eq!(status(&at, &path, &OPENING), 404);
    }
    assert_eq!(ask(&at, "GET", &format!("{strangers}/api/kernels"), None).json(), json!([]));
    let asked = json!({"name": "python3", "id": id, "kernel_id": id});
    let other = ask(&at, "POST", &format!("{strangers}/api/kernels"), Some(&asked));
    assert_ne!(other.expect_success()["id"], json!(id));
    assert_eq!(content(&socket.execute("x + 1"), "execute_result")["data"]["text/plain"], "42");
    for ((method, rest), expected) in requests.into_iter().zip([200, 204, 200, 204]) {
        let path = format!("{owners}/api/kernels/{id}{rest}");
        assert_eq!(ask(&at, method, &path, None).status, expected, "{method} {rest}");
    }
    daemon.stop_and_check();
}

/// At the level that says most. The control is what that level does say.
#[test]
fn tokens_are_never_logged() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on().config("[tenant]", &tenants).env("VIVARIUM_LOG", "trace").start();
    let at = at(&daemon);
    let token = &owner.text;
    let id = kernel(&at, &format!("/t/{token}"));
    let mut socket = Socket::open(&at, &format!("/t/{token}"), &id);
    socket.execute("1");
    socket.frame(1, b"{");
    assert_eq!(socket.closed(), 1008);
    let wrong = "viv_of-nobody-at-all";
    for token in [token.as_str(), &stranger.text, wrong] {
        let query = format!("/jupyter/api/kernels?token={token}");
        status(&at, &query, &[]);
        status(&at, &format!("/jupyter/t/{token}/api/none"), &[]);
        status(&at, &format!("/jupyter/api/kernels/{id}/channels?token={token}"), &OPENING);
        let value = format!("token {token}");
        status(&at, "/jupyter/api/kernels", &[("Authorization", &value)]);
    }
    daemon.until_logged(&id);
    let log = daemon.log();
    for token in [token.as_str(), &stranger.text, wrong] {
        assert!(!log.contains(token), "a token is in the log");
    }
    daemon.stop_and_check();
}

#[test]
fn pages_of_another_origin_open_nothing() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let path = format!("/jupyter/api/kernels/{}/channels", kernel(&at, ""));
    let mut headers = OPENING.to_vec();
    headers.push(("Origin", "http://evil.example"));
    assert_eq!(status(&at, &path, &headers), 403);
    assert_eq!(status(&at, &path, &OPENING[..2]), 426);
    assert_eq!(status(&at, &path, &[]), 426);
    daemon.release();
}

#[test]
fn frames_that_are_no_messages_close_their_socket_alone() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut good = Socket::open(&at, "", &kernel);
    for (opcode, bad) in [
        (1, &b"{"[..]),
        (1, b"[]"),
        (1, br#"{"header": {}}"#),
        (2, b""),
        (2, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        // One part, which begins behind the end; and one that begins inside the offsets.
        (2, b"\0\0\0\x01\xff\xff\xff\xff"),
        (2, b"\0\0\0\x01\0\0\0\x02{}"),
    ] {
        let mut socket = Socket::open(&at, "", &kernel);
        socket.frame(opcode, bad);
        assert_eq!(socket.closed(), 1008, "{bad:?}");
    }
    assert_eq!(content(&good.execute("1"), "execute_reply")["status"], "ok");
    daemon.release();
}

/// What is no frame of a client's (RFC 6455, 5) ends its connection.
#[test]
fn bytes_that_are_no_frames_end_their_connection_alone() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let kernel = kernel(&at, "");
    let mut good = Socket::open(&at, "", &kernel);
    let long_ping = [&b"\x89\xfe\x01\0\0\0\0\0"[..], &[b'x'; 256]].concat();
    for bad in [
        &b"\x81\x02{}"[..],                                  // not masked
        b"\xf1\x82\0\0\0\0{}",                               // reserved bits
        b"\x83\x82\0\0\0\0{}",                               // a kind that there is not
        b"\x80\x82\0\0\0\0{}",                               // goes on with nothing
        b"\x81\x82\0\0\0\0\xff\xff",                         // a text that is none
        b"\x09\x80\0\0\0\0",                                 // a ping in pieces
        b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", // longer than there are numbers
        &long_ping,
    ] {
        let mut socket = Socket::open(&at, "", &kernel);
        socket.client.send_raw(bad);
        assert_eq!(socket.ended(), 0, "{bad:?}");
    }
    assert_eq!(content(&good.execute("1"), "execute_reply")["status"], "ok");
    daemon.release();
}

#[test]
fn message_over_the_limit_closes_its_socket() {
    let daemon = switched_on().config("server", "max_body_bytes = 100000").start();
    let at = at(&daemon);
    let mut socket = Socket::open(&at, "", &kernel(&at, ""));
    socket.ask("execute_request", json!({"code": "x".repeat(200_000)}));
    assert_eq!(socket.closed(), 1009);
    daemon.stop_and_check();
}
