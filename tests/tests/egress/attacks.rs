//! What code tries against the real gate, beside what it may do.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use serde_json::json;
use vivarium_tests::{Session, wait};

use crate::outside::{HELLO, Outside, server};
use crate::{get, trusted};

#[track_caller]
fn printed(session: &Session<'_>, code: &str) -> String {
    session.execute(code).ok().stdout().trim().to_owned()
}

/// Sends these texts to the gate, and prints the statuses that come back, or that it closed.
fn raw(texts: &[String]) -> String {
    let texts = json!(texts);
    format!(
        "import socket\n\
         for text in {texts}:\n    \
             s = socket.create_connection(('127.0.0.1', 3128), 30)\n    \
             s.sendall(text.encode())\n    \
             print(s.makefile('rb').readline().decode()[9:12] or 'closed', end=' ')"
    )
}

/// Sends a request through a tunnel to a place, and prints the status.
fn tunnelled(place: &str, method: &str) -> String {
    format!(
        "import socket\n\
         place = {place:?}.encode()\n\
         s = socket.create_connection(('127.0.0.1', 3128), 30)\n\
         s.sendall(b'CONNECT %b HTTP/1.1\\r\\nHost: %b\\r\\n\\r\\n' % (place, place))\n\
         f = s.makefile('rb')\n\
         assert b' 200 ' in f.readline() and f.readline() == b'\\r\\n'\n\
         s.sendall(b'{method} / HTTP/1.1\\r\\nHost: %b\\r\\n\\r\\n' % place)\n\
         print(f.readline().decode().split()[1])"
    )
}

#[test]
fn methods_are_ruled_in_requests_and_in_tunnels_that_carry_them() {
    let outside = Outside::start();
    let (port, got) = server(HELLO);
    let place = format!("mirror.example:{port}");
    outside.zone.put("mirror.example", &[&["127.0.0.1"]]);
    let daemon = outside.setup(&format!("allow = [\"GET {place}\"]")).start();
    let session = daemon.session_with(&trusted());
    let get = get(&format!("http://{place}/"));
    let post = get.replace("timeout=30", "data=b'x', timeout=30");
    assert!(printed(&session, &post).starts_with("403 "));
    let methods = ["PUT", "DELETE", "get", "GETX", "HEAD"];
    let texts =
        methods.map(|method| format!("{method} http://{place}/ HTTP/1.1\r\nHost: {place}\r\n\r\n"));
    assert_eq!(printed(&session, &raw(&texts)), "403 403 403 403 403");
    assert_eq!(printed(&session, &tunnelled(&place, "POST")), "403");
    assert_eq!(got.lock().unwrap().len(), 0);
    assert_eq!(printed(&session, &get), "200 outside");
    assert_eq!(printed(&session, &tunnelled(&place, "GET")), "200");
    daemon.stop_and_check();
}

#[test]
fn redirects_and_names_that_change_lead_to_nothing_that_is_refused() {
    let outside = Outside::start();
    let (port, got) = server(HELLO);
    let to = |place: String| {
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{place}/\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        server(&answer).0
    };
    let good = to(format!("end.example:{port}"));
    let bad = [
        "169.254.169.254".to_owned(),
        format!("127.0.0.2:{port}"),
        format!("other.example:{port}"),
    ];
    let bad = bad.map(to);
    for name in ["end.example", "other.example", "a.example"] {
        outside.zone.put(name, &[&["127.0.0.1"]]);
    }
    let mut entries = vec![format!("end.example:{port}"), format!("turning.example:{port}")];
    entries.extend([&bad[..], &[good]].concat().iter().map(|port| format!("a.example:{port}")));
    let daemon = outside.setup(&format!("allow = {entries:?}")).start();
    let session = daemon.session_with(&trusted());
    for port in bad {
        let said = printed(&session, &get(&format!("http://a.example:{port}/")));
        assert!(said.starts_with("403 "), "{said}");
    }
    assert_eq!(got.lock().unwrap().len(), 0);
    let through = get(&format!("http://a.example:{good}/"));
    assert_eq!(printed(&session, &through), "200 outside");
    // A name that was good is asked for again, and what it leads to then is looked at.
    let turns: [&[&str]; 4] = [&["127.0.0.1"], &["127.0.0.2"], &["169.254.169.254"], &["::1"]];
    outside.zone.put("turning.example", &turns);
    let turning = get(&format!("http://turning.example:{port}/"));
    assert_eq!(printed(&session, &turning), "200 outside");
    for _ in 1..turns.len() {
        assert!(printed(&session, &turning).starts_with("403 "));
    }
    assert_eq!(got.lock().unwrap().len(), 2);
    daemon.stop_and_check();
}

