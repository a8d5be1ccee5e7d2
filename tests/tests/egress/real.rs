//! The program's own gate, from a session to a server of the test's on the host's loopback, which the
//! operator permits by address.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::{Setup, processes, program, wait};

use crate::trusted;

/// A server that answers each request with this, and its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = vec![0; 4096];
            if stream.read(&mut head).unwrap_or(0) > 0 {
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\noutside";
                drop(stream.write_all(answer.as_bytes()));
            }
        }
    });
    port
}

/// As [`crate::get`], of a name that programs do not ask a proxy for by themselves.
fn get(port: u16) -> String {
    crate::get(&format!("http://localhost:{port}/")).replace(
        "import ",
        "import os; os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\nimport ",
    )
}

fn setup(port: u16, more: &str) -> Setup {
    Setup::default()
        .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"trusted\"]")
        .config("egress", &format!("allow = [\"localhost:{port}\"]\n{more}"))
}

const PERMITTED: &str = "allow_addresses = [\"127.0.0.1\"]";

#[test]
fn server_is_reached_through_the_gate_and_the_same_not_without_leave() {
    let port = server();
    let log = program::temp_dir();
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let audit = format!("dir = {:?}", log.path().join("log"));
    let daemon = setup(port, PERMITTED).config("audit", &audit).start();
    let session = daemon.session_with(&trusted());
    assert_eq!(session.execute(&get(port)).ok().stdout(), "200 outside\n");
    let other = session.execute(&get(port ^ 1)).ok().stdout().to_owned();
    assert!(other.starts_with("403 "), "{other}");
    drop(session.execute("pass").ok());
    let inside = daemon.session_with(&json!({"network": "loopback"}));
    drop(inside.execute("pass").ok());
    wait::until_true("bytes are counted", || {
        session.info()["usage"]["egress_in_bytes"].as_u64() >= Some(7)
    });
    let usage = Client::connect(&daemon.unix()).json("GET", "/v1/admin/usage?period=total", None);
    let usage = usage.expect_success();
    assert!(usage["rows"][0]["egress_bytes"].as_u64() >= Some(7), "{usage}");
    let id = session.info()["id"].clone();
    daemon.stop_and_check();
    let exported =
        program::run(&["audit", "export", "--dir", log.path().join("log").to_str().unwrap()]);
    let lines: Vec<Value> = serde_json::from_str(&exported.expect_code(0).stdout()).unwrap();
    let decided: Vec<_> = lines
        .iter()
        .filter(|line| line["event"] == "egress" && line["session"] == id)
        .map(|line| (line["port"].clone(), line["decision"].clone(), line["reason"].clone()))
        .collect();
    let expected = [
        (json!(port), json!("allow"), json!("listed")),
        (json!(port ^ 1), json!("deny"), json!("port_not_listed")),
    ];
    assert_eq!(decided, expected);
    // Each execution has its own, and one that reached nothing has nothing.
    let of_session = |line: &&Value| line["event"] == "execution_ended";
    let ended: Vec<_> = lines.iter().filter(of_session).map(|line| &line["egress"]).collect();
    let [first, second, third, none] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!((&first["allowed"], &first["denied"]), (&json!(1), &json!(0)), "{first}");
    assert!(first["bytes_in"].as_u64() >= Some(7) && first["bytes_out"].as_u64() >= Some(7));
    let told = json!({"allowed": 0, "denied": 1, "bytes_in": 0, "bytes_out": 0});
    assert_eq!(**second, told);
    assert_eq!(third["allowed"], 0);
    assert_eq!((&third["denied"], &third["bytes_in"]), (&json!(0), &json!(0)));
    assert!(none.is_null(), "{none}");

    // A name on the list is not enough for an address of the host's.
    let daemon = setup(port, "").start();
    let refused = daemon.session_with(&trusted()).execute(&get(port)).ok().stdout().to_owned();
    assert!(refused.starts_with("403 "), "{refused}");
}

#[test]
fn embedded_run_has_a_gate_of_its_own_and_leaves_nothing() {
    let (port, dir) = (server(), program::temp_dir());
    let more = format!(
        "[sandbox]\nallowed_networks = [\"none\", \"loopback\", \"trusted\"]\n\
         [egress]\nallow = [\"localhost:{port}\"]\n{PERMITTED}\n"
    );
    let config = program::config(dir.path(), &more);
    let run = |code: &str| {
        let arguments = ["run", "--config", &config, "--quiet", "--network", "trusted", "-c", code];
        program::run_as(&program::Runner::Self_, dir.path(), &arguments, "")
    };
    assert_eq!(run(&get(port)).expect_code(0).stdout(), "200 outside\n");
    assert!(run(&get(port ^ 1)).stdout().starts_with("403 "));
    // Nor when it is killed while code runs, and the gate with connections.
    let wait_for = format!("{}\nimport time; time.sleep(600)", get(port));
    let mut command = program::vivarium(&program::Runner::Self_, dir.path());
    command.args(["run", "--config", &config, "--quiet", "--network", "trusted", "-c", &wait_for]);
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 12];
    running.stdout.take().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"200 outside\n");
    let gates = processes::descendants(i32::try_from(running.id()).unwrap());
    let gates: Vec<_> = gates.into_iter().filter(|process| is_gate(process.pid)).collect();
    assert_eq!(gates.len(), 1, "{gates:?}");
    running.kill().unwrap();
    running.wait().map(drop).unwrap();
    wait::until_true("the gate ends", || gates.iter().all(|gate| !gate.is_alive()));
}

#[test]
fn gate_that_is_killed_is_replaced() {
    let port = server();
    let daemon = setup(port, PERMITTED).start();
    assert!(gate_of(daemon.pid()).is_none(), "no session needs one yet");
    let session = daemon.session_with(&trusted());
    assert_eq!(session.execute(&get(port)).ok().stdout(), "200 outside\n");
    let gate = gate_of(daemon.pid()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(gate), Signal::SIGKILL).unwrap();
    daemon.until_logged("the egress gate is lost");
    assert_eq!(session.execute(&get(port)).ok().stdout(), "200 outside\n");
    assert_ne!(gate_of(daemon.pid()), Some(gate));
    daemon.stop_and_check();
}

/// The gate among a daemon's processes.
fn gate_of(daemon: i32) -> Option<i32> {
    processes::descendants(daemon).into_iter().map(|process| process.pid).find(|pid| is_gate(*pid))
}

fn is_gate(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"gate")
}
