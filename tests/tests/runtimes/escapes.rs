//! Attacks of native code in the place of the engine, with every layer and, as a control, without the one that
//! refuses them; in kernels that are executed and in those that are forked.

use super::*;
use vivarium_tests::program::Runner;

/// What only the filter of runtime `wasm` refuses.
const CALLS: [(&str, &str, &str); 11] = [
    // attempt, under the filter, without it
    ("fork", "EPERM", "works"),
    ("vfork", "EPERM", "works"),
    ("thread", "EPERM", "EINVAL"),
    ("socket unix", "EPERM", "works"),
    ("socket inet", "EPERM", "works"),
    ("socket netlink", "EPERM", "works"),
    ("socketpair", "EPERM", "works"),
    ("kill 1", "EPERM", "EPERM|works"),
    ("tgkill", "EPERM", "works"),
    ("own pipe", "EPERM", "works"),
    ("choose_signal", "EPERM", "works"),
];

#[test]
fn nothing_is_executed_forked_or_connected() {
    Probe::of_each_birth().iter().for_each(execute_fork_and_connect);
}

fn execute_fork_and_connect(probe: &Probe) {
    let daemon = probe.start(probe.setup(), "light");
    let session = light(&daemon);
    check(&session, &CALLS.map(|(what, refused, _)| (what, refused)));
    // What vivarium-wasm needs until it forbids itself that too.
    check(&session, &[("own control", "works")]);
    let own = format!("exec {}", probe.path().display());
    check(&session, &[(&own, "EPERM"), ("exec /bin/true", "EPERM"), ("exec_descriptor", "EPERM")]);
    // The one call that has started it: its descriptor is closed, and no other gets that number.
    check(&session, &[("exec_start", "EBADF"), ("take_start", "EBADF")]);

    let daemon = probe.start(probe.setup().without(&["seccomp"]), "light");
    let session = light(&daemon);
    check(&session, &CALLS.map(|(what, _, allowed)| (what, allowed)));
    check(&session, &[(&own, "works"), ("exec_start", "EBADF"), ("take_start", "EBADF")]);
}

/// The filter cannot see the path of the one call that it lets through.
#[test]
fn the_call_that_starts_the_program_starts_nothing_else() {
    Probe::of_each_birth().iter().for_each(execute_by_the_call_that_starts);
}

fn execute_by_the_call_that_starts(probe: &Probe) {
    let has_landlock = host::has(&[Requirement::Landlock]);
    let missing: &[&[&str]] = &[&["landlock"], &[], &["mounts"]];
    for missing in missing.iter().take(if has_landlock { 3 } else { 1 }) {
        let daemon = probe.start(probe.setup().without(missing), "light");
        let session = light(&daemon);
        check(
            &session,
            &[
                ("copy_self own", "works"),
                ("exec_absolute own", "EACCES"),
                ("copy_self /tmp/own", "works|EACCES"),
                ("exec_absolute /tmp/own", "EACCES|ENOENT"),
                ("exec_absolute /bin/true", "EACCES|ENOENT"),
                ("exec_absolute /proc/self/fd/4", "EACCES|ENOENT|ENOEXEC"),
                // The program that it is: until it forbids itself the call.
                ("forbid_exec", "works"),
                ("exec_absolute own", "EPERM"),
                (&format!("exec_absolute {}", probe.path().display()), "EPERM"),
            ],
        );
    }
    // Without both, only the program's own filter is between it and the host's programs.
    let daemon = probe.start(probe.setup().without(&["mounts", "landlock"]), "light");
    let session = light(&daemon);
    check(&session, &[("copy_self own", "works")]);
    for path in ["own", "/bin/true"] {
        let became = session.execute(&format!("exec_absolute {path}"));
        assert_eq!((became.status(), became.cause()), ("killed", "exited"), "control: {became}");
    }
    check(&session, &[("forbid_exec", "works"), ("exec_absolute own", "EPERM")]);
    check(&session, &[("exec_absolute /bin/true", "EPERM")]);
}

#[test]
fn the_root_has_the_program_and_nothing_else_of_the_host() {
    Probe::of_each_birth().iter().for_each(look_around);
}

