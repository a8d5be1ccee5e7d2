//! A client that says one thing and means another: spellings, headers, framings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;

use std::io::{Read, Write};
use std::net::SocketAddr;

use harness::{Gate, Server, ask, get, rules, tunnel};
use vivarium_egress::{Reason, Rules};

/// Loopback, as one resolver, library or another reads it.
const SPELLINGS: [&str; 30] = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.000.000.001",
    "0",
    "0.0.0.0",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[::1%lo]",
    "[::1%25lo]",
    "localhost",
    "localhost.",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "127\u{3002}0\u{3002}0\u{3002}1",
    "%31%32%37.0.0.1",
    "a.example@127.0.0.1",
    "127.0.0.1#.a.example",
];

/// A CONNECT of SOCKS5 by a name, and the first byte of what it would carry.
fn socks(gate: SocketAddr, name: &str, port: u16) -> Vec<u8> {
    let name = name.trim_matches(['[', ']']);
    let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
    bytes.extend(name.as_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.push(b'x');
    ask(gate, bytes).into_bytes()
}

#[test]
fn no_spelling_of_an_address_leads_where_its_name_may_not() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let port = server.port;
    // Every name is listed; the addresses of the test's server are permitted.
    let inside = gate.open(1, &rules(&[&format!("a.example:{port}")]), None);
    for spelling in SPELLINGS {
        let place = format!("{spelling}:{port}");
        let answer = ask(inside, get(&place, ""));
        let is_refused =
            |answer: &str| ["HTTP/1.1 400 ", "HTTP/1.1 403 "].iter().any(|s| answer.starts_with(s));
        assert!(is_refused(&answer), "{spelling}: {answer}");
        let (_, answer) = tunnel(inside, &place);
        assert!(is_refused(&answer), "{spelling}: {answer}");
        let answer = socks(inside, spelling, port);
        assert!(answer.len() == 12 && answer[3] != 0, "{spelling}: {answer:?}");
    }
    assert_eq!(server.got().concat(), "");
    for spelling in ["a.example", "A.eXample."] {
        assert!(ask(inside, get(&format!("{spelling}:{port}"), "")).ends_with("hello"));
        assert!(String::from_utf8(socks(inside, spelling, port)).unwrap().ends_with("hello"));
    }
    // An entry of its own lists the address itself, and no other spelling of it.
    let inside = gate.open(2, &rules(&[&format!("127.0.0.1:{port}")]), None);
    assert!(ask(inside, get(&format!("127.0.0.1:{port}"), "")).ends_with("hello"));
    for spelling in &SPELLINGS[2..] {
        let reached = server.got().len();
        ask(inside, get(&format!("{spelling}:{port}"), ""));
        assert_eq!(server.got().len(), reached, "{spelling}");
    }
    gate.end();
}

/// What two servers could read differently, after the request line and `Host`.
const AMBIGUOUS: [&str; 22] = [
    "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "Content-Length: 5, 5\r\n\r\nhello",
    "Content-Length: +5\r\n\r\nhello",
    "Content-Length: -1\r\n\r\n",
    "Content-Length: 0x5\r\n\r\nhello",
    "Content-Length: 99999999999999999999\r\n\r\n",
    "Content-Length : 5\r\n\r\nhello",
    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding\r\n: chunked\r\n\r\n0\r\n\r\n",
    " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "X: a\0b\r\n\r\n",
    "Host: b.example\r\n\r\n",
    "X y: z\r\n\r\n",
];

/// Bodies in chunks of which not all may read the same.
const BODIES: [&str; 8] = [
    "5\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\r\nhello!\r\n0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n\r\n",
];

