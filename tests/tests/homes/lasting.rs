//! How long homes stay, and what sessions find in them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use vivarium_tests::daemon::Setup;
use vivarium_tests::program::{self, Runner};

use crate::{at_home, delete, end, get, paths, run, runners, setup};

#[test]
fn home_outlives_reset_session_and_daemon() {
    for runner in runners() {
        let daemon = setup(runner.clone(), "").start();
        let session = at_home(&daemon, "a");
        let wrote = session.execute(
            "import os\nos.mkdir('/home/sandbox/d', 0o700)\n\
             open('/home/sandbox/d/f', 'w').write('kept')\n\
             os.chmod('/home/sandbox/d/f', 0o600)\nprint(os.environ['HOME'], os.getcwd())",
        );
        assert_eq!(wrote.ok().stdout(), "/home/sandbox /workspace\n");
        let read = "open('/home/sandbox/d/f').read()";
        assert_eq!(session.request("POST", "/reset", None).status, 200);
        assert_eq!(run(&session, read), "'kept'");
        // The workdir is the session's own all the same, and files of the API go there.
        run(&session, "open('in-workdir', 'w').close()");
        end(&session);

        let session = at_home(&daemon, "a");
        assert_eq!(run(&session, read), "'kept'");
        assert_eq!(
            session.execute("import os; os.path.exists('in-workdir')").ok().result(),
            "False"
        );

        // Nothing but the home is left, and all of it.
        let dir = daemon.kill_and_check();
        let daemon = setup(runner.clone(), "").in_place_of(dir).start();
        let session = at_home(&daemon, "a");
        assert_eq!(run(&session, read), "'kept'");
        let other = at_home(&daemon, "b");
        assert_eq!(other.execute("import os; os.listdir('/home/sandbox')").ok().result(), "[]");
        end(&session);
        end(&other);
        assert_eq!(paths(&daemon, "/v1/homes/a"), ["d", "d/f"]);
        assert_eq!(get(&daemon, "/v1/homes/a/files/d/f").body, b"kept");
        assert_eq!(delete(&daemon, "/v1/homes/a").status, 204);
        get(&daemon, "/v1/homes/a").expect_problem(404, "unknown_home");
        let session = at_home(&daemon, "a");
        assert_eq!(run(&session, "import os; os.listdir('/home/sandbox')"), "[]");
        daemon.stop_and_check();
    }
}

#[test]
fn home_stays_with_its_ids() {
    if !vivarium_tests::host::has(&[vivarium_tests::host::Requirement::SubordinateIds]) {
        return;
    }
    let uid = "import os; [line.split()[1] for line in open('/proc/self/uid_map')]";
    let daemon = setup(Runner::default(), "").start();
    let own = run(&at_home(&daemon, "a"), uid);
    let others: Vec<_> = (0..3).map(|_| run(&daemon.session(), uid)).collect();
    assert!(!others.contains(&own), "{own} in {others:?}");
    assert_eq!(run(&at_home(&daemon, "b"), uid), own, "one pair of a tenant");
    let dir = daemon.kill_and_check();
    let daemon = setup(Runner::default(), "").in_place_of(dir).start();
    let others: Vec<_> = (0..3).map(|_| run(&daemon.session(), uid)).collect();
    assert!(!others.contains(&own), "{own} in {others:?}");
    assert_eq!(run(&at_home(&daemon, "a"), uid), own);
}

#[test]
fn home_in_use_is_not_removed() {
    let daemon = setup(Runner::default(), "").start();
    let session = at_home(&daemon, "a");
    delete(&daemon, "/v1/homes/a").expect_problem(409, "home_in_use");
    run(&session, "open('/home/sandbox/f', 'w').write('x')");
    // Downloads need no session, and mind none.
    assert_eq!(get(&daemon, "/v1/homes/a/files/f").body, b"x");
    assert_eq!(get(&daemon, "/v1/homes/a").expect_success()["storage"]["in_use"], true);
    end(&session);
    assert_eq!(get(&daemon, "/v1/homes/a").expect_success()["storage"]["in_use"], false);
    assert_eq!(delete(&daemon, "/v1/homes/a/files/f").status, 204);
    get(&daemon, "/v1/homes/a/files/f").expect_problem(404, "unknown_file");
    assert_eq!(delete(&daemon, "/v1/homes/a").status, 204);
}

#[test]
fn home_expires() {
    let place = program::temp_dir();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let log = place.path().join("audit");
    let daemon = setup(Runner::default(), "expire_after = \"1s\"")
        .config("audit", &format!("dir = {log:?}"))
        .start();
    let kept = at_home(&daemon, "kept");
    end(&at_home(&daemon, "gone"));
    vivarium_tests::wait::until_true("the home's end", || {
        get(&daemon, "/v1/homes/gone").status == 404
    });
    assert_eq!(get(&daemon, "/v1/homes/kept").status, 200);
    run(&kept, "open('/home/sandbox/f', 'w').close()");
    let read = || fs::read_to_string(log.join("audit-000001.jsonl")).unwrap();
    let expired = r#""event":"home","tenant":"default","name":"gone","change":"expired""#;
    vivarium_tests::wait::until_true("the line", || read().contains(expired));
    assert_eq!(read().matches("expired").count(), 1, "{}", read());
}

#[test]
fn nothing_of_it_is_there_unless_it_is_offered_and_asked_for() {
    let daemon = Setup::default().start();
    let refused = |spec| daemon.request("POST", "/v1/sessions", Some(&spec));
    let problem = refused(json!({"id": "a", "home": "session"}));
    assert_eq!(problem.expect_problem(422, "invalid_field")["field"], "home");
    let session = daemon.session();
    let looked = "import os; os.path.exists('/home/sandbox'), os.environ['HOME']";
    assert_eq!(run(&session, looked), "(False, '/workspace')");
    let state = daemon.dir().join("state/homes");
    assert!(!state.exists());
    drop(daemon);

    let daemon = Setup::default().config("homes", "allowed = [\"session\"]").start();
    let refused = |spec| daemon.request("POST", "/v1/sessions", Some(&spec));
    refused(json!({"home": "tenant"})).expect_problem(422, "invalid_field");
    refused(json!({"volumes": [{"name": "v"}]})).expect_problem(422, "invalid_field");
    refused(json!({"home": "session"})).expect_problem(422, "missing_field");
    refused(json!({"home": "session", "id": "../a"})).expect_problem(422, "invalid_field");
    let session = daemon.session_with(&json!({"home": "off"}));
    assert_eq!(run(&session, looked), "(False, '/workspace')");
}

#[test]
fn home_needs_the_mounts_layer() {
    let daemon = setup(Runner::default(), "").without(&["mounts", "landlock"]).start();
    let spec = json!({"id": "a", "home": "session"});
    let refused = daemon.request("POST", "/v1/sessions", Some(&spec));
    let problem = refused.expect_problem(422, "invalid_field");
    assert!(problem["detail"].as_str().unwrap().contains("mounts"), "{problem}");
}