fn look_around(probe: &Probe) {
    let daemon = probe.start(probe.setup(), "light");
    let session = light(&daemon);
    let program = probe.path();
    // A program that forks is dynamic, and says that it reads its libraries.
    let without_libraries = if probe.is_forked() { "works|EACCES" } else { "ENOENT" };
    let (read, write) =
        (format!("read {}", program.display()), format!("write {}", program.display()));
    check(
        &session,
        &[
            (&read, "works"),
            (&write, "EACCES|EROFS"),
            ("read /workspace/none", "ENOENT"),
            ("write /workspace/own", "works"),
            ("write /tmp/own", "works"),
            ("read /dev/urandom", "works"),
            ("write /dev/null", "works"),
            // Not there, as in no session or as only in those of an interpreter.
            ("read /etc/shadow", "ENOENT|EACCES"),
            ("read /usr/bin/python3", "ENOENT"),
            ("read /bin/sh", "ENOENT"),
            ("read /lib64/ld-linux-x86-64.so.2", without_libraries),
            ("list /usr", without_libraries),
            ("read /sys/devices/system/cpu/online", "ENOENT"),
            ("read /.vivarium/bin/python", "ENOENT"),
            // There, and the session's own, but nothing that the program needs.
            ("read /etc/passwd", "EACCES"),
            ("read /etc/hosts", "EACCES"),
            ("read /proc/1/environ", "ENOENT|EACCES|EPERM"),
            ("write /own", "EACCES|EROFS"),
            ("write /etc/own", "EACCES|EROFS"),
        ],
    );

    let daemon = probe.start(probe.setup().without(&["mounts", "landlock"]), "light");
    let session = light(&daemon);
    check(&session, &[("read /etc/passwd", "works"), ("read /usr/bin/python3", "works")]);
}

/// Landlock alone refuses the same where there is no root of the session's own.
#[test]
fn landlock_allows_no_more_than_the_program_needs() {
    if !host::has(&[Requirement::Landlock]) {
        return;
    }
    for probe in Probe::of_each_birth() {
        let daemon = probe.start(probe.setup().without(&["mounts"]), "light");
        let session = light(&daemon);
        let own = format!("read {}", probe.path().display());
        check(
            &session,
            &[
                (&own, "works"),
                ("read /etc/passwd", "EACCES"),
                ("read /usr/bin/python3", "EACCES"),
                (
                    "read /lib64/ld-linux-x86-64.so.2",
                    if probe.is_forked() { "works" } else { "EACCES" },
                ),
                ("list /usr", "EACCES"),
                ("write /tmp/own", "EACCES"),
                ("write own", "works"),
            ],
        );
    }
}

/// An executed kernel has the component, whose seals hold whoever opens it. A forked one has it no more.
fn attempts_at_the_component(probe: &Probe) -> [(&'static str, &'static str); 3] {
    let [read, change, reopen] =
        if probe.is_forked() { ["EBADF", "EBADF", "ENOENT"] } else { ["code", "EPERM", "EPERM"] };
    [("component", read), ("change_component", change), ("reopen_component", reopen)]
}

#[test]
fn the_component_is_a_copy_that_cannot_be_changed() {
    for probe in Probe::of_each_birth() {
        let daemon = probe.start(probe.setup(), "light");
        let session = light(&daemon);
        let attempts = attempts_at_the_component(probe);
        check(&session, &attempts);
        // The file that it was copied from is in no session's root.
        let path = component(&daemon.dir().join("state"));
        assert!(path.is_file());
        check(&session, &[(&format!("write {}", path.display()), "ENOENT|EACCES|EROFS")]);
        check(&session, &attempts[..1]);
    }
}

/// Where there is neither an id of the session's own nor Landlock.
#[test]
fn the_component_cannot_be_changed_by_the_daemons_own_user() {
    for probe in Probe::of_each_birth() {
        let setup = Setup::default().runner(Runner::InContainer).without(&["landlock"]);
        let section = probe.section() + "\ntemplate = \"auto\"";
        let daemon = probe.start(setup.config("environments.default", &section), "default");
        let session = daemon.any_session(&json!({}));
        let attempts = attempts_at_the_component(probe);
        check(&session, &[("write own", "works")]);
        check(&session, &attempts);
        check(&daemon.any_session(&json!({})), &attempts[..1]);
        // Of what it was copied from nothing is read again.
        let path = component(&daemon.dir().join("state"));
        std::fs::write(&path, "evil").unwrap();
        check(&daemon.any_session(&json!({})), &attempts[..1]);
    }
}

#[test]
fn a_kernel_is_told_its_memory_and_its_directories() {
    let Some(probe) = Probe::get() else { return };
    let daemon = probe.setup().limits(&json!({"max_memory_mb": 64})).start();
    let session = light(&daemon);
    assert_eq!(
        attempt(&session, "arguments"),
        "kernel --max-memory-bytes 67108864 /workspace /tmp"
    );
    // The host's is no session's.
    let daemon = probe.setup().without(&["mounts"]).start();
    assert!(!attempt(&light(&daemon), "arguments").ends_with("/tmp"));
}
