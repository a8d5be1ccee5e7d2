//! What a session may try against the gate, each beside what it may do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use harness::{Gate, Server, ask, connect, get, rules, strict, tunnel};
use vivarium_egress::message::{Call, CallError};
use vivarium_egress::{AddressClass, Decision, FromGate, Reason, ToGate, Via};

#[test]
fn a_listed_name_is_reached_and_told_before_its_bytes() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    let inside = gate.open(1, &rules(&[&place]), None);
    let answer = ask(inside, get(&place, "Proxy-Authorization: Basic c2VjcmV0\r\nX-Own: 1\r\n"));
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    let decided = gate.next_decided();
    assert_eq!((decided.decision, decided.reason), (Decision::Allowed, Reason::Listed));
    assert_eq!((decided.via, decided.method.as_deref()), (Via::Http, Some("GET")));
    assert_eq!(decided.address, Some("127.0.0.1".parse().unwrap()));
    let FromGate::Done { bytes_in, bytes_out, cut: None, .. } = gate.next() else { panic!() };
    assert!(bytes_in > 5 && bytes_out > 5);
    let got = server.got().concat();
    assert_eq!(
        got,
        format!("GET /x HTTP/1.1\r\nHost: {place}\r\nX-Own: 1\r\nConnection: close\r\n\r\n")
    );
    let (mut stream, answer) = tunnel(inside, &place);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    stream.write_all(b"anything").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("hello"));
    assert_eq!(gate.next_decided().via, Via::Connect);
    // By SOCKS5, by name.
    let name = b"a.example";
    let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
    bytes.extend(name);
    bytes.extend(server.port.to_be_bytes());
    bytes.extend(b"x");
    let answer = ask(inside, &bytes);
    assert!(answer.starts_with("\x05\0\x05\0\0\x01") && answer.ends_with("hello"), "{answer:?}");
    assert_eq!(gate.next_decided().via, Via::Socks5);
    gate.send(&ToGate::Close { session: 1 });
    while !matches!(gate.next(), FromGate::Closed { session: 1, .. }) {}
    gate.end();
}

#[test]
fn nothing_else_is_reached() {
    let (gate, server) = (Gate::start(), Server::http());
    for name in ["a.example", "b.example", "x.w.example"] {
        gate.zone.put(name, &[&["127.0.0.1"]]);
    }
    let port = server.port;
    let entries =
        [format!("a.example:{port}"), format!("GET *.w.example:{port}"), "127.0.0.2".into()];
    let inside = gate.open(1, &rules(&entries.each_ref().map(String::as_str)), None);
    let refused = |place: &str, reason: Reason| {
        let (_, answer) = tunnel(inside, place);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{place}: {answer}");
        let decided = gate.next_decided();
        assert_eq!((decided.decision, decided.reason), (Decision::Refused, reason), "{place}");
    };
    refused(&format!("b.example:{port}"), Reason::NotListed);
    refused(&format!("127.0.0.1:{port}"), Reason::NotListed);
    refused(&format!("[::1]:{port}"), Reason::NotListed);
    refused(&format!("[::ffff:127.0.0.1]:{port}"), Reason::NotListed);
    refused(&format!("w.example:{port}"), Reason::NotListed);
    refused("a.example:22", Reason::PortNotListed);
    refused("a.example:443", Reason::PortNotListed);
    // A literal that is listed is still of a refused class.
    refused("127.0.0.2:80", Reason::Address(AddressClass::Loopback));
    let place = format!("x.w.example:{port}");
    let post =
        format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: 0\r\n\r\n");
    assert!(ask(inside, post).starts_with("HTTP/1.1 403 "));
    assert_eq!(gate.next_decided().reason, Reason::MethodNotListed);
    // A tunnel does not hide the method.
    let (mut stream, answer) = tunnel(inside, &place);
    assert!(answer.starts_with("HTTP/1.1 200 "));
    write!(stream, "POST / HTTP/1.1\r\nHost: {place}\r\n\r\n").unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    assert_eq!(gate.next_decided().reason, Reason::MethodNotListed);
    // SOCKS: UDP and BIND, and what is not listed.
    for (command, code) in [(2, 7), (3, 7)] {
        let answer = ask(inside, [5, 1, 0, 5, command, 0, 1, 127, 0, 0, 1, 0, 80]);
        assert_eq!(answer.as_bytes()[..4], [5, 0, 5, code]);
        assert_eq!(gate.next_decided().reason, Reason::BadRequest);
    }
    let answer = ask(inside, [5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80]);
    assert_eq!(answer.as_bytes()[..4], [5, 0, 5, 2]);
    assert_eq!(server.got(), Vec::<String>::new());
    // The control.
    assert!(ask(inside, get(&place, "")).ends_with("hello"));
    gate.end();
}

#[test]
fn what_a_name_leads_to_is_checked_each_time() {
    let (gate, server) = (Gate::start(), Server::http());
    let port = server.port;
    let refused = [
        ("10.0.0.1", AddressClass::Private),
        ("169.254.169.254", AddressClass::LinkLocal),
        ("0.0.0.0", AddressClass::Unspecified),
        ("100.64.0.1", AddressClass::Shared),
        ("::1", AddressClass::Loopback),
        ("::ffff:127.0.0.1", AddressClass::Mapped),
        ("64:ff9b::7f00:1", AddressClass::Nat64),
        ("2002:7f00:1::", AddressClass::SixToFour),
        ("fd00::1", AddressClass::Private),
    ];
    let place = format!("a.example:{port}");
    let inside = gate.open(1, &rules(&[&place]), None);
    for (address, class) in refused {
        gate.zone.put("a.example", &[&[address]]);
        assert!(ask(inside, get(&place, "")).starts_with("HTTP/1.1 403 "), "{address}");
        let decided = gate.next_decided();
        assert_eq!(decided.reason, Reason::Address(class), "{address}");
        assert_eq!(decided.address, Some(address.parse().unwrap()));
    }
    // Rebinding: good at first, then not. The second is looked at anew.
    gate.zone.put("a.example", &[&["127.0.0.1"], &["127.0.0.3"]]);
    assert!(ask(inside, get(&place, "")).ends_with("hello"));
    assert!(ask(inside, get(&place, "")).starts_with("HTTP/1.1 403 "));
    // Of several, only one that is good is connected to.
    gate.zone.put("a.example", &[&["10.0.0.1", "127.0.0.1"]]);
    assert!(ask(inside, get(&place, "")).ends_with("hello"));
    // Without the operator's word, nor is loopback.
    let inside = gate.open(2, &strict(&[&place]), None);
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    assert!(ask(inside, get(&place, "")).starts_with("HTTP/1.1 403 "));
    gate.end();
}

