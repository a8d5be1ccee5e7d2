//! pasta, which connects sessions of network `full`: whose life it shares, and what is said without it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::processes::Process;
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Setup, internet, wait};

use crate::Family;

const NETWORKS: &str = "allowed_networks = [\"none\", \"loopback\", \"full\"]";

fn setup(passt: &str) -> Setup {
    Setup::default().config("sandbox", NETWORKS).config("egress", &format!("passt = \"{passt}\""))
}

fn full() -> Value {
    json!({"network": "full"})
}

fn pastas(daemon: &Daemon) -> Vec<Process> {
    let all = daemon.descendants().into_iter();
    // `pasta` is a link to `passt`, which may go on as `passt.avx2`.
    all.filter(|process| process.name.starts_with("pas")).collect()
}

fn pasta(daemon: &Daemon) -> Process {
    let mut all = pastas(daemon);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn end(process: &Process) {
    kill(Pid::from_raw(process.pid), Signal::SIGKILL).unwrap();
}

#[track_caller]
fn until_gone(process: &Process) {
    wait::until(&format!("the end of {process:?}"), || (!process.is_alive()).then_some(()));
}

#[test]
fn pasta_ends_with_its_session_however_that_ends() {
    if !host::has(&[Requirement::Passt]) {
        return;
    }
    internet::enter();
    let daemon = setup("on").start();
    assert!(pastas(&daemon).is_empty(), "the trial session's is gone");
    drop(daemon.session());
    assert!(pastas(&daemon).is_empty(), "others have none");

    let session = daemon.session_with(&full());
    let first = pasta(&daemon);
    // It can do nothing to the daemon, whose id it has not, nor on the host.
    if host::grants_ids() {
        assert_ne!(first.status_number("Uid"), daemon.process().status_number("Uid"));
    }
    let deleted = daemon.request("DELETE", &session.path(""), None);
    assert_eq!(deleted.status, 204);
    assert!(!first.is_alive(), "the answer came when nothing was left");

    type Victim = fn(&Family) -> &Process;
    let victims: [Victim; 2] = [|family| &family.agent, |family| &family.launcher];
    for victim in victims {
        let _session = daemon.session_with(&full());
        let pasta = pasta(&daemon);
        let all = daemon.descendants();
        let launcher = all.iter().find(|process| process.pid == pasta.parent).unwrap();
        let of_launcher = |process: &&Process| process.parent == launcher.pid;
        let children: Vec<_> = all.iter().filter(of_launcher).collect();
        let named = |name: &str| children.iter().find(|it| it.name.starts_with(name)).unwrap();
        let family = Family {
            launcher: launcher.clone(),
            agent: (*named("viv-agent")).clone(),
            kernel: (*named("python")).clone(),
        };
        end(victim(&family));
        until_gone(&pasta);
    }
    let _session = daemon.session_with(&full());
    let last = pasta(&daemon);
    let _dir = daemon.kill_and_check();
    assert!(!last.is_alive());
}

#[test]
fn a_session_whose_pasta_ends_has_no_network_and_goes_on() {
    if !host::has(&[Requirement::Passt]) {
        return;
    }
    internet::enter();
    let daemon = setup("auto").start();
    let session = daemon.session_with(&full());
    assert_eq!(session.execute("kept = 1").status(), "ok");
    let reach = format!(
        "import socket\ntry: print(socket.create_connection(('{}', 80), 20).recv(99).decode())\n\
         except OSError as error: print(error.errno)",
        internet::PUBLIC_V4
    );
    assert_eq!(session.execute(&reach).ok().stdout(), format!("{}\n", internet::GREETING));
    end(&pasta(&daemon));
    daemon.until_logged("a session has lost its network");
    assert_eq!(session.execute(&reach).ok().stdout(), "101\n"); // ENETUNREACH
    assert_eq!(session.value("kept"), "1");
    daemon.stop_and_check();
}

#[test]
fn without_pasta_a_session_shares_the_hosts_network_and_is_told() {
    let daemon = setup("off").start();
    let session = daemon.session_with(&full());
    let report = session.layer("network");
    assert_eq!(report["status"], "off");
    assert!(report["detail"].as_str().unwrap().contains("unrestricted"), "{report}");
    assert!(report["fix"].as_str().unwrap().contains("passt"), "{report}");
    assert!(daemon.log().contains("share the host's network"), "{}", daemon.log());
    daemon.stop_and_check();
    let (status, log) = setup("/nonexistent/pasta").try_start().err().unwrap();
    assert_eq!(status.code(), Some(3), "{log}");
    assert!(log.contains("egress.passt") && log.contains("install passt"), "{log}");
}

#[test]
fn the_doctor_says_what_full_is_and_how_to_have_it_apart() {
    let network = |passt: &str| {
        let dir = program::temp_dir();
        let config = program::config(dir.path(), &format!("[egress]\npasst = \"{passt}\""));
        let arguments = ["doctor", "--json", "--config", &config];
        let finished = program::run_as(&Runner::Self_, dir.path(), &arguments, "");
        let diagnosis: Value = serde_json::from_str(&finished.stdout()).unwrap();
        let facts = diagnosis["facts"].as_array().unwrap();
        let fact = facts.iter().find(|fact| fact["name"] == "network full").unwrap();
        fact["value"].as_str().unwrap().to_owned()
    };
    assert!(network("off").starts_with("the host's, unrestricted: egress.passt"));
    if host::has(&[Requirement::Passt]) {
        internet::enter();
        assert_eq!(network("auto"), "its own, through passt and a packet filter");
    }
}
