//! How many calls may wait.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use vivarium_tests::http::Client;

use super::{ask, daemon, done, make};

const CLIENTS: usize = 200;
const MAX: usize = 23;

/// Two hundred at once: exactly as many wait as may, and whoever waits counts as in flight.
#[test]
fn no_more_calls_wait_than_may_however_many_ask_at_once() {
    let (daemon, one, other) = daemon(&format!("max_waiting = {MAX}"));
    let at = daemon.unix();
    for number in 0..4 {
        make(&at, &one, &format!("s{number}"));
    }
    let barrier = Barrier::new(CLIENTS);
    let clients: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (barrier, one, at) = (&barrier, &one, &at);
                let client = move || {
                    let mut client = Client::connect(at);
                    let authorization = format!("Bearer {}", one.text);
                    let headers = [
                        ("Authorization", authorization.as_str()),
                        ("Accept", "text/event-stream"),
                    ];
                    let path = format!("/v1/sessions/s{}/execute", number % 4);
                    let body = json!({"code": "1", "cancel_on_disconnect": true}).to_string();
                    barrier.wait();
                    client.ask("POST", &path, &headers, Some(body.as_bytes()));
                    let head = client.receive_head().unwrap();
                    (client, head)
                };
                thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, client).unwrap()
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let waiting = clients.iter().filter(|(_, head)| head.status == 200).count();
    assert_eq!(waiting, MAX);
    for (mut client, mut head) in clients {
        if head.status == 200 {
            continue;
        }
        head.body =
            client.exactly(head.header("content-length").unwrap().parse().unwrap()).unwrap();
        let problem: Value = head.expect_problem(429, "quota_exceeded");
        assert_eq!(problem["quota"], "approval.max_waiting");
        assert!(head.header("retry-after").is_some());
    }
    // All went away, and with them their calls.
    vivarium_tests::wait::until_true("all to be withdrawn", || {
        let list = Client::connect(&at).json("GET", "/v1/approvals", None).expect_success();
        list["approvals"] == json!([])
    });
    let (mut events, id) = ask(&at, &one, "s0", &json!({"code": "6 * 7"}));
    super::allow(&at, &id);
    assert_eq!(done(&mut events)["status"], "ok");
    make(&at, &other, "b");
    assert_eq!(other.execute(&at, "b", "1")["status"], "ok");
    daemon.stop_and_check();
}
