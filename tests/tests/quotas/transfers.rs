//! Bytes of requests and responses: slowed down to the rate, and refused when none are left.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::tenants::Token;

use super::{daemon, is_over};

const MIB: usize = 1 << 20;

fn send(at: &Endpoint, token: &Token, method: &str, path: &str, body: Option<&[u8]>) -> Response {
    let authorization = format!("Bearer {}", token.text);
    Client::connect(at).send(method, path, &[("Authorization", authorization.as_str())], body)
}

#[test]
fn files_move_no_faster_than_the_rate_and_arrive_whole() {
    let (daemon, one, other) = daemon("transfer_rate = \"1048576/1s\"");
    let at = daemon.unix();
    let content: Vec<u8> = (0..=250).cycle().take(3 * MIB).collect();
    for token in [&one, &other] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"})));
        assert_eq!(made.status, 201);
        let since = Instant::now();
        let written = send(&at, token, "PUT", "/v1/sessions/a/files/f", Some(&content));
        assert_eq!(written.status, 201);
        // Two clients at once share the rate.
        let barrier = Barrier::new(2);
        let read = || {
            barrier.wait();
            let read = send(&at, token, "GET", "/v1/sessions/a/files/f", None);
            if read.status == 200 {
                assert!(read.body == content);
                return 3;
            }
            assert!(is_over(&read, "transfer_rate"));
            0
        };
        let moved: u32 = thread::scope(|scope| {
            let clients = [scope.spawn(read), scope.spawn(read)];
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        // A second's worth is there at first.
        let least = Duration::from_secs(u64::from(3 + moved - 1));
        if std::ptr::eq(token, &one) {
            assert!(since.elapsed() >= least, "{moved} {:?}", since.elapsed());
        } else {
            assert_eq!(moved, 6, "nothing else refuses");
        }
    }
    daemon.stop_and_check();
}

#[test]
fn nothing_large_begins_when_no_bytes_are_left_and_what_ends_things_still_works() {
    let (daemon, one, _) = daemon("transfer_rate = \"10000000/10m\"");
    let at = daemon.unix();
    let made = one.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"})));
    assert_eq!(made.status, 201);
    let content = vec![0; 4_000_000];
    let put = || send(&at, &one, "PUT", "/v1/sessions/a/files/f", Some(&content));
    assert_eq!(put().status, 201);
    assert_eq!(put().status, 200);
    // Two million are left: the rest would take two minutes.
    let refused = put();
    assert!(is_over(&refused, "transfer_rate"));
    let secs: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((60..=130).contains(&secs), "{secs}");
    let large = json!({"code": format!("# {}", "x".repeat(3_900_000))});
    let large = one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&large));
    assert!(is_over(&large, "transfer_rate"));
    one.execute(&at, "a", "1");
    assert_eq!(one.ask(&at, "POST", "/v1/sessions/a/interrupt", None).status, 200);
    assert_eq!(one.ask(&at, "DELETE", "/v1/sessions/a", None).status, 204);
    daemon.stop_and_check();
}
