//! Sessions that do not start for what passes by itself: another try may do better, and the answer
//! says so.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vivarium_tests::http::Response;
use vivarium_tests::{Daemon, Setup, program, wait};

use crate::Family;

/// An interpreter that does not come to its program where `HANG` is set: its `site` waits.
fn setup(dir: &std::path::Path) -> Setup {
    let root = dir.join("venv");
    let mut venv = Command::new("/usr/bin/python3");
    assert!(venv.args(["-m", "venv", "--without-pip"]).arg(&root).status().unwrap().success());
    let library = fs::read_dir(root.join("lib")).unwrap().next().unwrap().unwrap().path();
    // Lines that begin so are executed: the documentation of Python's module site.
    let hang = "import os, time; time.sleep(10**6 if os.getenv('HANG') else 0)\n";
    fs::write(library.join("site-packages/hang.pth"), hang).unwrap();
    let interpreter = root.join("bin/python3").display().to_string();
    let environment = format!("interpreter = '{interpreter}'\ntemplate = \"off\"");
    Setup::default().config("environments.default", &environment)
}

fn create(daemon: &Daemon) -> Response {
    daemon.request("POST", "/v1/sessions", Some(&json!({})))
}

fn count(daemon: &Daemon, line: &str) -> usize {
    let text = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    let value = text.lines().find_map(|found| found.strip_prefix(line));
    value.map_or(0, |value| value.trim().parse().unwrap())
}

#[test]
fn one_whose_processes_are_killed_can_be_tried_again() {
    let dir = program::temp_dir();
    let daemon = setup(dir.path()).start();
    let victims: [fn(&Family) -> i32; 2] =
        [|family| family.launcher.pid, |family| family.agent.pid];
    for victim in victims {
        for (path, body) in [
            ("/v1/sessions", json!({"env": {"HANG": "1"}})),
            ("/v1/run", json!({"env": {"HANG": "1"}, "code": "1"})),
        ] {
            thread::scope(|scope| {
                let asked = scope.spawn(|| daemon.request("POST", path, Some(&body)));
                wait::until_true("a kernel that does not come to its program", || {
                    daemon.descendants().iter().any(|one| one.name.starts_with("python"))
                });
                kill(Pid::from_raw(victim(&Family::of(&daemon))), Signal::SIGKILL).unwrap();
                let answer = asked.join().unwrap();
                answer.expect_problem(503, "start_interrupted");
                assert!(answer.header("retry-after").is_some());
            });
            wait::until_true("the end of its processes", || daemon.descendants().is_empty());
        }
    }
    // Whatever killed them, it is the operator's affair.
    let line = "vivarium_session_start_failures_total{layer=\"none\",tenant=\"default\"}";
    assert_eq!(count(&daemon, line), 4);
    assert_eq!(create(&daemon).status, 201);
    daemon.stop_and_check();
}

/// Limits the fork server, and with it launchers and agents, until the next call.
fn limit_launchers(daemon: &Daemon, limit: &str) {
    let pid = daemon.fork_server().unwrap().pid;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let id = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid.to_string(), limit]).uid(id("Uid:")).gid(id("Gid:"));
    assert!(prlimit.status().unwrap().success());
}

#[test]
fn launchers_and_agents_without_descriptors_say_so() {
    let daemon = Setup::default().start();
    let mut started = 0;
    let mut refused = 0;
    for most in 8..48 {
        limit_launchers(&daemon, &format!("--nofile={most}:1024"));
        let answer = create(&daemon);
        if answer.status == 201 {
            started += 1;
            let id = answer.json()["id"].as_str().unwrap().to_owned();
            assert_eq!(daemon.request("DELETE", &format!("/v1/sessions/{id}"), None).status, 204);
        } else {
            refused += 1;
            answer.expect_problem(503, "no_descriptors");
            assert!(answer.header("retry-after").is_some());
        }
    }
    assert!(started > 0 && refused > 2, "{started} {refused}");
    let line = "vivarium_refusals_total{reason=\"no_descriptors\",tenant=\"default\"}";
    assert_eq!(count(&daemon, line), refused);
    daemon.stop_and_check();
}

#[test]
fn a_host_without_processes_has_no_capacity_for_now() {
    let daemon = Setup::default().start();
    limit_launchers(&daemon, "--nproc=1:");
    let mut answer = create(&daemon);
    if answer.status == 201 {
        answer = create(&daemon); // The other one was prepared before.
    }
    answer.expect_problem(503, "no_capacity");
    assert!(answer.header("retry-after").is_some());
    limit_launchers(&daemon, "--nproc=4096:");
    assert_eq!(create(&daemon).status, 201);
    let line = "vivarium_refusals_total{reason=\"no_capacity\",tenant=\"default\"}";
    assert_eq!(count(&daemon, line), 1);
    daemon.stop_and_check();
}
