//! What a session and a tenant may have of the gate, and that others still have theirs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Gate, Server, ask, connect, endless, get, rules, tunnel};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
};
use vivarium_egress::{FromGate, Reason, Rules};

#[test]
fn time_and_bytes_are_limited() {
    let gate = Gate::start();
    let server = Server::start("HTTP/1.1 200 OK\r\n\r\n0123456789012345678901234567890123456789");
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    let mut limited = rules(&[&place]);
    limited.limits.header = Duration::from_millis(100);
    limited.limits.max_bytes = Some(150);
    let inside = gate.open(1, &limited, None);
    let begun = Instant::now();
    assert_eq!(ask(inside, "GET http://a.exam"), "");
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert_eq!(gate.next_decided().reason, Reason::Timeout);
    assert!(ask(inside, get(&place, "")).ends_with("789"));
    let FromGate::Decided(_) = gate.next() else { panic!() };
    let FromGate::Done { cut: None, .. } = gate.next() else { panic!() };
    assert!(!ask(inside, get(&place, "")).ends_with("789"));
    let FromGate::Decided(_) = gate.next() else { panic!() };
    let FromGate::Done { cut: Some(Reason::ByteLimit), .. } = gate.next() else { panic!() };
    gate.end();
}

/// What ended the next connection that ends.
fn next_cut(gate: &Gate) -> Option<Reason> {
    loop {
        if let FromGate::Done { cut, .. } = gate.next() {
            return cut;
        }
    }
}

#[test]
fn a_quiet_connection_and_one_that_never_ends_are_cut() {
    let (gate, quiet) = (Gate::start(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let quiet_at = format!("a.example:{}", quiet.local_addr().unwrap().port());
    let endless_at = format!("a.example:{}", endless());
    let mut limited = rules(&[&quiet_at, &endless_at]);
    limited.limits.idle = Duration::from_millis(300);
    let idle = gate.open(1, &limited, None);
    limited.limits.total = Some(Duration::from_millis(600));
    let total = gate.open(2, &limited, None);
    // The destination takes what comes and says nothing.
    let (mut stream, _) = tunnel(idle, &quiet_at);
    stream.write_all(b"hello?").unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    assert_eq!(next_cut(&gate), Some(Reason::Timeout));
    // Bytes never stop, so that only the time in all ends it.
    let begun = Instant::now();
    let (mut stream, _) = tunnel(total, &endless_at);
    stream.write_all(b"go on").unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap_or_default();
    assert!(begun.elapsed() >= Duration::from_millis(600));
    assert!(text.len() > 100_000, "{}", text.len());
    assert_eq!(next_cut(&gate), Some(Reason::Timeout));
    gate.end();
}

/// A port where connections are neither accepted nor refused, and what keeps it so.
fn nobody_answers() -> (u16, (OwnedFd, Vec<TcpStream>)) {
    let listener =
        socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let bound: SockaddrIn = getsockname(listener.as_raw_fd()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], bound.port()));
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
        assert!(waiting.len() < 16, "its queue never fills");
    }
    (bound.port(), (listener, waiting))
}

#[test]
fn a_destination_that_does_not_answer_is_not_waited_for() {
    let (gate, (port, _kept)) = (Gate::start(), nobody_answers());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{port}");
    let mut limited = rules(&[&place]);
    limited.limits.connect = Duration::from_millis(200);
    let inside = gate.open(1, &limited, None);
    let answer = ask(inside, get(&place, ""));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(gate.next_decided().reason, Reason::Unreachable);
    gate.end();
}

#[test]
fn a_session_has_so_many_connections_and_the_next_waits() {
    let (gate, server, busy) = (Gate::start(), Server::http(), endless());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let (place, busy) = (format!("a.example:{}", server.port), format!("a.example:{busy}"));
    let mut limited = rules(&[&place, &busy]);
    limited.limits.max_connections = 2;
    let inside = gate.open(1, &limited, None);
    let other = gate.open(2, &limited, None);
    let held = [tunnel(inside, &busy), tunnel(inside, &busy)];
    for (stream, _) in &held {
        let mut stream = stream;
        stream.write_all(b"x").unwrap();
        assert!(stream.read(&mut [0; 16]).unwrap() > 0);
    }
    let mut third = connect(inside);
    third.write_all(get(&place, "").as_bytes()).unwrap();
    // By then the gate would have answered it: it has one thread.
    assert!(ask(other, get(&place, "")).ends_with("hello"));
    assert!(ask(other, get(&place, "")).ends_with("hello"));
    third.set_nonblocking(true).unwrap();
    let error = third.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    third.set_nonblocking(false).unwrap();
    drop(held);
    let mut text = String::new();
    third.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("hello"), "{text}");
    gate.end();
}

