//! What a home may take, and what happens to who takes more.

use serde_json::json;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, wait};

use crate::{at_home, delete, end, get, run, runners, setup};

fn used(daemon: &Daemon, id: &str) -> u64 {
    let home = get(daemon, &format!("/v1/homes/{id}")).expect_success();
    home["storage"]["used_bytes"].as_u64().unwrap()
}

#[test]
fn full_home_runs_nothing_until_files_are_deleted() {
    for runner in runners() {
        let daemon = setup(runner, "max_mb = 2").start();
        let session = at_home(&daemon, "a");
        // Holes take nothing, and a second name nothing more: the control.
        let fits = "import os\nf = open('/home/sandbox/sparse', 'wb')\nf.truncate(100 << 20)\nf.close()\n\
                    open('/home/sandbox/one', 'wb').write(b'x' * (1 << 20))\n\
                    for n in range(5): os.link('/home/sandbox/one', f'/home/sandbox/name{n}')";
        run(&session, &format!("{fits}\n0"));
        let taken = used(&daemon, "a");
        assert!((1 << 20..2 << 20).contains(&taken), "{taken}");
        run(&session, "open('/home/sandbox/big', 'wb').write(b'x' * (3 << 20))");
        let body = json!({"code": "1"});
        let execute = || session.request("POST", "/execute", Some(&body));
        wait::until_true("a measurement", || execute().status == 507);
        let problem = execute().expect_problem(507, "home_full");
        let said =
            format!("it takes {} bytes of 2097152 (2 MiB, homes.max_mb)", used(&daemon, "a"));
        assert!(problem["detail"].as_str().unwrap().contains(&said), "{said}: {problem}");
        assert_eq!(delete(&daemon, "/v1/homes/a/files/big").status, 204);
        assert_eq!(run(&session, "1"), "1");

        // A new session is not given a full home either, whenever that was written.
        run(&session, "open('/home/sandbox/big', 'wb').write(b'x' * (3 << 20))");
        end(&session);
        let spec = json!({"id": "a", "home": "session"});
        daemon.request("POST", "/v1/sessions", Some(&spec)).expect_problem(507, "home_full");
        assert_eq!(delete(&daemon, "/v1/homes/a/files/big").status, 204);
        assert_eq!(run(&at_home(&daemon, "a"), "1"), "1");
    }
}

#[test]
fn who_goes_on_writing_is_ended() {
    for runner in runners() {
        let daemon = setup(runner, "max_mb = 2").start();
        let session = at_home(&daemon, "a");
        let writes = "import time\nf = open('/home/sandbox/big', 'ab')\n\
                      while True:\n    f.write(b'x' * (1 << 18)); f.flush(); time.sleep(0.05)";
        let ended = session.execute_for(60_000, writes);
        assert_eq!(ended.cause(), "disk_limit", "{ended:?}");
        wait::until_true("the session's end", || session.request("GET", "", None).status == 404);
        // One that writes nothing there goes on meanwhile.
        let other = daemon.session();
        assert_eq!(run(&other, "1"), "1");
    }
}

#[test]
fn files_are_counted_too() {
    let daemon = setup(Default::default(), "max_inodes = 50").start();
    let session = at_home(&daemon, "a");
    run(&session, "[open(f'/home/sandbox/{n}', 'w').close() for n in range(100)] and 0");
    end(&session);
    let spec = json!({"id": "a", "home": "session"});
    let full = daemon.request("POST", "/v1/sessions", Some(&spec));
    let problem = full.expect_problem(507, "home_full");
    assert!(problem["detail"].as_str().unwrap().contains("homes.max_inodes"), "{problem}");
}

#[test]
fn homes_and_volumes_of_a_tenant_together_have_a_bound_of_their_own() {
    let (one, other) = (Token::new(), Token::new());
    let entries = two(&entry("one", &one, "max_homes_mb = 4"), &entry("other", &other, ""));
    let daemon = setup(Default::default(), "max_mb = 64").config("[tenant]", &entries).start();
    let at = daemon.unix();
    let create = |token: &Token, id: &str| {
        let spec = json!({"id": id, "home": "session"});
        token.ask(&at, "POST", "/v1/sessions", Some(&spec))
    };
    let write = |token: &Token, id: &str, mb: u64| {
        let code = format!("open('/home/sandbox/{mb}', 'wb').write(b'x' * ({mb} << 20))");
        drop(token.execute(&at, id, &code));
    };
    for token in [&one, &other] {
        for id in ["a", "b"] {
            drop(create(token, id).expect_success());
            write(token, id, 1);
        }
    }
    write(&one, "a", 3);
    write(&other, "a", 3);
    let again = |token: &Token, id: &str| {
        let path = format!("/v1/sessions/{id}/execute");
        token.ask(&at, "POST", &path, Some(&json!({"code": "1"})))
    };
    // Neither is full by itself, and both are refused.
    wait::until_true("a measurement", || again(&one, "a").status == 429);
    for refused in [again(&one, "b"), create(&one, "c")] {
        let problem = refused.expect_problem(429, "quota_exceeded");
        assert_eq!(problem["quota"], "max_homes_mb", "{problem}");
    }
    let volume = json!({"name": "v"});
    let refused = one.ask(&at, "POST", "/v1/volumes", Some(&volume));
    assert_eq!(refused.expect_problem(429, "quota_exceeded")["quota"], "max_homes_mb");
    // What reads, and what has no home, goes on; so do others.
    let plain = one.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "plain"})));
    assert_eq!(plain.status, 201);
    assert_eq!(again(&one, "plain").status, 200);
    assert_eq!((again(&other, "a").status, create(&other, "c").status), (200, 201));
    let gone = one.ask(&at, "DELETE", "/v1/homes/a/files/3", None);
    assert_eq!(gone.status, 204);
    wait::until_true("room", || again(&one, "b").status == 200);
    assert_eq!(create(&one, "c").status, 201);
}