#[test]
fn what_two_servers_could_read_differently_reaches_none() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    // With methods, requests within tunnels are read too.
    let inside = gate.open(1, &rules(&[&format!("POST {place}")]), None);
    for rest in AMBIGUOUS {
        let text = format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\n{rest}");
        let answer = ask(inside, text);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{rest:?}: {answer}");
        let (mut stream, answer) = tunnel(inside, &place);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        write!(stream, "POST / HTTP/1.1\r\nHost: {place}\r\n{rest}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{rest:?}: {answer}");
    }
    for line in [
        "POST http://a.example:PORT/ HTTP/1.1 HTTP/1.1",
        "POST http://a.example:PORT/ HTTP/2.0",
        "POST http://a.example:PORT/",
        "POST  http://a.example:PORT/ HTTP/1.1",
        "POST\thttp://a.example:PORT/ HTTP/1.1",
        "POST http://a.example:PORT/\x0b HTTP/1.1",
        "POST http://a.example:PORT/#x HTTP/1.1",
        "POST http://a.example:PORT:80/ HTTP/1.1",
        "POST http://a.example:0PORT0000/ HTTP/1.1",
        "POST http:///a.example:PORT/ HTTP/1.1",
        "POST //a.example:PORT/ HTTP/1.1",
        "POST https://a.example:PORT/ HTTP/1.1",
        "POST ftp://a.example:PORT/ HTTP/1.1",
        "TRACE http://a.example:PORT/ HTTP/1.1",
        "PRI * HTTP/2.0",
    ] {
        let line = line.replace("PORT", &server.port.to_string());
        let answer = ask(inside, format!("{line}\r\nHost: {place}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line:?}: {answer}");
    }
    assert_eq!(server.got().concat(), "");
    // The control.
    let text =
        format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: 5\r\n\r\nhello");
    assert!(ask(inside, text).ends_with("hello"));
    gate.end();
}

#[test]
fn a_body_that_can_be_read_in_two_ways_never_comes_to_its_end() {
    let gate = Gate::start();
    // It answers once it has seen the end of a body.
    let (port, got) = harness::until_end_of_chunks();
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{port}");
    let inside = gate.open(1, &rules(&[&place]), None);
    let head = format!(
        "POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for body in BODIES {
        let answer = ask(inside, format!("{head}{body}"));
        assert_eq!(answer, "", "{body:?}");
    }
    assert!(got.lock().unwrap().iter().all(|text| !text.ends_with("0\r\n\r\n")));
    for body in ["5\r\nhello\r\n0\r\n\r\n", "5;ext=1\r\nhello\r\n000\r\nTrailer: x\r\n\r\n"] {
        assert!(ask(inside, format!("{head}{body}")).ends_with("whole"), "{body:?}");
        let got = got.lock().unwrap().pop().unwrap();
        assert!(got.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "{got}");
    }
    gate.end();
}

#[test]
fn a_tunnel_does_not_lead_a_request_to_another_host() {
    let (gate, server) = (Gate::start(), Server::http());
    for name in ["a.example", "b.example"] {
        gate.zone.put(name, &[&["127.0.0.1"]]);
    }
    let port = server.port;
    let (place, other) = (format!("a.example:{port}"), format!("b.example:{port}"));
    let allow = rules(&[&format!("GET {place}"), &format!("GET {other}")]).allow;
    let inside = gate.open(1, &Rules { allow, ..rules(&[]) }, None);
    for (line, host) in [
        ("GET / HTTP/1.1".to_owned(), other.clone()),
        (format!("GET http://{other}/ HTTP/1.1"), other.clone()),
        (format!("GET http://{other}/ HTTP/1.1"), place.clone()),
        (format!("CONNECT {other} HTTP/1.1"), other.clone()),
        ("GET / HTTP/1.1".to_owned(), "a.example".to_owned()),
    ] {
        let (mut stream, _) = tunnel(inside, &place);
        write!(stream, "{line}\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap_or_default();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line} {host}: {answer}");
        assert_eq!(gate.next_decided().reason, Reason::BadRequest);
    }
    assert_eq!(server.got().concat(), "");
    let (mut stream, _) = tunnel(inside, &place);
    write!(stream, "GET / HTTP/1.1\r\nHost: {place}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("hello"));
    gate.end();
}
