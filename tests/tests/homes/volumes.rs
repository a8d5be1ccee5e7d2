//! Named volumes: one session writes, others read.

use serde_json::{Value, json};
use vivarium_tests::http::Response;
use vivarium_tests::{Daemon, Session};

use crate::{delete, end, get, run, runners, setup};

fn make(daemon: &Daemon, name: &str) -> Response {
    daemon.request("POST", "/v1/volumes", Some(&json!({ "name": name })))
}

fn session<'d>(daemon: &'d Daemon, volumes: &Value) -> Session<'d> {
    daemon.session_with(&json!({ "volumes": volumes }))
}

const ERRNO: &str = "\ndef errno(f):\n    try: f()\n    except OSError as e: return e.errno\n";

#[test]
fn volume_is_written_by_one_and_read_by_others() {
    for runner in runners() {
        let daemon = setup(runner, "").start();
        assert_eq!(make(&daemon, "v").status, 201);
        make(&daemon, "v").expect_problem(409, "volume_exists");
        let writer = session(&daemon, &json!([{"name": "v"}]));
        run(&writer, "open('/mnt/v/f', 'w').write('shared')");
        let second = json!({"volumes": [{"name": "v"}]});
        let second = daemon.request("POST", "/v1/sessions", Some(&second));
        second.expect_problem(409, "volume_in_use");

        let reader =
            session(&daemon, &json!([{"name": "v", "path": "/mnt/in/v", "read_only": true}]));
        assert_eq!(run(&reader, "open('/mnt/in/v/f').read()"), "'shared'");
        let attempts = format!(
            "import os{ERRNO}\nd = '/mnt/in/v'\n[errno(lambda: open(d + '/new', 'w')), \
             errno(lambda: open(d + '/f', 'a')), errno(lambda: os.unlink(d + '/f')), \
             errno(lambda: os.mkdir(d + '/d')), errno(lambda: os.chmod(d + '/f', 0o777)), \
             errno(lambda: os.utime(d + '/f')), errno(lambda: os.rename(d + '/f', d + '/g'))]"
        );
        // EROFS, or what Landlock says of it before: EACCES.
        let refused = run(&reader, &attempts);
        let refused: Vec<i64> = serde_json::from_str(&refused).unwrap();
        assert!(refused.iter().all(|errno| [13, 30].contains(errno)), "{refused:?}");
        assert!(refused.contains(&30), "{refused:?}");
        // The control: the same code, where it may.
        let attempts = attempts.replace("/mnt/in/v", "/mnt/v");
        assert_eq!(run(&writer, &attempts), "[None, None, None, None, 2, 2, 2]");
        run(&writer, "open('/mnt/v/f', 'w').write('again')");
        assert_eq!(run(&reader, "open('/mnt/in/v/f').read()"), "'again'");
        let info = reader.request("GET", "", None).expect_success();
        assert_eq!(info["volumes"], json!([{"name": "v", "path": "/mnt/in/v", "read_only": true}]));

        delete(&daemon, "/v1/volumes/v").expect_problem(409, "volume_in_use");
        end(&writer);
        delete(&daemon, "/v1/volumes/v").expect_problem(409, "volume_in_use");
        end(&reader);
        assert_eq!(get(&daemon, "/v1/volumes/v/files/f").body, b"again");
        assert_eq!(delete(&daemon, "/v1/volumes/v").status, 204);
        get(&daemon, "/v1/volumes/v").expect_problem(404, "unknown_volume");
        assert_eq!(get(&daemon, "/v1/volumes").expect_success(), json!({"volumes": []}));
    }
}

#[test]
fn without_landlock_the_mount_alone_is_read_only() {
    let daemon = setup(Default::default(), "").without(&["landlock"]).start();
    assert_eq!(make(&daemon, "v").status, 201);
    let reader = session(&daemon, &json!([{"name": "v", "read_only": true}]));
    let refused = format!(
        "import os{ERRNO}\n[errno(lambda: open('/mnt/v/new', 'w')), errno(lambda: os.mkdir('/mnt/v/d'))]"
    );
    assert_eq!(run(&reader, &refused), "[30, 30]");
}

#[test]
fn places_and_names_of_volumes_are_checked() {
    let daemon = setup(Default::default(), "").start();
    assert_eq!(make(&daemon, "v").status, 201);
    assert_eq!(make(&daemon, "w").status, 201);
    for name in ["", ".", "..", "a/b", "../v", "a b", &"x".repeat(65)] {
        make(&daemon, name).expect_problem(422, "invalid_field");
    }
    let ask = |volumes: Value| {
        daemon.request("POST", "/v1/sessions", Some(&json!({ "volumes": volumes })))
    };
    for path in [
        "/mnt",
        "/mnt/",
        "/mnt/../etc",
        "/mnt//v",
        "/etc",
        "/workspace/v",
        "/mnt/data",
        "/mnt/data/in",
        "/home/user",
        "/home/sandbox",
        "mnt/v",
        "",
        "/mnt/v\u{0}",
        "/mnt/a b",
    ] {
        let volumes = json!([{"name": "v", "path": path}]);
        ask(volumes).expect_problem(422, "invalid_field");
    }
    let nested = json!([{"name": "v", "path": "/mnt/a"}, {"name": "w", "path": "/mnt/a/b"}]);
    ask(nested).expect_problem(422, "invalid_field");
    ask(json!([{"name": "v"}, {"name": "v", "path": "/mnt/b"}]))
        .expect_problem(422, "invalid_field");
    for name in ["nothing", "../v", ""] {
        ask(json!([{ "name": name }])).expect_problem(404, "unknown_volume");
    }
    let many: Vec<_> = (0..17).map(|n| json!({"name": format!("v{n}")})).collect();
    ask(json!(many)).expect_problem(422, "invalid_field");
    // What was refused holds nothing.
    let both = session(&daemon, &json!([{"name": "v"}, {"name": "w", "path": "/mnt/a/b"}]));
    assert_eq!(
        run(&both, "import os; sorted(os.listdir('/mnt')), os.listdir('/mnt/a')"),
        "(['a', 'data', 'v'], ['b'])"
    );
}
