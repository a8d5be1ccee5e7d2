//! Paths, methods, types and origins.

use serde_json::json;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::{Setup, wait};

use crate::over_both;

#[test]
fn unknown_paths_and_methods_are_problems_too() {
    over_both(|_, endpoint| {
        for path in ["/", "/v1", "/v1/", "/v2/sessions", "/v1/session", "/v1/sessions/a/b"] {
            let answer = Client::connect(endpoint).json("GET", path, None);
            answer.expect_problem(404, "unknown_path");
        }
        for (method, path, allowed) in [
            ("GET", "/v1/run", "POST"),
            ("PUT", "/v1/sessions", "GET"),
            ("POST", "/v1/sessions/x", "PATCH"),
            ("DELETE", "/healthz", "GET"),
            ("GET", "/v1/sessions/x/execute", "POST"),
        ] {
            let answer = Client::connect(endpoint).json(method, path, None);
            answer.expect_problem(405, "method_not_allowed");
            assert!(answer.header("allow").unwrap().contains(allowed), "{answer:?}");
        }
    });
}

#[test]
fn a_body_has_to_say_that_it_is_json() {
    over_both(|_, endpoint| {
        let body = br#"{"code": "1"}"#;
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"]
        {
            let headers = [("Content-Type", kind)];
            let answer = Client::connect(endpoint).send("POST", "/v1/run", &headers, Some(body));
            answer.expect_problem(415, "unsupported_media_type");
        }
        for kind in ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"] {
            let headers = [("Content-Type", kind)];
            let answer = Client::connect(endpoint).send("POST", "/v1/run", &headers, Some(body));
            assert_eq!(answer.expect_success()["result"]["repr"], "1");
        }
    });
}

#[test]
fn web_pages_can_not_reach_the_api() {
    over_both(|_, endpoint| {
        let Endpoint::Tcp(port) = endpoint else {
            return; // A web page has no way to a Unix socket.
        };
        let own = format!("127.0.0.1:{port}");
        let ask = |headers: &[(&str, &str)]| {
            Client::connect(endpoint).send("GET", "/v1/sessions", headers, None)
        };
        // DNS rebinding: the name is the attacker's, the address ours.
        for host in
            ["evil.example", "evil.example:8470", "localhost.evil.example", "169.254.169.254"]
        {
            ask(&[("Host", host)]).expect_problem(403, "host_not_allowed");
        }
        for host in ["localhost", "127.0.0.1", "[::1]", &own] {
            assert_eq!(ask(&[("Host", host)]).status, 200, "{host}");
        }
        for origin in ["http://evil.example", "null", "https://localhost", "http://localhost:3000"]
        {
            ask(&[("Origin", origin)]).expect_problem(403, "cross_origin");
        }
        let same = format!("http://{own}");
        assert_eq!(ask(&[("Host", &own), ("Origin", &same)]).status, 200);
    });
}

#[test]
fn a_daemon_that_drains_says_so() {
    let mut daemon = Setup::default().start();
    let session = daemon.session();
    let (unix, path) = (daemon.unix(), session.path("/execute"));
    let running = std::thread::spawn(move || {
        let code = "import time\ntry:\n    open('began', 'w').close()\n    time.sleep(600)\n\
                    except KeyboardInterrupt: pass\n'done'";
        let code = json!({"code": code});
        Client::connect(&unix).json("POST", &path, Some(&code)).expect_success()
    });
    wait::until_true("its file", || session.request("GET", "/files/began", None).status == 200);
    // Connections that are there before it stops.
    let mut client = Client::connect(&daemon.unix());
    assert_eq!(client.json("GET", "/readyz", None).status, 200);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let refused = wait::until("a refusal", || {
        let answer = client.json("GET", "/readyz", None);
        (answer.status != 200).then_some(answer)
    });
    refused.expect_problem(503, "draining");
    let create = client.json("POST", "/v1/sessions", Some(&json!({})));
    create.expect_problem(503, "draining");
    assert!(create.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(client.json("GET", "/healthz", None).status, 200);
    // What runs may end.
    drop(client.json("POST", &session.path("/interrupt"), None).expect_success());
    assert_eq!(running.join().unwrap()["result"]["repr"], "'done'");
    drop(client);
    assert!(daemon.wait().success());
    assert!(daemon.told_manager().contains("STOPPING=1"));
}
