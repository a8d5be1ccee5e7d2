//! Images of an earlier Vivarium, whose library and kernel program are others than those that are installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use vivarium_tests::{Daemon, Session, Setup, program};

use crate::{contexts, images, resume, session_named, suspend};

const MODULES: [&str; 2] = ["json", "decimal"];

/// What code is told that reads its standard input, by this Vivarium and by the earlier one.
const NO_INPUT: &str = "there is no standard input";
const NO_INPUT_EARLIER: &str = "there iz no standard input";

/// The agent and its library in this directory, each with one text that is another.
fn make_earlier(dir: &Path) {
    for (name, text, earlier) in [
        ("vivarium-agent", NO_INPUT, NO_INPUT_EARLIER),
        ("libvivarium_agent.so", "it shares memory, more than", "it shares memory, moar than"),
    ] {
        let mut content = fs::read(program::path(name)).unwrap();
        let places: Vec<_> = content
            .windows(text.len())
            .enumerate()
            .filter_map(|(at, part)| (part == text.as_bytes()).then_some(at))
            .collect();
        assert!(!places.is_empty(), "{name}");
        for at in places {
            content[at..at + text.len()].copy_from_slice(earlier.as_bytes());
        }
        fs::write(dir.join(name), content).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A daemon of the earlier programs, which are in a directory of this name beside its state.
fn earlier() -> Setup {
    let dir = program::temp_dir();
    make_earlier(dir.path());
    let agent = dir.path().join("vivarium-agent");
    images(&MODULES).env("VIVARIUM_AGENT", agent.to_str().unwrap()).in_place_of(dir)
}

fn input_error(session: &Session<'_>) -> String {
    session.value("try: input()\nexcept EOFError as error: told = str(error)\ntold")
}

fn layers(daemon: &Daemon, id: &str) -> serde_json::Value {
    let info = daemon.request("GET", &format!("/v1/sessions/{id}"), None).expect_success();
    info["protection"].clone()
}

#[test]
fn sessions_are_resumed_after_an_upgrade_and_suspended_and_resumed_again() {
    let daemon = earlier().start();
    let session = session_named(&daemon, "a");
    let made = "import itertools, decimal\nnumbers = itertools.count(40); next(numbers)\n\
                open('f', 'w').write('kept')";
    let _made = session.execute(made).ok();
    contexts::open(&session, "other");
    let _made =
        contexts::execute(&session, "other", "y = __import__('decimal').Decimal('0.1')").ok();
    let name = json!({"name": "before"});
    let _kept = session.request("POST", "/checkpoints", Some(&name)).expect_success();
    assert!(input_error(&session).contains(NO_INPUT_EARLIER));
    let mut dir = daemon.stop_and_keep();
    for expected in ["41", "42"] {
        let daemon = images(&MODULES).in_place_of(dir).start();
        let session = Session::named(&daemon, "a");
        assert_eq!(session.info()["state"], "suspended", "{}", daemon.log());
        assert_eq!(session.value("next(numbers)"), expected);
        assert_eq!(session.value("open('f').read()"), "'kept'");
        assert_eq!(contexts::value(&session, "other", "y"), "Decimal('0.1')");
        // Its kernel is the earlier one, with all layers that a new session has.
        assert!(input_error(&session).contains(NO_INPUT_EARLIER));
        let new = json!({"id": "fresh"});
        let _made = daemon.request("POST", "/v1/sessions", Some(&new)).expect_success();
        let fresh = Session::named(&daemon, "fresh");
        assert!(input_error(&fresh).contains(NO_INPUT));
        assert_eq!(layers(&daemon, "a"), layers(&daemon, "fresh"));
        let _deleted = fresh.request("DELETE", "", None);
        dir = daemon.stop_and_keep();
    }
    let daemon = images(&MODULES).in_place_of(dir).start();
    let session = Session::named(&daemon, "a");
    let to = json!({"count": 2, "checkpoint": "before"});
    let made = session.request("POST", "/branch", Some(&to)).expect_success();
    for branch in made["sessions"].as_array().unwrap() {
        let branch = Session::named(&daemon, branch["id"].as_str().unwrap());
        assert_eq!(branch.value("next(numbers)"), "41");
    }
    let to = json!({"checkpoint": "before"});
    let _back = session.request("POST", "/rollback", Some(&to)).expect_success();
    assert_eq!(session.value("next(numbers)"), "41");
    let _reset = session.request("POST", "/reset", None).expect_success();
    assert_eq!(session.value("'numbers' in dir()"), "False");
    daemon.stop_and_check();
}

#[test]
fn without_the_programs_of_its_vivarium_an_image_is_refused_and_stays() {
    let daemon = earlier().start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let _asleep = suspend(&session).expect_success();
    let mut dir = daemon.stop_and_keep();
    let kept = dir.path().join("state/images/.programs");
    let aside = dir.path().join("aside");
    let files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &*files else { panic!("{files:?}") };
    let good = fs::read(file).unwrap();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;

    for (content, off, why) in [
        (None, false, "whose library and kernel program are not kept here"),
        (Some(&changed), false, "cannot be read: it is not what was written there"),
        (Some(&good), true, "template is another now"),
    ] {
        match content {
            Some(content) => fs::write(file, content).unwrap(),
            None => fs::rename(file, &aside).unwrap(),
        }
        let mut setup = images(&MODULES).in_place_of(dir);
        if off {
            setup = setup.config("images", "keep_programs = false");
        }
        let daemon = setup.start();
        let refused = resume(&Session::named(&daemon, "a"));
        let detail = refused.expect_problem(409, "image_failed")["detail"].to_string();
        assert!(detail.contains(why), "{detail}");
        dir = daemon.stop_and_keep();
        // One that does not keep them removes them.
        assert_eq!(file.exists(), content.is_some() && !off);
    }
    // The control.
    fs::rename(&aside, file).unwrap();
    let daemon = images(&MODULES).in_place_of(dir).start();
    assert_eq!(Session::named(&daemon, "a").value("x"), "41");
    daemon.stop_and_check();
}
