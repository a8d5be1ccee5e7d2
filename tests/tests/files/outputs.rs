//! Files that an execution or a command was to make: what tenant code puts in their place leads
//! nobody to another file.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use vivarium_tests::{Session, Setup};

use super::Files;

/// What came of each name that was asked for, by code and by a command.
fn asked(session: &Session<'_>, names: &[&str]) -> Vec<Value> {
    let outputs: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    let code = session.execute_with(&json!({"code": "1", "outputs": outputs})).ok();
    let command = session.command(&json!({"argv": ["true"], "outputs": outputs})).ok();
    [code, command].iter().flat_map(|one| one.0["files"].as_array().unwrap().clone()).collect()
}

#[track_caller]
fn check_refused(session: &Session<'_>, names: &[&str]) {
    let all = asked(session, names);
    assert_eq!(all.len(), 2 * names.len());
    for file in all {
        assert!(file["error"].is_string(), "{file}");
        assert!(file.get("text").is_none() && file.get("data").is_none(), "{file}");
    }
}

#[test]
fn links_in_their_place_lead_to_no_file_of_the_host() {
    // The workdir is a directory of the host's then, and the agent sees all of them.
    let daemon = Setup::default().without(&["mounts", "landlock"]).start();
    let host = tempfile::Builder::new().prefix("vt").tempdir_in("/var/tmp").unwrap();
    let target = host.path().join("target");
    fs::write(&target, "of the host").unwrap();
    for (path, mode) in [(host.path(), 0o755), (&target, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let files = Files::of(&daemon);
    files.run(&format!(
        "import os; os.symlink('{}', 'link'); os.symlink('{}', 'dirlink')\n\
         os.symlink('dirlink', 'twice'); os.mkdir('dir'); os.symlink('../link', 'dir/link')\n\
         open('plain', 'w').write('plain'); os.symlink('plain', 'inner')",
        target.display(),
        host.path().display()
    ));
    // The control: who follows them finds it.
    let through = ["link", "dirlink/target", "twice/target", "dir/link"];
    for path in through {
        let read = files.session.value(&format!("open({path:?}).read()"));
        assert_eq!(read, "'of the host'", "{path}");
    }
    check_refused(&files.session, &through);
    check_refused(&files.session, &["inner"]);
    for file in asked(&files.session, &["plain"]) {
        assert_eq!(file["text"], "plain", "{file}");
    }
    daemon.stop_and_check();
}

#[test]
fn a_link_that_the_execution_itself_plants_is_none_the_better() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    for target in ["/etc/passwd", "/proc/self/environ", "/proc/1/environ", "/dev/zero", "kept"] {
        let code = format!(
            "import os\nopen('kept', 'w').write('kept')\nopen('out', 'w').write('mine')\n\
             os.remove('out'); os.symlink({target:?}, 'out')"
        );
        let request = json!({"code": code, "outputs": [{"name": "out"}]});
        let outcome = files.session.execute_with(&request).ok();
        let file = &outcome.0["files"][0];
        assert!(file["error"].as_str().unwrap().contains("symbolic link"), "{target}: {file}");
        // Nor is it among what changed.
        let changed = outcome.0["files_changed"].as_array().unwrap();
        assert!(changed.iter().all(|file| file["name"] != "out"), "{changed:?}");
        files.run("os.remove('out')");
    }
    let code = "import os; os.symlink('kept', 'other'); os.rename('kept', 'out')";
    let request = json!({"code": code, "outputs": [{"name": "out"}]});
    assert_eq!(files.session.execute_with(&request).ok().0["files"][0]["text"], "kept");
    daemon.release();
}

#[test]
fn what_blocks_or_never_ends_in_their_place_holds_nobody_up() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os, socket\nos.mkfifo('pipe'); os.mkdir('dir')\n\
         s = socket.socket(socket.AF_UNIX); s.bind('socket')\n\
         file = open('sparse', 'wb'); file.truncate(200 << 20); file.close()",
    );
    check_refused(
        &files.session,
        &["pipe", "socket", "dir", "sparse", "pipe/x", "../etc/passwd"][..5],
    );
    let climbing = json!({"code": "1", "outputs": [{"name": "../etc/passwd"}]});
    let refused = files.session.request("POST", "/execute", Some(&climbing));
    refused.expect_problem(422, "invalid_field");
    assert_eq!(files.session.value("1 + 1"), "2");
    daemon.release();
}