#[test]
fn a_redirect_is_the_clients_to_follow_and_checked_anew() {
    let server = Server::start(
        "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    );
    let gate = Gate::start();
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    let inside = gate.open(1, &rules(&[&place]), None);
    assert!(ask(inside, get(&place, "")).starts_with("HTTP/1.1 302 "));
    assert!(ask(inside, get("169.254.169.254", "")).starts_with("HTTP/1.1 403 "));
    gate.end();
}

#[test]
fn one_connection_is_one_request() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    let inside = gate.open(1, &rules(&[&format!("GET,POST {place}")]), None);
    let head = format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\n");
    let smuggled = format!("DELETE /smuggled HTTP/1.1\r\nHost: {place}\r\n\r\n");
    for (text, is_passed) in [
        (format!("{head}Content-Length: 0\r\n\r\n{smuggled}"), true),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"), true),
        (format!("{head}\r\n{smuggled}"), true),
        (format!("{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), false),
        (format!("{head}Transfer-Encoding: chunked\nX: y\r\n\r\n"), false),
        (format!("{head}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), false),
        (format!("{head}Host: b.example\r\n\r\n"), false),
        (format!("POST http://{place}/ HTTP/1.1\r\nHost: b.example\r\n\r\n"), false),
        (format!("GET http://{place}/\r\nX: y HTTP/1.1\r\nHost: {place}\r\n\r\n"), false),
        (format!("{head}X: a\rInjected: b\r\n\r\n"), false),
        (format!("GET http://{place}@b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n"), false),
        ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), false),
        ("\x04\x01\0\x50\x7f\0\0\x01\0".to_owned(), false),
    ] {
        let before = server.got().len();
        let answer = ask(inside, &text);
        let expected = if is_passed { "HTTP/1.1 200 " } else { "HTTP/1.1 400 " };
        assert!(
            answer.starts_with(expected) || (!is_passed && answer.is_empty()),
            "{text:?}: {answer}"
        );
        assert_eq!(server.got().len(), before + usize::from(is_passed), "{text:?}");
    }
    let got = server.got().concat();
    assert!(!got.contains("smuggled") && !got.contains("Injected"), "{got}");
    gate.end();
}

#[test]
fn the_gate_is_confined() {
    let gate = Gate::start();
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", gate.pid())).unwrap();
    let status = of("status");
    let has = |line: &str| assert!(status.contains(line), "{line}: {status}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        has(&format!("{set}:\t0000000000000000"));
    }
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Threads:\t1"] {
        has(line);
    }
    assert!(gate.confinement.iter().any(|line| line.starts_with("seccomp: ")));
    let limits = of("limits");
    let processes = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert_eq!(processes.split_whitespace().nth(2), Some("0"), "{processes}");
    gate.end();
}

#[test]
fn the_daemons_own_calls_are_checked_and_bounded() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("hook.example", &[&["127.0.0.1"]]);
    let call = |id: u64, allow: &[&str], max_response_bytes: usize| {
        let request = Call {
            method: "POST".to_owned(),
            url: format!("http://hook.example:{}/x", server.port),
            headers: vec![("X-Signature".to_owned(), "s".to_owned())],
            body: b"body".to_vec(),
            timeout: Duration::from_secs(10),
            max_response_bytes,
            allow_addresses: allow.iter().map(|net| net.parse().unwrap()).collect(),
        };
        gate.send(&ToGate::Call { id, request });
        let FromGate::CallDone { id: answered, result } = gate.next() else { panic!() };
        assert_eq!(answered, id);
        result
    };
    let answer = call(1, &["127.0.0.1"], 100).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hello"[..]));
    assert!(server.got()[0].contains("x-signature: s\r\n"));
    assert_eq!(call(2, &["127.0.0.1"], 4), Err(CallError::TooLarge(4)));
    let loopback = Reason::Address(AddressClass::Loopback);
    assert_eq!(call(3, &[], 100), Err(CallError::Refused(loopback)));
    gate.end();
}

#[test]
fn a_session_that_asks_waits_for_the_answer() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    let mut asking = rules(&[]);
    asking.unlisted = vivarium_egress::Unlisted::Ask { wait: Duration::from_secs(10) };
    let inside = gate.open(1, &asking, None);
    for allowed in [true, false] {
        let mut stream = connect(inside);
        stream.write_all(get(&place, "").as_bytes()).unwrap();
        let id = loop {
            if let FromGate::Ask { id, session: 1, destination, .. } = gate.next() {
                assert_eq!(destination, "a.example");
                break id;
            }
        };
        gate.send(&ToGate::Answer { id, allowed });
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.ends_with("hello"), allowed, "{text}");
        let reason = if allowed { Reason::Approved } else { Reason::NotApproved };
        assert_eq!(gate.next_decided().reason, reason);
    }
    gate.end();
}
