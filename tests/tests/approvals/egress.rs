//! Destinations that are on no list, through the program's own gate to a server of the test's.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::{Daemon, Setup, processes, wait};

use super::{allow, approval, decide, until};

/// A server that answers each request with `outside`, and its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if stream.read(&mut [0; 4096]).unwrap_or(0) > 0 {
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\noutside";
                drop(stream.write_all(answer.as_bytes()));
            }
        }
    });
    port
}

fn get(port: u16) -> String {
    format!(
        "import os, urllib.request, urllib.error\n\
         os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\n\
         try:\n    r = urllib.request.urlopen('http://localhost:{port}/', timeout=60)\n\
         except urllib.error.HTTPError as e:\n    r = e\n\
         print(r.status)"
    )
}

fn daemon(rule: &str, addresses: &str) -> Daemon {
    Setup::default()
        .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"trusted\"]")
        .config("egress", &format!("allow_addresses = [{addresses}]"))
        .config("approval", rule)
        .start()
}

/// The one call that waits, once there is one.
fn pending(at: &Endpoint) -> Value {
    wait::until("a call that waits", || {
        let list = Client::connect(at).json("GET", "/v1/approvals", None).expect_success();
        list["approvals"].as_array().unwrap().first().cloned()
    })
}

#[test]
fn destination_is_reached_once_somebody_allows_it_and_never_before() {
    let (port, other) = (server(), server());
    let daemon = daemon("egress = \"ask\"\nremember = \"session\"", "\"127.0.0.1\"");
    let at = daemon.unix();
    let session = daemon.session_with(&json!({"id": "a", "network": "trusted"}));
    let in_session = |code: &str| session.execute(code).ok().stdout().to_owned();
    thread::scope(|scope| {
        let asking = scope.spawn(|| in_session(&get(port)));
        let call = pending(&at);
        assert_eq!(call["egress"], json!({"host": "localhost", "port": port}));
        assert_eq!((&call["session_id"], &call["execution"]), (&json!("a"), &Value::Null));
        allow(&at, call["id"].as_str().unwrap());
        assert_eq!(asking.join().unwrap(), "200\n");
        // Remembered.
        assert_eq!(in_session(&get(port)), "200\n");
        // Another port is another destination; once denied, it is not asked for again at once.
        let asking = scope.spawn(|| in_session(&get(other)));
        let id = pending(&at)["id"].as_str().unwrap().to_owned();
        assert_eq!(decide(&at, &id, &json!({"decision": "deny"})).status, 200);
        assert_eq!(asking.join().unwrap(), "403\n");
        assert_eq!(in_session(&get(other)), "403\n");

        // A list of the request's own is all that its session gets.
        let spec = json!({"network": "trusted", "egress_allow": []});
        let narrow = daemon.session_with(&spec);
        assert_eq!(narrow.execute(&get(other)).ok().stdout(), "403\n");

        // The gate is lost while somebody is asked: nobody is allowed by a late decision.
        let third = server();
        let asking = scope.spawn(move || {
            in_session(
                &get(third)
                    .replace("urllib.error.HTTPError", "OSError")
                    .replace("r.status", "getattr(r, 'status', 'broken')"),
            )
        });
        let id = pending(&at)["id"].as_str().unwrap().to_owned();
        let gate = processes::descendants(daemon.pid()).into_iter().find(|process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"gate")
        });
        kill(Pid::from_raw(gate.unwrap().pid), Signal::SIGKILL).unwrap();
        until(&at, &id, "withdrawn");
        let late = decide(&at, &id, &json!({"decision": "allow"}));
        late.expect_problem(409, "approval_ended");
        assert_eq!(asking.join().unwrap(), "broken\n");
    });
    daemon.stop_and_check();
}

#[test]
fn nobody_in_time_refuses_and_allow_still_checks_addresses() {
    let port = server();
    let asking = daemon("egress = \"ask\"\ntimeout = \"100ms\"", "\"127.0.0.1\"");
    let session = asking.session_with(&json!({"network": "trusted"}));
    assert_eq!(session.execute(&get(port)).ok().stdout(), "403\n");
    let list = Client::connect(&asking.unix()).json("GET", "/v1/approvals?all=true", None);
    let list = list.expect_success();
    assert_eq!(list["approvals"][0]["state"], "timed_out", "{list}");
    let id = list["approvals"][0]["id"].as_str().unwrap();
    assert_eq!(approval(&asking.unix(), id)["egress"]["port"], port);
    asking.stop_and_check();

    let open = daemon("egress = \"allow\"", "\"127.0.0.1\"");
    let session = open.session_with(&json!({"network": "trusted"}));
    assert_eq!(session.execute(&get(port)).ok().stdout(), "200\n");
    // Requests tighten that, and their lists do.
    let refused = [json!({"approval": {"egress": "deny"}}), json!({"egress_allow": []})];
    for mut spec in refused {
        spec["network"] = json!("trusted");
        let narrow = open.session_with(&spec);
        assert_eq!(narrow.execute(&get(port)).ok().stdout(), "403\n", "{spec}");
        let info = narrow.info();
        let entry = json!({"key": "approval.egress", "value": "deny", "source": "request"});
        assert!(info["policy"].as_array().unwrap().contains(&entry), "{info}");
    }
    let spec = json!({"network": "trusted", "approval": {"egress": "ask"}});
    let asking = open.session_with(&spec);
    thread::scope(|scope| {
        let waits = scope.spawn(|| asking.execute(&get(port)).ok().stdout().to_owned());
        let id = pending(&open.unix())["id"].as_str().unwrap().to_owned();
        allow(&open.unix(), &id);
        assert_eq!(waits.join().unwrap(), "200\n");
    });
    open.stop_and_check();
    // Where the operator has not permitted the address, `allow` does not either.
    let open = daemon("egress = \"allow\"", "");
    let session = open.session_with(&json!({"network": "trusted"}));
    assert_eq!(session.execute(&get(port)).ok().stdout(), "403\n");
    open.stop_and_check();
}
