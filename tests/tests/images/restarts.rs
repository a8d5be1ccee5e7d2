//! Images outlive their daemon and its templates.

use std::fs;

use vivarium_tests::Session;
use vivarium_tests::host;
use vivarium_tests::program::Runner;

use crate::seal::change_template;
use crate::{images, resume, session_named, suspend};

const MODULES: [&str; 3] = ["json", "sqlite3", "decimal"];

#[test]
fn a_session_is_resumed_under_a_template_that_was_built_again() {
    let daemon = images(&MODULES).start();
    let session = session_named(&daemon, "a");
    let _made = session
        .execute(
            "import itertools\nnumbers = itertools.count(40); next(numbers)\nopen('f', 'w').write('kept')",
        )
        .ok();
    let _asleep = suspend(&session).expect_success();
    // Nothing has a chance to write anything more.
    let mut dir = daemon.kill_and_check();
    for expected in ["41", "42", "43"] {
        let daemon = images(&MODULES).in_place_of(dir).start();
        let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
        assert_eq!(listed["sessions"][0]["state"], "suspended", "{listed}");
        assert!(listed["sessions"][0]["image"]["size_bytes"].as_u64().unwrap() > 0, "{listed}");
        let session = Session::named(&daemon, "a");
        assert_eq!(session.value("next(numbers)"), expected);
        assert_eq!(session.value("open('f').read()"), "'kept'");
        // A daemon that is told to end suspends what it has.
        dir = daemon.stop_and_keep();
    }
}

#[test]
fn a_session_is_resumed_with_the_longest_idle_timeout_that_there_is_now() {
    let with =
        |timeout: &str| images(&MODULES).config("session", &format!("idle_timeout = {timeout:?}"));
    let daemon = with("1h").start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let _asleep = suspend(&session).expect_success();
    let daemon = with("10m").in_place_of(daemon.stop_and_keep()).start();
    let session = Session::named(&daemon, "a");
    assert_eq!(session.value("x"), "41");
    let shown = session.request("GET", "", None).expect_success();
    assert_eq!(shown["idle_timeout_ms"], 600_000);
    daemon.stop_and_check();
}

/// As an upgrade has it: the files are new before the daemon is told to end.
#[test]
fn a_daemon_whose_files_were_replaced_by_the_same_suspends_its_sessions() {
    let owned = || images(&MODULES).runner(Runner::User(host::user_of_daemons()));
    let daemon = owned().start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    for name in ["vivarium", "vivarium-agent", "libvivarium_agent.so"] {
        let (path, new) = (daemon.dir().join(name), daemon.dir().join("new"));
        let _bytes = fs::copy(&path, &new).unwrap();
        fs::rename(&new, &path).unwrap();
    }
    let daemon = owned().in_place_of(daemon.stop_and_keep()).start();
    let session = Session::named(&daemon, "a");
    assert_eq!(session.info()["state"], "suspended", "{}", daemon.log());
    assert_eq!(session.value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn an_image_of_another_template_is_refused_and_stays() {
    let daemon = images(&MODULES).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let dir = daemon.stop_and_keep();
    let daemon = images(&["json"]).in_place_of(dir).start();
    let session = Session::named(&daemon, "a");
    let answer = session.request("POST", "/resume", None);
    assert_eq!(answer.status, 409);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("template is another now"), "{detail}");
    let dir = daemon.stop_and_keep();
    // The control: its own again.
    let daemon = images(&MODULES).in_place_of(dir).start();
    assert_eq!(Session::named(&daemon, "a").value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn what_was_begun_and_what_is_damaged_is_no_session() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _asleep = suspend(&session).expect_success();
    let dir = daemon.kill_and_check();
    let of_tenant = dir.path().join("state/images/default");
    fs::create_dir(of_tenant.join(".new-begun")).unwrap();
    fs::write(of_tenant.join("a/record"), "{").unwrap();
    let daemon = images(&[]).in_place_of(dir).start();
    assert!(!of_tenant.join(".new-begun").exists());
    let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"], serde_json::json!([]));
    daemon.stop_and_check();
}

#[test]
fn an_image_of_another_cpu_or_linux_kernel_is_refused_by_that_name() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let _asleep = suspend(&session).expect_success();
    let mut dir = daemon.stop_and_keep();
    for (mark, why) in [
        ("[cpu] ", "it was suspended on a CPU with other features"),
        ("[vdso] ", "it was suspended under another Linux kernel"),
        ("[stack] ", "its environment's template is another now"),
    ] {
        let state = dir.path().join("state");
        // The last of what stands in that line.
        let kept = change_template(&state, |content| {
            let line = content.windows(mark.len()).rposition(|part| part == mark.as_bytes());
            let from = line.unwrap();
            let end = content[from..].iter().position(|byte| *byte == b'\n').unwrap();
            content[from + end - 1] ^= 1;
        });
        let daemon = images(&[]).in_place_of(dir).start();
        let refused = resume(&Session::named(&daemon, "a"));
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(refused.status, 409, "{detail}");
        assert!(detail.contains(why), "{mark}: {detail}");
        dir = daemon.stop_and_keep();
        let _changed =
            change_template(&dir.path().join("state"), |content| content.clone_from(&kept));
    }
    // The control: as it was, it is resumed.
    let daemon = images(&[]).in_place_of(dir).start();
    assert_eq!(Session::named(&daemon, "a").value("x"), "41");
    daemon.stop_and_check();
}