#[test]
fn other_ports_and_spellings_of_a_listed_host_are_not_it() {
    let outside = Outside::start();
    let (port, got) = server(HELLO);
    let (other, other_got) = server(HELLO);
    outside.zone.put("a.example", &[&["127.0.0.1"]]);
    let daemon = outside.setup(&format!("allow = [\"a.example:{port}\"]")).start();
    let session = daemon.session_with(&trusted());
    let places = [
        format!("a.example:{other}"),
        "a.example:22".to_owned(),
        "a.example:443".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("127.1:{port}"),
        format!("0x7f.1:{port}"),
        format!("2130706433:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("localhost:{port}"),
        format!("a.example.:{other}"),
    ];
    let texts: Vec<_> = places
        .iter()
        .flat_map(|place| {
            let host = format!("HTTP/1.1\r\nHost: {place}\r\n\r\n");
            [format!("CONNECT {place} {host}"), format!("GET http://{place}/ {host}")]
        })
        .collect();
    let said = printed(&session, &raw(&texts));
    let statuses: Vec<_> = said.split(' ').collect();
    assert_eq!(statuses.len(), texts.len());
    assert!(statuses.iter().all(|status| ["400", "403"].contains(status)), "{said}");
    // SOCKS5: to an address, and for datagrams.
    let socks = format!(
        "import socket\n\
         for command in (1, 3):\n    \
             s = socket.create_connection(('127.0.0.1', 3128), 30)\n    \
             s.sendall(bytes([5, 1, 0, 5, command, 0, 1, 127, 0, 0, 1]) + ({port}).to_bytes(2))\n    \
             print(s.makefile('rb').read()[3], end=' ')"
    );
    let socks = socks.replace("to_bytes(2)", "to_bytes(2, 'big')");
    assert_eq!(printed(&session, &socks), "2 7");
    assert_eq!(got.lock().unwrap().len() + other_got.lock().unwrap().len(), 0);
    let listed = get(&format!("http://a.example:{port}/"));
    assert_eq!(printed(&session, &listed), "200 outside");
    daemon.stop_and_check();
}

#[test]
fn a_thousand_slow_connections_keep_no_other_session_waiting() {
    let outside = Outside::start();
    let (port, _) = server(HELLO);
    outside.zone.put("a.example", &[&["127.0.0.1"]]);
    let setup = outside.setup(&format!("allow = [\"a.example:{port}\"]"));
    let daemon = setup.limits(&json!({"max_open_fds": 2048})).start();
    let (slow, other) = (daemon.session_with(&trusted()), daemon.session_with(&trusted()));
    let code = "import errno, socket\n\
         held = []\n\
         for _ in range(1000):\n    \
             s = socket.socket(); s.setblocking(False); held.append(s)\n    \
             assert s.connect_ex(('127.0.0.1', 3128)) in (0, errno.EINPROGRESS)\n    \
             try: s.send(b'GET http://a.exam')\n    \
             except BlockingIOError: pass\n\
         print(len(held))";
    assert_eq!(printed(&slow, code), "1000");
    let get = get(&format!("http://a.example:{port}/"));
    for _ in 0..10 {
        assert_eq!(printed(&other, &get), "200 outside");
    }
    // Its own are served once these are gone.
    let _gone = slow.execute("for s in held: s.close()").ok();
    assert_eq!(printed(&slow, &get), "200 outside");
    daemon.stop_and_check();
}

#[test]
fn a_gate_that_is_killed_in_the_middle_breaks_the_download_and_nothing_else() {
    let outside = Outside::start();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endless = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _asked = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
            drop(stream.write_all(head.as_bytes()));
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
        }
    });
    let (port, _) = server(HELLO);
    outside.zone.put("a.example", &[&["127.0.0.1"]]);
    let allow = format!("allow = [\"a.example:{port}\", \"a.example:{endless}\"]");
    let daemon = outside.setup(&allow).start();
    let (session, beside) = (daemon.session_with(&trusted()), daemon.session());
    let begin = format!(
        "import urllib.request\n\
         answer = urllib.request.urlopen('http://a.example:{endless}/', timeout=60)\n\
         print(answer.read(1000) == b'x' * 1000)"
    );
    assert_eq!(printed(&session, &begin), "True");
    outside.kill_gate();
    let rest = "import http.client\n\
         try:\n    \
             while answer.read(1 << 20): pass\n\
         except (OSError, http.client.IncompleteRead): pass\n\
         print('ended')";
    assert_eq!(printed(&session, rest), "ended");
    assert_eq!(beside.value("1 + 1"), "2");
    daemon.until_logged("the egress gate is lost");
    let get = get(&format!("http://a.example:{port}/"));
    wait::until_true("the next gate serves", || printed(&session, &get) == "200 outside");
    daemon.stop_and_check();
}
