//! A full disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use vivarium_tests::Session;
use vivarium_tests::host::{Requirement, has};
use vivarium_tests::http::Client;

use crate::{images, session_named, suspend};

fn run(program: &str, arguments: &[&str], at: &Path) {
    let status = Command::new(program).args(arguments).arg(at).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// What is there of tenants' images and checkpoints, unfinished ones too.
fn kept(at: &Path) -> usize {
    let count = |dir: &str| fs::read_dir(at.join(dir)).map_or(0, Iterator::count);
    count("default") + count(".checkpoints/default")
}

#[test]
fn a_session_goes_on_where_the_disk_is_full_and_nothing_is_left_there() {
    if !has(&[Requirement::Root]) {
        return;
    }
    let dir = images(&[]).start().stop_and_keep();
    let at = dir.path().join("state/images");
    let owner = fs::metadata(&at).unwrap().uid();
    run("mount", &["-t", "tmpfs", "-o", &format!("size=64m,mode=700,uid={owner}"), "none"], &at);
    let daemon = images(&[]).in_place_of(dir).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("import os\nx = os.urandom(1 << 20); y = hash(x)").ok();
    let other = session_named(&daemon, "b");
    let _asleep = suspend(&other).expect_success();
    let exported = Client::connect(&daemon.unix()).send("GET", "/v1/images/b/export", &[], None);
    let before = kept(&at);

    let filling = at.join("filling");
    assert!(fs::write(&filling, vec![0; 65 << 20]).is_err());
    let name = json!({"name": "one"});
    let tar = [("content-type", "application/x-tar")];
    let import = || {
        let mut client = Client::connect(&daemon.unix());
        client.send("POST", "/v1/images?id=c", &tar, Some(&exported.body))
    };
    for _ in 0..2 {
        let answers =
            [suspend(&session), session.request("POST", "/checkpoints", Some(&name)), import()];
        for answer in answers {
            answer.expect_problem(409, "image_failed");
        }
        assert_eq!(session.value("hash(x) == y"), "True");
        assert_eq!(kept(&at), before);
    }
    // What was suspended before is resumed, and its image goes.
    assert_eq!(other.value("1"), "1");

    // The control: with room again, all of it.
    fs::remove_file(&filling).unwrap();
    let _imported = import().expect_success();
    let _kept = session.request("POST", "/checkpoints", Some(&name)).expect_success();
    let _asleep = suspend(&session).expect_success();
    assert_eq!(session.value("hash(x) == y"), "True");
    for id in ["a", "b", "c"] {
        assert_eq!(Session::named(&daemon, id).request("DELETE", "", None).status, 204);
    }
    run("umount", &["-l"], &at);
    daemon.stop_and_check();
}
