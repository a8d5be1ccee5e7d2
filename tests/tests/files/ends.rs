//! Transfers that do not come to their end.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Setup, program, wait};

use super::stream::Exchange;
use super::{Files, noise};

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let _made = files.put("old", b"old");
    for (file, headers) in [
        ("new", "Content-Length: 50000000\r\n"),
        ("old", "Content-Length: 50000000\r\n"),
        ("new", "Transfer-Encoding: chunked\r\n"),
        ("x?unpack=true", "Content-Type: application/x-tar\r\nContent-Length: 50000000\r\n"),
    ] {
        let mut exchange = Exchange::begin(&daemon, "PUT", &files.url(file), headers);
        let mut body =
            if headers.starts_with("Transfer") { b"1000000\r\n".to_vec() } else { vec![] };
        body.extend(super::tar::header("large", super::tar::Kind::File, 40_000_000, ""));
        body.extend(noise(1, 10_000_000));
        assert!(exchange.send(&body));
        // It has begun: there is a file of the session's being written.
        wait::until_true("a file that is being written", || {
            files.session.value(
                "sum(e.stat().st_size for d, _, _ in __import__('os').walk('.') \
                for e in __import__('os').scandir(d)) > 9000000",
            ) == "True"
        });
        drop(exchange);
        wait::until_true("an end without a trace", || {
            files.session.value("sorted(f for _, _, fs in __import__('os').walk('.') for f in fs)")
                == "['old']"
        });
        assert_eq!(files.content("old"), b"old");
    }
    daemon.release();
}

#[test]
fn the_end_of_a_session_ends_its_transfers() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let _made = files.put("large", &noise(2, 50 << 20));
    let mut down = Exchange::begin(&daemon, "GET", &files.url("large"), "");
    let head = down.head().unwrap();
    assert_eq!((head.status, head.length()), (200, 50 << 20));
    let read = down.read(1 << 20).len() as u64;
    let mut up = Exchange::begin(&daemon, "PUT", &files.url("new"), "Content-Length: 20000000\r\n");
    assert!(up.send(&noise(3, 1_000_000)));
    assert_eq!(files.session.request("DELETE", "", None).status, 204);
    // What is missing can be seen: it is less than was announced.
    assert!(read + down.rest() < 50 << 20);
    for _ in 0..19 {
        up.send(&noise(3, 1_000_000));
    }
    assert_eq!(up.head().map(|head| head.status), Some(404));
    daemon.release();
}

#[test]
fn the_death_of_the_kernel_ends_no_transfer() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let content = noise(4, 20 << 20);
    let _made = files.put("large", &content);
    let mut down = Exchange::begin(&daemon, "GET", &files.url("large"), "");
    assert_eq!(down.head().unwrap().status, 200);
    let mut up = Exchange::begin(&daemon, "PUT", &files.url("new"), "Content-Length: 20000000\r\n");
    assert!(up.send(&vec![1; 10_000_000]));
    let died = files.session.execute("import os; os._exit(3)");
    assert_eq!(died.status(), "killed");
    let _reset = files.session.reset();
    assert_eq!(down.rest(), 20 << 20);
    assert!(up.send(&vec![1; 10_000_000]));
    assert_eq!(up.head().unwrap().status, 201);
    assert_eq!(files.session.value("len(open('new', 'rb').read())"), "20000000");
    daemon.release();
}

#[test]
fn a_stopping_daemon_lets_downloads_end() {
    let mut daemon = Daemon::start();
    let mut down = {
        let files = Files::of(&daemon);
        let _made = files.put("large", &noise(5, 50 << 20));
        Exchange::begin(&daemon, "GET", &files.url("large"), "")
    };
    assert_eq!(down.head().unwrap().status, 200);
    daemon.signal(Signal::SIGTERM);
    wait::until_true("its word that it stops", || daemon.told_manager().contains("STOPPING=1"));
    assert_eq!(down.rest(), 50 << 20);
    assert!(daemon.wait().success());
}

#[test]
fn another_tenants_session_has_no_files() {
    let token = || program::run(&["tenant", "token", "--json"]).expect_code(0).stdout();
    let tokens: Vec<Value> =
        [token(), token()].iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let entry = |name: &str, token: &Value| {
        format!("name = \"{name}\"\ntoken_sha256 = [{}]\n", token["token_sha256"])
    };
    let tenants = format!("{}[[tenant]]\n{}", entry("one", &tokens[0]), entry("other", &tokens[1]));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let send = |who: usize, method: &str, path: &str, body: &[u8]| {
        let bearer = format!("Bearer {}", tokens[who]["token"].as_str().unwrap());
        let headers = [("Authorization", bearer.as_str())];
        Client::connect(&daemon.unix()).send(method, path, &headers, Some(body))
    };
    let spec = json!({"id": "a"}).to_string();
    assert_eq!(send(0, "POST", "/v1/sessions", spec.as_bytes()).status, 201);
    assert_eq!(send(0, "PUT", "/v1/sessions/a/files/f", b"mine").status, 201);
    for (method, path) in [
        ("GET", "/v1/sessions/a/files"),
        ("GET", "/v1/sessions/a/files/f"),
        ("PUT", "/v1/sessions/a/files/f"),
        ("PUT", "/v1/sessions/a/files/f?unpack=true"),
        ("DELETE", "/v1/sessions/a/files/f"),
    ] {
        let answer = send(1, method, path, b"");
        assert!(matches!(answer.status, 404 | 415), "{method} {path}");
        let nobody = Client::connect(&daemon.unix()).send(method, path, &[], Some(b""));
        nobody.expect_problem(401, "unauthenticated");
    }
    assert_eq!(send(0, "GET", "/v1/sessions/a/files/f", b"").body, b"mine");
    daemon.stop_and_check();
}