#[test]
fn slow_connections_of_one_session_do_not_starve_another() {
    let (gate, server) = (Gate::start(), Server::http());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{}", server.port);
    let slow = gate.open(1, &rules(&[&place]), None);
    let other = gate.open(2, &rules(&[&place]), None);
    let held: Vec<_> = (0..1_000)
        .map_while(|_| {
            // The socket's own queue is full at some point.
            let mut stream =
                std::net::TcpStream::connect_timeout(&slow, Duration::from_millis(20)).ok()?;
            stream.write_all(b"GET http://a.exam").ok()?;
            Some(stream)
        })
        .collect();
    assert!(held.len() > 64, "{}", held.len());
    for _ in 0..20 {
        assert!(ask(other, get(&place, "")).ends_with("hello"));
    }
    gate.end();
}

/// Rules of a tenant who may connect more often than the gate can.
fn greedy(place: &str) -> Rules {
    let mut rules = rules(&[place]);
    rules.limits.max_connections = 1_000;
    rules
}

#[test]
fn no_tenant_takes_all_places_with_however_many_sessions() {
    let gate = Gate::start_with("", &["--max-connections", "12"]);
    let (server, busy) = (Server::http(), endless());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let (place, busy) = (format!("a.example:{}", server.port), format!("a.example:{busy}"));
    let greedy = Rules { allow: rules(&[&place, &busy]).allow, ..greedy(&place) };
    let [first, second, other] = [("ann", 1), ("ann", 2), ("bob", 3)].map(|(tenant, session)| {
        let (address, answer) = gate.try_open_for(tenant, session, &greedy, None);
        assert_eq!(answer, FromGate::Opened { session });
        address
    });
    // Half of all, over both sessions.
    let mut held: Vec<_> =
        (0..6).map(|n| tunnel(if n % 2 == 0 { first } else { second }, &busy)).collect();
    assert!(held.iter().all(|(_, answer)| answer.starts_with("HTTP/1.1 200 ")));
    let mut waiting: Vec<_> =
        (0..20).map(|n| connect(if n % 2 == 0 { first } else { second })).collect();
    for stream in &mut waiting {
        stream.write_all(get(&place, "").as_bytes()).unwrap();
    }
    for _ in 0..20 {
        assert!(ask(other, get(&place, "")).ends_with("hello"));
    }
    for stream in &mut waiting {
        stream.set_nonblocking(true).unwrap();
        assert!(stream.read(&mut [0; 16]).is_err());
        stream.set_nonblocking(false).unwrap();
    }
    // They are answered once there is room, which is the control.
    held.truncate(3);
    for mut stream in waiting {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("hello"), "{text}");
    }
    gate.end();
}

#[test]
fn who_takes_all_that_comes_and_who_takes_nothing_keep_nobody_waiting() {
    let (gate, server, busy) = (Gate::start(), Server::http(), endless());
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let (place, busy) = (format!("a.example:{}", server.port), format!("a.example:{busy}"));
    let loud = gate.open(1, &rules(&[&busy]), None);
    let other = gate.open(2, &rules(&[&place]), None);
    let streams: Vec<_> = (0..16)
        .map(|_| {
            let (mut stream, _) = tunnel(loud, &busy);
            stream.write_all(b"x").unwrap();
            stream
        })
        .collect();
    for (number, stream) in streams.iter().enumerate().filter(|(number, _)| number % 2 == 0) {
        let mut stream = stream.try_clone().unwrap();
        thread::Builder::new()
            .name(format!("reader {number}"))
            .spawn(move || while matches!(stream.read(&mut [0; 64 << 10]), Ok(1..)) {})
            .unwrap();
    }
    for _ in 0..20 {
        assert!(ask(other, get(&place, "")).ends_with("hello"));
    }
    gate.send(&vivarium_egress::ToGate::Close { session: 1 });
    while !matches!(gate.next(), FromGate::Closed { session: 1, .. }) {}
    gate.end();
}
