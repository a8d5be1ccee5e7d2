//! Packages that attack whoever builds, inspects or has them.

use std::process::Command;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};

use crate::{Packages, built, failed};

/// A `.pth` file is code that every Python runs which has its directory. No Python outside does; templates have
/// a test of their own.
#[test]
fn nothing_of_an_environment_runs_outside_of_sessions() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    packages.add("pth");
    let daemon = packages.setup("").start();
    let hash = built(&daemon, "pth", "pth");
    let session = daemon.session_with(&json!({"environment": "pth"}));
    assert_eq!(session.value("__import__('sys').planted"), "True", "it runs inside");
    session.reset();
    drop(daemon.request("GET", "/v1/admin/environments/pth", None).expect_success());
    assert!(!packages.mark().exists(), "it ran outside");
    // The control: a Python of the host that has the directory on its path.
    let data = daemon.dir().join("state/environments/@all/artefacts").join(hash).join("data");
    let code = "import glob, site, sys\n\
                [site.addsitedir(d) for d in glob.glob(sys.argv[1] + '/lib/*/site-packages')]";
    let ran = Command::new("/usr/bin/python3").args(["-c", code]).arg(&data).status().unwrap();
    assert!(ran.success() && packages.mark().exists(), "the package would have left a mark");
}

#[test]
fn build_backends_are_confined() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    packages.add("attack");
    let daemon = packages.setup("").start();
    built(&daemon, "attack", "attack");
    assert!(!packages.mark().exists());
    let session = daemon.session_with(&json!({"environment": "attack"}));
    let found = session.execute("import attack, json\nprint(json.dumps(attack.FOUND))").ok();
    let found: Value = found.printed_json();
    for (what, how) in found.as_object().unwrap() {
        assert_ne!(how, "done", "{what}: {found}");
    }
    assert_eq!(found.as_object().unwrap().len(), 6, "the control: it did try");
}

#[test]
fn what_no_environment_may_have_is_refused() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let daemon = packages.setup("max_mb = 16").start();
    for (kind, reason) in [
        ("link", "lib/planted leads out of the environment, to /etc/passwd"),
        // The filter of system calls refuses the bit itself.
        ("setuid", "the build ended with"),
        ("fifo", "lib/planted is a device, socket or FIFO"),
        ("fill", "more than 16777216 bytes"),
    ] {
        packages.add(kind);
        let error = failed(&daemon, kind, kind);
        assert!(error.contains(reason), "{kind}: {error}");
    }
    let staging = daemon.dir().join("state/environments/staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0, "nothing is left of them");
}
