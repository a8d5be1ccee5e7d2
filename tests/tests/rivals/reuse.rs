//! What one tenant has left is not found by another, nor by whoever has the id next.

use serde_json::json;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::tenants::Token;

use crate::two_tenants;

const LOOK: &str = "
import glob, os
own = 'x' in globals()
files = sorted(set(os.listdir('.')) - {'.tmp'}) + glob.glob('/tmp/*') + glob.glob('/dev/shm/*')
(own, files)";

#[test]
fn whoever_has_an_id_next_finds_nothing_of_the_one_before() {
    let (daemon, victim, rival) = two_tenants();
    let at = daemon.unix();
    let make = |token: &Token| {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "again"})));
        assert_eq!(made.status, 201);
    };
    make(&victim);
    let code = "
x = 'mine'
for place in ('.', '/tmp', '/dev/shm'): open(f'{place}/left', 'w').write(x)";
    victim.execute(&at, "again", code);
    // The control.
    let seen = victim.execute(&at, "again", LOOK);
    let second =
        format!("/v1/sessions/again/executions/{}", seen["execution_id"].as_str().unwrap());
    assert_eq!(victim.ask(&at, "GET", &second, None).status, 200);
    assert_eq!(seen["result"]["repr"], "(True, ['left', '/tmp/left', '/dev/shm/left'])");
    assert_eq!(victim.ask(&at, "DELETE", "/v1/sessions/again", None).status, 204);
    rival.ask(&at, "GET", &second, None).expect_problem(404, "unknown_execution");
    for token in [&rival, &victim] {
        make(token);
        let seen = token.execute(&at, "again", LOOK);
        assert_eq!(seen["result"]["repr"], "(False, [])");
    }
    daemon.stop_and_check();
}

/// Executes with an `Idempotency-Key`.
fn execute_once(at: &Endpoint, token: &Token, key: &str, code: &str) -> serde_json::Value {
    let authorization = format!("Bearer {}", token.text);
    let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", key)];
    let body = json!({ "code": code }).to_string().into_bytes();
    let path = "/v1/sessions/same/execute";
    Client::connect(at).send("POST", path, &headers, Some(&body)).expect_success()
}

#[test]
fn a_stolen_idempotency_key_gives_nobody_anothers_answer() {
    let (daemon, victim, rival) = two_tenants();
    let at = daemon.unix();
    for (token, name) in [(&victim, "victim"), (&rival, "rival")] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "same"})));
        assert_eq!(made.status, 201);
        token.execute(&at, "same", &format!("name, count = {name:?}, 0"));
    }
    let code = "count += 1; (name, count)";
    for _ in 0..2 {
        // Repeated for whose it is, which is the control.
        for (token, name) in [(&victim, "victim"), (&rival, "rival")] {
            let ran = execute_once(&at, token, "stolen", code);
            assert_eq!(ran["result"]["repr"], format!("('{name}', 1)"));
        }
    }
    daemon.stop_and_check();
}
