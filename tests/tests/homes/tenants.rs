//! Two tenants, and names that are the same.

use serde_json::{Value, json};
use vivarium_tests::program::Runner;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Setup, wait};

use crate::{ALLOWED, runners};

#[test]
fn no_tenant_finds_anything_of_anothers() {
    for runner in runners() {
        let has_ids = matches!(runner, Runner::Self_);
        let (a, b) = (Token::new(), Token::new());
        let setup = Setup::default().config("homes", &format!("{ALLOWED}\nmax_per_tenant = 3"));
        let daemon = setup
            .config("[tenant]", &two(&entry("a", &a, ""), &entry("b", &b, "home_max_mb = 7")))
            .runner(runner)
            .start();
        let at = daemon.unix();
        let made = |token: &Token, spec: &Value| {
            token.ask(&at, "POST", "/v1/sessions", Some(spec)).expect_success()
        };
        for token in [&a, &b] {
            let volume = token.ask(&at, "POST", "/v1/volumes", Some(&json!({"name": "v"})));
            assert_eq!(volume.status, 201);
            made(token, &json!({"id": "same", "home": "session", "volumes": [{"name": "v"}]}));
            made(token, &json!({"id": "both", "home": "tenant"}));
        }
        let execute = |token: &Token, session: &str, code: &str| {
            let outcome = token.execute(&at, session, code);
            outcome["result"].clone()
        };
        let uid = "[line.split()[1] for line in open('/proc/self/uid_map')]";
        let write = "open('/home/sandbox/s', 'w').write('a'), open('/mnt/v/s', 'w').write('a')";
        execute(&a, "same", write);
        execute(&a, "both", "open('/home/sandbox/t', 'w').write('a')");
        let look =
            "import os; [os.listdir(d) for d in ('/home/sandbox', '/mnt/v') if os.path.exists(d)]";
        let shown = |value: Value| value.to_string();
        assert!(shown(execute(&b, "same", look)).contains("[[], []]"));
        assert!(shown(execute(&b, "both", look)).contains("[[]]"));
        if has_ids {
            assert_ne!(execute(&a, "same", uid), execute(&b, "same", uid));
            assert_eq!(execute(&a, "same", uid), execute(&a, "both", uid));
        }
        for path in ["/v1/homes/same/files/s", "/v1/homes/@tenant/files/t", "/v1/volumes/v/files/s"]
        {
            assert_eq!(a.ask(&at, "GET", path, None).body, b"a");
            b.ask(&at, "GET", path, None).expect_problem(404, "unknown_file");
            b.ask(&at, "DELETE", path, None).expect_problem(404, "unknown_file");
        }
        // Nor by the paths on the host, where all of it is, nor by the API's paths.
        let root = daemon.dir().join("state/homes");
        let of_a = ["a/session-same/data/s", "a/ids.json", "a/session-same/record.json"];
        let there = of_a.map(|path| root.join(path)).into_iter().filter(|path| path.exists());
        for path in there {
            let open = format!(
                "import errno\ntry:\n    open({path:?}); x = 'read'\n\
                 except OSError as e:\n    x = errno.errorcode[e.errno]\nx"
            );
            let errno = shown(execute(&b, "same", &open));
            assert!(errno.contains("ENOENT") || errno.contains("EACCES"), "{path:?}: {errno}");
        }
        for path in ["..%2f..%2fids.json", "..%2f..%2fsession-same%2fdata%2fs", "%2fetc%2fpasswd"] {
            let asked = b.ask(&at, "GET", &format!("/v1/volumes/v/files/{path}"), None);
            assert!((400..500).contains(&asked.status), "{path}: {asked:?}");
        }
        assert_eq!(
            b.ask(&at, "GET", "/v1/homes/same", None).expect_success()["storage"]["max_bytes"],
            7 << 20
        );
        // The tenant's own quota is the one that is named.
        execute(&b, "same", "open('/home/sandbox/big', 'wb').write(b'x' * (8 << 20))");
        let full = wait::until("a measurement", || {
            let body = json!({"code": "1"});
            let answer = b.ask(&at, "POST", "/v1/sessions/same/execute", Some(&body));
            (answer.status != 200).then_some(answer)
        });
        let full = full.expect_problem(507, "home_full");
        let named = "of 7340032 (7 MiB, tenant.home_max_mb)";
        assert!(full["detail"].as_str().unwrap().contains(named), "{full}");
        assert_eq!(b.ask(&at, "DELETE", "/v1/homes/same/files/big", None).status, 204);
        // Three are as many as may be.
        let fourth = json!({"id": "fourth", "home": "session"});
        a.ask(&at, "POST", "/v1/sessions", Some(&fourth)).expect_problem(429, "too_many_homes");
        a.ask(&at, "POST", "/v1/volumes", Some(&json!({"name": "w"})))
            .expect_problem(429, "too_many_homes");

        // The id and the names are free again for one, and the other keeps what it has.
        for session in ["same", "both"] {
            assert_eq!(b.ask(&at, "DELETE", &format!("/v1/sessions/{session}"), None).status, 204);
        }
        for path in ["/v1/homes/same", "/v1/homes/@tenant", "/v1/volumes/v"] {
            assert_eq!(b.ask(&at, "DELETE", path, None).status, 204, "{path}");
            let list = path.rsplit_once('/').unwrap().0;
            let left = b.ask(&at, "GET", list, None).expect_success().to_string();
            assert!(!left.contains("\"v\"") || list != "/v1/volumes", "{left}");
        }
        made(&b, &json!({"id": "same", "home": "session"}));
        assert!(shown(execute(&b, "same", look)).contains("[[]]"));
        assert!(shown(execute(&a, "same", look)).contains("s"));
        assert_eq!(a.ask(&at, "GET", "/v1/homes/same/files/s", None).body, b"a");
    }
}

/// Sessions that share a home share its files and an id, and nothing else.
#[test]
fn sessions_with_one_home_reach_nothing_else_of_one_another() {
    for runner in runners() {
        let daemon = crate::setup(runner, "").start();
        let shared = json!({"home": "tenant"});
        let (one, other) = (daemon.session_with(&shared), daemon.session_with(&shared));
        crate::run(&one, "import os; open('/home/sandbox/f', 'w').write('x'); secret = 'of one'");
        assert_eq!(crate::run(&other, "open('/home/sandbox/f').read()"), "'x'");
        let pids = "import os; sorted(int(p) for p in os.listdir('/proc') if p.isdigit())";
        let seen: Vec<i32> = serde_json::from_str(&crate::run(&other, pids)).unwrap();
        assert!(seen.len() <= 3, "its own alone: {seen:?}");
        let attempts = "import os, signal\n\
            def kill(pid):\n    try: os.kill(pid, 0)\n    except OSError as e: return e.errno\n\
            {kill(pid) for pid in range(2, 5000) if not os.path.exists(f'/proc/{pid}')} <= {3, 1}";
        assert_eq!(crate::run(&other, attempts), "True");
        assert_eq!(crate::run(&other, "import os; os.path.exists('/workspace/in-one')"), "False");
        assert_eq!(crate::run(&one, "secret"), "'of one'");
    }
}
