//! What the time of an answer tells.
//!
//! A session is found by tenant and id together, so that another's is not even compared. What is left is
//! shown by a sign test: of many pairs of requests, each is the slower one about as often as the other,
//! however busy the machine is.

use std::time::{Duration, Instant};

use serde_json::json;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::tenants::Token;

use crate::two_tenants;

/// Pairs of requests.
const PAIRS: usize = 400;
/// Six standard deviations of how often one of two equal ones is the slower: once in 5 * 10^8 runs.
const CHANCE: usize = 60;

type Request<'a> = (&'a str, &'a str, Option<&'a str>);

fn time(client: &mut Client, token: &Token, (method, path, body): Request<'_>) -> Duration {
    let authorization = format!("Bearer {}", token.text);
    let headers = [("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
    let start = Instant::now();
    let _answer = client.send(method, path, &headers, body.map(str::as_bytes));
    start.elapsed()
}

/// How often the first was the slower, each going first in every other pair.
fn slower(at: &Endpoint, token: &Token, first: Request<'_>, second: Request<'_>) -> usize {
    let mut client = Client::connect(at);
    let mut count = 0;
    for pair in 0..PAIRS {
        let (one, other);
        if pair % 2 == 0 {
            one = time(&mut client, token, first);
            other = time(&mut client, token, second);
        } else {
            other = time(&mut client, token, second);
            one = time(&mut client, token, first);
        }
        count += usize::from(one > other);
    }
    count
}

#[test]
fn a_stolen_id_takes_as_long_as_one_that_never_was() {
    let (daemon, victim, rival) = two_tenants();
    let at = daemon.unix();
    for (token, id) in [(&victim, "prized"), (&rival, "my-own")] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": id})));
        assert_eq!(made.status, 201);
        token.execute(&at, id, "open('kept.txt', 'w').write('kept')");
    }
    let execute = json!({"code": "1"}).to_string();
    for (method, rest, body) in [
        ("GET", "", None),
        ("GET", "/executions/1", None),
        ("GET", "/files/kept.txt", None),
        ("POST", "/execute", Some(execute.as_str())),
    ] {
        let path = |id: &str| format!("/v1/sessions/{id}{rest}");
        let (stolen, guessed) = (path("prized"), path("nobody"));
        let count = slower(&at, &rival, (method, &stolen, body), (method, &guessed, body));
        let chance = PAIRS / 2 - CHANCE..=PAIRS / 2 + CHANCE;
        assert!(chance.contains(&count), "{method} {stolen}: slower in {count} of {PAIRS}");
    }
    // The control: of one's own there is something to do, which shows.
    let (own, guessed) = ("/v1/sessions/my-own", "/v1/sessions/nobody");
    let count = slower(&at, &rival, ("GET", own, None), ("GET", guessed, None));
    assert!(count > PAIRS / 2 + CHANCE, "slower in {count} of {PAIRS}");
    daemon.stop_and_check();
}
