//! The filesystem allow-list, and the scopes of signals and abstract sockets.

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::probe;

use super::contrast;
use crate::every_way::{daemon, setup};

#[test]
fn only_what_is_listed_can_be_opened() {
    if !host::has(&[Requirement::Landlock]) {
        return;
    }
    contrast(
        &["landlock"],
        &[
            ("read('/.unlisted')", "EACCES", "works"),
            ("os.listdir('/.unlisted')", "ENOTDIR", "ENOTDIR"),
            // What Python and its libraries need is.
            ("os.listdir('/usr')", "works", "works"),
            ("os.listdir('/workspace') and None", "works", "works"),
            ("os.listdir('/tmp')", "works", "works"),
            ("os.listdir('/dev/shm')", "works", "works"),
            ("os.listdir('/proc/self')", "works", "works"),
            ("os.listdir('/sys/devices/system/cpu')", "works", "works"),
            ("write('/dev/null')", "works", "works"),
            ("read('/dev/zero') and None", "works", "works"),
            ("read('/dev/urandom') and None", "works", "works"),
            // Writing there would stir the host's pool of random numbers.
            ("write('/dev/urandom')", "EACCES", "works"),
        ],
    );
    // Without a root of the session's own the directories are the host's.
    let directories = ["/", "/dev", "/sys", "/sys/devices", "/etc", "/proc"];
    let list = directories.map(|directory| format!("os.listdir('{directory}')"));
    let rows = |word| list.each_ref().map(|attack| (&**attack, word));
    let start = |without: &[&str]| setup().without(without).start();
    probe::check(&start(&["mounts"]).session(), &rows("EACCES"));
    probe::check(&start(&["mounts", "landlock"]).session(), &rows("works"));
}

#[test]
fn the_sessions_own_root_can_be_listed_and_holds_what_is_bound() {
    let daemon = daemon();
    let session = daemon.session();
    let _import = session.execute("import os").ok();
    let known = [
        (
            "/",
            ".empty .unlisted .vivarium bin dev etc home lib lib32 lib64 libx32 mnt proc sbin sys tmp usr \
             workspace",
        ),
        ("/dev", "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"),
        ("/dev/pts", "ptmx"),
        ("/home", "user"),
        ("/mnt", "data"),
        ("/sys", "devices"),
        ("/sys/devices", "system"),
        ("/sys/devices/system", "cpu"),
        ("/.empty", ""),
        ("/.vivarium", "bin"),
        (
            "/.vivarium/bin",
            "pip pip3 python session-python python3 python3.9 python3.11 python3.12 python3.13",
        ),
    ];
    for (directory, names) in known {
        let unknown = format!("sorted(set(os.listdir('{directory}')) - set('{names}'.split()))");
        assert_eq!(session.value(&unknown), "[]", "{directory}");
    }
    assert_eq!(session.value("{'usr', 'proc', 'tmp'} <= set(os.listdir('/'))"), "True");
    let listed = session.command(&json!({"argv": ["ls", "/"]})).ok();
    assert!(listed.stdout().contains("workspace"), "{listed}");
}

#[test]
fn signals_end_at_the_kernel() {
    if !host::has(&[Requirement::Landlock]) {
        return;
    }
    // The scope came with ABI 6 (Linux 6.12). Before it, and without it, PID 1 of a namespace
    // takes no signal from inside that it has no handler for; the agent's own id, where it has
    // one, refuses as well.
    let daemon = daemon();
    let session = daemon.session();
    let agent = session.layer("credentials")["status"] == "partial";
    let word = if host::kernel_version() >= (6, 12) || !agent { "EPERM" } else { "works" };
    let kill = "os.kill(1, signal.SIGKILL)";
    probe::check(
        &session,
        &[(kill, word), ("os.kill(1, 0)", word), ("os.kill(os.getppid(), 0)", "works")],
    );
    assert_eq!(session.value("6 * 7"), "42");
    let without = setup().without(&["landlock"]).start();
    let session = without.session();
    probe::check(&session, &[(kill, if agent { "works" } else { "EPERM" })]);
    // Sent, and without effect.
    assert_eq!(session.value("6 * 7"), "42");
    daemon.stop_and_check();
}

#[test]
fn a_domain_can_only_get_narrower() {
    if !host::has(&[Requirement::Landlock]) {
        return;
    }
    let daemon = daemon();
    // A ruleset that allows everything, stacked on the session's own, gives nothing back:
    // struct landlock_ruleset_attr with EXECUTE alone handled, restrict_self, and try again.
    let widen = "[call(446, call(444, (ctypes.c_uint64 * 1)(1), 8, 0), 0), read('/.unlisted')]";
    probe::check(&daemon.session(), &[(widen, "EACCES")]);
}
