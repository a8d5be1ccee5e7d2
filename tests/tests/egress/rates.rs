//! A tenant's rate of bytes, over all its sessions and connections, with the program's own gate.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use serde_json::json;
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};
use vivarium_tests::{Setup, wait};

/// Bytes of each answer.
const BODY: usize = 1 << 20;

/// What the tenant has at once, and what comes back in a second, rounded up.
const AT_ONCE: u64 = 65536;
const A_SECOND: u64 = 110;

/// A server that has much for everybody.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                drop(stream.read(&mut [0; 4096]));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
                drop(stream.write_all(head.as_bytes()));
                drop(stream.write_all(&vec![b'x'; BODY]));
            });
        }
    });
    port
}

/// Prints how many bytes so many connections had together, and the codes of refusals. Many are to give
/// up soon where no more comes; a few are answered, however busy the host is.
fn take(port: u16, connections: usize) -> String {
    let timeout = if connections > 2 { 5 } else { 20 };
    format!(
        "import os, threading, urllib.request, urllib.error\n\
         os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\n\
         got, codes = [], []\n\
         def take():\n\
         \x20   n = 0\n\
         \x20   try:\n\
         \x20       with urllib.request.urlopen('http://localhost:{port}/', timeout={timeout}) as r:\n\
         \x20           while part := r.read1(65536):\n\
         \x20               n += len(part)\n\
         \x20   except urllib.error.HTTPError as e:\n\
         \x20       codes.append((e.code, e.reason))\n\
         \x20   except OSError:\n\
         \x20       pass\n\
         \x20   got.append(n)\n\
         all = [threading.Thread(target=take) for _ in range({connections})]\n\
         [one.start() for one in all]\n\
         [one.join() for one in all]\n\
         print(sum(got), *codes)"
    )
}

#[test]
fn tenant_never_has_more_bytes_than_its_rate_and_others_have_theirs() {
    let port = server();
    let (ann, bob) = (Token::new(), Token::new());
    let rate = format!("egress_rate = \"{AT_ONCE}/10m\"");
    let entries = two(&entry("ann", &ann, &rate), &entry("bob", &bob, ""));
    let daemon = Setup::default()
        .config("sandbox", "allowed_networks = [\"loopback\", \"trusted\"]")
        .config(
            "egress",
            &format!("allow = [\"localhost:{port}\"]\nallow_addresses = [\"127.0.0.1\"]"),
        )
        .config("[tenant]", &entries)
        .start();
    let open = |token: &Token, id: &str| {
        let spec = json!({"id": id, "network": "trusted"});
        drop(token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&spec)).expect_success());
    };
    let run = |token: &Token, id: &str, connections| {
        let done = token.execute(&daemon.tcp(), id, &take(port, connections));
        done["stdout"].as_str().unwrap_or_else(|| panic!("{done}")).trim().to_owned()
    };
    let bytes = |said: &str| said.split(' ').next().unwrap().parse::<u64>().unwrap();
    open(&ann, "one");
    open(&ann, "two");
    open(&bob, "one");
    let begun = Instant::now();
    let total: u64 = thread::scope(|scope| {
        let (run, ann) = (&run, &ann);
        let all = ["one", "two"].map(|id| scope.spawn(move || run(ann, id, 8)));
        all.into_iter().map(|one| bytes(&one.join().unwrap())).sum()
    });
    let most = AT_ONCE + A_SECOND * (begun.elapsed().as_secs() + 1);
    assert!((AT_ONCE / 4..=most).contains(&total), "{total} of {most}");
    // Nothing is left: who comes now is told why.
    let refused = run(&ann, "two", 1);
    assert!(refused.starts_with("0 (429, ") && refused.contains("egress_rate"), "{refused}");
    let counted = "vivarium_quota_refusals_total{quota=\"egress_rate\",tenant=\"ann\"}";
    assert!(daemon.metric(counted) >= Some(1));
    assert_eq!(run(&bob, "one", 2), format!("{}", 2 * BODY));

    let path = daemon.dir().join("vivarium.toml");
    let text = fs::read_to_string(&path).unwrap();
    reload(&daemon, &text.replace(&rate, ""), RELOADED);
    wait::until_true("bytes without end", || run(&ann, "one", 2) == format!("{}", 2 * BODY));
}
