//! kill -9 of the daemon while calls wait: none of them ever runs, and the log says what became of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Setup, program, wait};

use super::{ask, ask_at, decide, make};

#[test]
fn calls_that_wait_when_the_daemon_is_killed_are_never_allowed() {
    let place = program::temp_dir();
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let log = place.path().join("audit");
    let audit = format!("dir = {:?}", log.to_str().unwrap());
    let lines = |event: &str| -> Vec<Value> {
        let at = log.to_str().unwrap();
        let arguments = ["audit", "export", "--event", event, "--dir", at];
        serde_json::from_str(&program::run(&arguments).expect_code(0).stdout()).unwrap()
    };
    let (one, other) = (Token::new(), Token::new());
    let asks = "[tenant.approval]\nexecutions = \"ask\"\nremember = \"tenant\"";
    let tenants = two(&entry("one", &one, asks), &entry("other", &other, ""));
    let setup = || {
        let setup = Setup::default().config("audit", &audit).config("[tenant]", &tenants);
        setup.config("homes", "allowed = [\"session\"]")
    };
    let daemon = setup().start();
    let at = daemon.unix();
    let home = json!({"id": "a", "home": "session"});
    assert_eq!(one.ask(&at, "POST", "/v1/sessions", Some(&home)).status, 201);
    let code = json!({"code": "open('/home/sandbox/ran', 'w').close()"});
    let (mut events, first) = ask(&at, &one, "a", &code);
    let (_run, second) = ask_at(&at, &one, "/v1/run", &json!({"code": "1"}));
    // One who waits for the whole answer.
    let (kept, answer) = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut client = Client::connect(&at);
            let token = format!("Bearer {}", one.text);
            let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
            let path = "/v1/sessions/a/execute";
            client.ask("POST", path, &headers, Some(code.to_string().as_bytes()));
            client.receive().map(|response| response.status)
        });
        let all = || Client::connect(&at).json("GET", "/v1/approvals", None).expect_success();
        wait::until_true("three calls", || all()["approvals"].as_array().unwrap().len() == 3);
        // A thread of its own writes them.
        wait::until_true("their lines", || lines("approval_asked").len() == 3);
        (daemon.kill_and_check(), waits.join().unwrap())
    });
    // Clients see a broken connection, and no outcome.
    assert_eq!(answer, None);
    assert!(events.rest().iter().all(|event| event.name != "done"));

    let daemon = setup().in_place_of(kept).start();
    let at = daemon.unix();
    let all = Client::connect(&at).json("GET", "/v1/approvals?all=true", None).expect_success();
    assert_eq!(all["approvals"], json!([]), "nobody waits");
    let late = decide(&at, &first, &json!({"decision": "allow"}));
    drop(late.expect_problem(404, "unknown_approval"));
    let gone = one.ask(&at, "GET", "/v1/sessions/a/executions/1", None);
    assert_eq!(gone.status, 404);
    let files = one.ask(&at, "GET", "/v1/homes/a/files", None).expect_success();
    assert_eq!(files["entries"], json!([]), "it never ran");
    // The same call asks anew.
    make(&at, &one, "a");
    let (_waits, again) = ask(&at, &one, "a", &code);
    assert_ne!(again, first);
    daemon.stop_and_check();

    let ended = lines("approval_ended");
    assert_eq!(ended.len(), 4, "{ended:?}");
    for (id, execution) in [(&first, 1), (&second, 1)] {
        let end = ended.iter().find(|line| line["approval"] == **id).unwrap();
        assert_eq!((&end["outcome"], &end["tenant"]), (&json!("interrupted"), &json!("one")));
        assert_eq!(end["execution"], execution);
    }
    assert!(lines("execution_started").is_empty());
    drop(program::run(&["audit", "verify", "--dir", log.to_str().unwrap()]).expect_code(0));
}
