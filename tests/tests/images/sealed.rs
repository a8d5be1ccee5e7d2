//! What is on disk of a session that is suspended tells nothing, and cannot be changed, moved or mixed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use vivarium_tests::{Daemon, Session};

use crate::{images, resume, session_named, suspend};

const SECRET: &str = "tell-nobody-8d1f3c";

fn dir_of(daemon: &Daemon, id: &str) -> PathBuf {
    daemon.dir().join("state/images/default").join(id)
}

/// All bytes of the files below a directory.
fn bytes_below(dir: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(bytes_below(&entry.path()));
        } else {
            found.extend(fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[track_caller]
fn cannot_be_resumed(session: &Session<'_>) {
    let answer = resume(session);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(answer.status, 409, "{detail}");
    assert!(detail.contains("it is not what was written there"), "{detail}");
    let info = session.request("GET", "", None).expect_success();
    assert_eq!(info["state"], "suspended");
}

#[test]
fn no_secret_of_a_session_is_on_disk() {
    let daemon = images(&[]).start();
    let spec = json!({"id": "a", "env": {"KEY": SECRET}, "metadata": {"note": SECRET}});
    let session = daemon.session_with(&spec);
    let _made = session.execute("import os; open('f', 'w').write(os.environ['KEY'])").ok();
    let _asleep = suspend(&session).expect_success();
    let root = daemon.dir().join("state/images");
    assert!(!contains(&bytes_below(&root), SECRET));
    // The control: who has the key reads it.
    let sealed = crate::seal::Sealed::of(&daemon.dir().join("state"), "a");
    assert!(contains(&sealed.content(), SECRET));
    daemon.stop_and_check();
}

#[test]
fn an_image_that_was_changed_cut_or_swapped_is_refused_and_stays() {
    let daemon = images(&[]).start();
    let (one, other) = (session_named(&daemon, "a"), session_named(&daemon, "b"));
    let _made = (one.execute("x = 'a'").ok(), other.execute("x = 'b'").ok());
    let _asleep = (suspend(&one).expect_success(), suspend(&other).expect_success());
    let path = dir_of(&daemon, "a").join("kernel");
    let good = fs::read(&path).unwrap();
    for at in [0, 19, good.len() / 2, good.len() - 1] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        cannot_be_resumed(&one);
    }
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    cannot_be_resumed(&one);
    fs::copy(dir_of(&daemon, "b").join("kernel"), &path).unwrap();
    cannot_be_resumed(&one);
    fs::write(&path, &good).unwrap();
    assert_eq!((one.value("x"), other.value("x")), ("'a'".to_owned(), "'b'".to_owned()));
    daemon.stop_and_check();
}

#[test]
fn an_image_of_another_session_or_tenant_is_none() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let dir = daemon.stop_and_keep();
    let all = dir.path().join("state/images");
    for copy in ["default/b", "stranger/a"] {
        fs::create_dir_all(all.join(copy)).unwrap();
        for file in ["record", "kernel"] {
            fs::copy(all.join("default/a").join(file), all.join(copy).join(file)).unwrap();
        }
    }
    let daemon = images(&[]).in_place_of(dir).start();
    let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(Session::named(&daemon, "b").request("GET", "", None).status, 404);
    assert_eq!(Session::named(&daemon, "a").value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn a_template_that_was_changed_on_disk_is_refused() {
    let daemon = images(&["json"]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let dir = daemon.stop_and_keep();
    let kept = fs::read_dir(dir.path().join("state/images/.templates/default")).unwrap();
    let path = kept.map(|entry| entry.unwrap().path()).next().unwrap();
    let good = fs::read(&path).unwrap();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    fs::write(&path, changed).unwrap();
    let daemon = images(&["json"]).in_place_of(dir).start();
    cannot_be_resumed(&Session::named(&daemon, "a"));
    fs::write(&path, good).unwrap();
    assert_eq!(Session::named(&daemon, "a").value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn a_key_that_the_daemon_cannot_read_is_noticed_at_its_start() {
    let keys = tempfile::tempdir().unwrap();
    let path = keys.path().join("key");
    let with = || images(&[]).config("images", &format!("key_file = {path:?}"));
    let refused = |why: &str| {
        let (status, log) = with().try_start().unwrap_err();
        assert_eq!(status.code(), Some(2), "{log}");
        let named = format!("cannot use {} (fix: ", path.display());
        assert!(log.contains("images.key_file") && log.contains(&named), "{log}");
        assert!(log.contains(why), "{log}");
    };
    refused("No such file");
    fs::write(&path, [1; 31]).unwrap();
    refused("has to be 32 random bytes long");
    // The control.
    fs::write(&path, [1; 32]).unwrap();
    with().start().stop_and_check();
}

#[test]
fn with_another_key_nothing_is_listed_and_with_the_old_one_all_is_there() {
    let keys = tempfile::tempdir().unwrap();
    let path = |name: &str| keys.path().join(name);
    let with = |name: &str| images(&[]).config("images", &format!("key_file = {:?}", path(name)));
    for (name, byte) in [("one", 1), ("other", 2)] {
        fs::write(path(name), [byte; 32]).unwrap();
    }
    let daemon = with("one").start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let dir = daemon.stop_and_keep();
    assert!(!dir.path().join("state/images/.key").exists(), "no key beside what it opens");
    let daemon = with("other").in_place_of(dir).start();
    assert_eq!(Session::named(&daemon, "a").request("GET", "", None).status, 404);
    let dir = daemon.stop_and_keep();
    let daemon = with("one").in_place_of(dir).start();
    assert_eq!(Session::named(&daemon, "a").value("x"), "41");
    daemon.stop_and_check();
}
