//! A command has every layer that the kernel beside it has. The tables of attacks are tried from
//! both ([`probe::check`]); here is what a process is, read from inside one.

use std::fs;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::probe::{self, Attempt};
use vivarium_tests::wait;

use crate::every_way::{daemon, setup};

/// What a process is told to say of itself.
const LOOK: &[&str] = &[
    "{name: status()[name].split() for name in ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', \
     'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')}",
    "namespaces()",
    "sorted(os.environ.items())",
    "{name: limit('RLIMIT_' + name) for name in ('AS', 'CORE', 'CPU', 'FSIZE', 'MEMLOCK', \
     'MSGQUEUE', 'NOFILE', 'NPROC')}",
    "read('/proc/self/oom_score_adj')",
    "[line for line in read('/proc/self/cgroup').splitlines() if line.startswith('0::')]",
    "read('/proc/self/mountinfo')",
    "[os.getcwd(), os.uname().nodename]",
];

const CREDENTIALS: usize = 0;
const NAMESPACES: usize = 1;
const VARIABLES: usize = 2;
const LIMITS: usize = 3;

#[test]
fn it_is_in_everything_as_the_kernel_is() {
    let daemon = daemon();
    let limits = json!({"max_open_fds": 100, "max_file_size_mb": 3, "max_cpu_secs": 7});
    let spec = json!({"limits": limits, "env": {"GREETING": "hello"}});
    let session = daemon.session_with(&spec);
    probe::load(&session);
    let kernels: Vec<_> = LOOK.iter().map(|look| Attempt::make(&session, look).value()).collect();
    let commands = Attempt::make_in_command(&session, LOOK).into_iter();
    let commands: Vec<_> = commands.map(Attempt::value).collect();
    for ((look, kernels), commands) in LOOK.iter().zip(&kernels).zip(&commands) {
        assert_eq!(commands, kernels, "{look}");
    }
    assert_eq!(commands[LIMITS]["NOFILE"], json!([100, 100]));
    assert!(commands[VARIABLES].to_string().contains("GREETING"));
    daemon.stop_and_check();
}

/// What a command says of itself with a layer on, and with these off.
fn with_and_without(layers: &[&str], what: usize) -> [Value; 2] {
    [&[] as &[&str], layers].map(|off| {
        let setup = setup().env("OPENAI_API_KEY", "sk-planted-by-a-test").without(off);
        let daemon = setup.start();
        let mut said = Attempt::make_in_command(&daemon.session(), &LOOK[what..=what]);
        daemon.stop_and_check();
        said.remove(0).value()
    })
}

#[test]
fn it_has_no_capability_and_gets_none() {
    let [on, off] = with_and_without(&["credentials", "landlock", "seccomp"], CREDENTIALS);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(on[set], json!(["0000000000000000"]), "{set}");
    }
    assert_eq!((&on["NoNewPrivs"], &on["Seccomp"]), (&json!(["1"]), &json!(["2"])));
    assert_eq!((&off["NoNewPrivs"], &off["Seccomp"]), (&json!(["0"]), &json!(["0"])));
    assert_ne!(off["CapBnd"], on["CapBnd"]);
}

#[test]
fn it_is_in_the_sessions_namespaces() {
    let host = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
    let host = |kind: &str| json!(host(kind).to_string_lossy());
    let [on, off] = with_and_without(&["namespaces"], NAMESPACES);
    for kind in ["user", "pid", "mnt", "net", "ipc", "uts"] {
        assert_ne!(on[kind], host(kind), "{kind}");
    }
    for kind in ["pid", "ipc", "uts"] {
        assert_eq!(off[kind], host(kind), "{kind}");
    }
}

#[test]
fn no_secret_of_the_daemon_is_in_its_variables() {
    let [on, off] = with_and_without(&["env_scrub"], VARIABLES);
    assert!(!on.to_string().contains("planted"), "{on}");
    assert!(off.to_string().contains("sk-planted-by-a-test"), "{off}");
}

#[test]
fn it_has_its_three_descriptors_and_no_other() {
    let daemon = daemon();
    let session = daemon.session();
    let list = |shell: &str| session.command(&json!({"shell": shell})).ok().stdout().to_owned();
    // The fourth is the listing's own.
    assert_eq!(list("exec ls /proc/self/fd"), "0\n1\n2\n3\n");
    // The control: one more is seen.
    assert_eq!(list("exec ls /proc/self/fd 7</dev/null"), "0\n1\n2\n3\n7\n");
    daemon.stop_and_check();
}

#[test]
fn limits_hold_it_as_they_hold_code() {
    let write = json!({"argv": ["dd", "if=/dev/zero", "of=large", "bs=1M", "count=2"]});
    let [on, off] = [&[] as &[&str], &["rlimits"]].map(|layers| {
        let limits = json!({"max_file_size_mb": 1, "max_disk_mb": 8});
        let daemon = setup().limits(&limits).without(layers).start();
        let session = daemon.session();
        let outcome = session.command(&write);
        assert_eq!(session.value("1 + 1"), "2");
        outcome.status().to_owned()
    });
    assert_ne!(on, "ok");
    assert_eq!(off, "ok");
}

#[test]
fn the_sessions_disk_is_its_own_too() {
    let fill = json!({"argv": ["dd", "if=/dev/zero", "of=/tmp/fill", "bs=1M", "count=8"]});
    let [on, off] = [&[] as &[&str], &["mounts"]].map(|layers| {
        let daemon = setup().limits(&json!({"max_disk_mb": 4})).without(layers).start();
        let session = daemon.session();
        let place = session.value("__import__('tempfile').gettempdir() + '/fill'");
        let mut fill = fill.clone();
        fill["argv"][2] = json!(format!("of={}", place.trim_matches('\'')));
        session.command(&fill)
    });
    assert!(on.stderr().contains("No space left on device"), "{on}");
    assert_eq!(off.status(), "ok", "{off}");
}

#[test]
fn a_command_starts_in_the_sessions_scope() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = daemon();
    let session = daemon.session();
    let command = json!({"shell": "echo on; while [ ! -e go ]; do sleep 0.01; done"});
    let mut events = session.stream_with("/commands", &[], &command);
    events.expect("started");
    events.expect("stdout");
    let leaf = session.leaf();
    let count = || fs::read_to_string(leaf.join("cgroup.procs")).unwrap().lines().count();
    // The kernel and the shell, and most of the time a sleep.
    assert!(count() >= 2);
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    assert_eq!(events.rest().pop().unwrap().data["status"], "ok");
    wait::until_true("the kernel alone", || count() == 1);
    daemon.stop_and_check();
}
