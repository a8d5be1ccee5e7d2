//! Images that leave their host, and come to another.

use std::fs;

use serde_json::json;
use vivarium_tests::http::{Client, Response};
use vivarium_tests::tenants::Token;
use vivarium_tests::{Daemon, Session, Setup};

use crate::{images, of_two_tenants, session_named, suspend};

const TAR: (&str, &str) = ("content-type", "application/x-tar");

/// Daemons of one key.
pub(crate) struct Fleet {
    keys: tempfile::TempDir,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let keys = tempfile::tempdir().unwrap();
        fs::write(keys.path().join("key"), [7; 32]).unwrap();
        Self { keys }
    }

    pub(crate) fn host(&self) -> Setup {
        let line = format!("key_file = {:?}", self.keys.path().join("key"));
        images(&["json"]).config("images", &line)
    }
}

fn get(daemon: &Daemon, path: &str) -> Response {
    Client::connect(&daemon.unix()).send("GET", path, &[], None)
}

#[track_caller]
pub(crate) fn exported(daemon: &Daemon, id: &str) -> Vec<u8> {
    let answer = get(daemon, &format!("/v1/images/{id}/export"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

pub(crate) fn import(daemon: &Daemon, query: &str, image: &[u8]) -> Response {
    let path = format!("/v1/images{query}");
    Client::connect(&daemon.unix()).send("POST", &path, &[TAR], Some(image))
}

#[track_caller]
fn is_refused(daemon: &Daemon, image: &[u8], why: &str) {
    let answer = import(daemon, "", image);
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert_eq!(answer.status, 409, "{detail}");
    assert!(detail.contains(why), "{detail}");
    let left = get(daemon, "/v1/images").expect_success();
    assert_eq!(left["images"], json!([]));
}

/// What is on disk of a tenant's images, unfinished ones too.
fn on_disk(daemon: &Daemon) -> usize {
    fs::read_dir(daemon.dir().join("state/images/default")).map_or(0, Iterator::count)
}

#[test]
fn a_session_goes_on_on_another_host() {
    let fleet = Fleet::new();
    let (here, there) = (fleet.host().start(), fleet.host().start());
    let session = session_named(&here, "a");
    let _made = session.execute("n = iter(range(9)); next(n); open('f', 'w').write('file')").ok();
    let _asleep = suspend(&session).expect_success();
    let image = exported(&here, "a");

    // An archive, as other programs see one.
    let names: Vec<_> = tar::Archive::new(&*image)
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["record", "kernel", "template"]);

    let answer = import(&there, "", &image);
    assert_eq!((answer.status, answer.header("location")), (201, Some("/v1/sessions/a")));
    assert_eq!(answer.json()["state"], "suspended");
    let moved = Session::named(&there, "a");
    assert_eq!(moved.value("next(n), open('f').read()"), "(1, 'file')");
    // It is a copy: the one here is what it was, and so is what is imported under another id.
    assert_eq!(session.value("next(n)"), "1");
    let _second = import(&there, "?id=b", &image).expect_success();
    assert_eq!(Session::named(&there, "b").value("next(n)"), "1");
    assert_eq!(moved.value("next(n)"), "2");
    here.stop_and_check();
    there.stop_and_check();
}

#[test]
fn images_are_listed_shown_and_deleted_by_themselves() {
    let daemon = images(&[]).start();
    for id in ["c", "a", "b"] {
        let session = session_named(&daemon, id);
        let _made = session.execute("1").ok();
        let _asleep = suspend(&session).expect_success();
    }
    let _awake = session_named(&daemon, "awake");
    let page = |query: &str| get(&daemon, &format!("/v1/images{query}")).expect_success();
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let all = page["images"].as_array().unwrap();
        all.iter().map(|image| image["session_id"].as_str().unwrap().to_owned()).collect()
    };
    let first = page("?limit=2");
    assert_eq!((ids(&first), &first["next"]), (vec!["a".into(), "b".into()], &json!("b")));
    let last = page("?limit=2&after=b");
    assert_eq!((ids(&last), &last["next"]), (vec!["c".into()], &json!(null)));
    let shown = page("/a");
    assert_eq!((&shown, &shown["executions"]), (&first["images"][0], &json!(1)));
    assert_eq!((&shown["environment"], &shown["expires_at"]), (&json!("default"), &json!(null)));
    assert_eq!(shown["template"].as_str().unwrap().len(), 64);

    let delete = |id: &str| daemon.request("DELETE", &format!("/v1/images/{id}"), None);
    assert_eq!(delete("a").status, 204);
    assert_eq!(Session::named(&daemon, "a").request("GET", "", None).status, 404);
    assert_eq!(ids(&page("")), ["b", "c"]);
    for (id, status, code) in [("a", 404, "unknown_session"), ("awake", 409, "not_suspended")] {
        let all = [
            delete(id),
            get(&daemon, &format!("/v1/images/{id}")),
            get(&daemon, &format!("/v1/images/{id}/export")),
        ];
        for answer in all {
            assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)));
        }
    }
    daemon.stop_and_check();
}

#[test]
fn a_checkpoint_is_exported_of_a_session_that_is_awake() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let name = json!({"name": "one"});
    let _kept = session.request("POST", "/checkpoints", Some(&name)).expect_success();
    let _changed = session.execute("x = 2").ok();
    let answer = get(&daemon, "/v1/images/a/export?checkpoint=one");
    assert_eq!(answer.status, 200);
    let _copied = import(&daemon, "?id=b", &answer.body).expect_success();
    assert_eq!(
        (session.value("x"), Session::named(&daemon, "b").value("x")),
        ("2".into(), "1".into())
    );
    assert_eq!(get(&daemon, "/v1/images/a/export?checkpoint=none").status, 404);
    daemon.stop_and_check();
}

#[test]
fn what_no_host_of_the_key_has_exported_is_refused_and_leaves_nothing() {
    let (fleet, stranger) = (Fleet::new(), Fleet::new());
    fs::write(stranger.keys.path().join("key"), [8; 32]).unwrap();
    let (here, there) = (fleet.host().start(), fleet.host().start());
    let session = session_named(&here, "a");
    let _asleep = suspend(&session).expect_success();
    let image = exported(&here, "a");
    let bounds: Vec<_> = tar::Archive::new(&*image)
        .entries()
        .unwrap()
        .map(|entry| entry.map(|it| (it.raw_file_position(), it.size())).unwrap())
        .map(|(at, size)| (usize::try_from(at).unwrap(), usize::try_from(size).unwrap()))
        .collect();
    for (at, size) in &bounds {
        for byte in [*at, at + 19, at + size / 2, at + size - 1] {
            let mut changed = image.clone();
            changed[byte] ^= 1;
            is_refused(&there, &changed, "it is not what was written there");
        }
        is_refused(&there, &image[..at + size / 2], "");
        is_refused(&there, &image[..at - 100], "it ends too early");
    }
    is_refused(&there, b"", "it ends too early");
    is_refused(&there, &[b'x'; 4096], "it is no image");
    let with_another_key = stranger.host().start();
    is_refused(&with_another_key, &image, "it is not what was written there");
    with_another_key.stop_and_check();
    assert_eq!(on_disk(&there), 0);

    // The control; and nothing replaces a session, awake or not.
    let _asleep = import(&there, "", &image).expect_success();
    for _ in 0..2 {
        let answer = import(&there, "", &image);
        assert_eq!((answer.status, &answer.json()["code"]), (409, &json!("session_exists")));
        assert_eq!(Session::named(&there, "a").value("1"), "1");
    }
    assert_eq!(import(&there, "?id=a/b", &image).status, 422);
    here.stop_and_check();
    there.stop_and_check();
}

#[test]
fn an_image_of_an_environment_that_is_not_there_leaves_nothing() {
    let fleet = Fleet::new();
    let (here, there) =
        (fleet.host().config("environments.other", "images = true").start(), fleet.host().start());
    here.until_logged("template ready environment=\"other\"");
    let spec = json!({"id": "a", "environment": "other"});
    let _made = here.request("POST", "/v1/sessions", Some(&spec)).expect_success();
    let session = Session::named(&here, "a");
    let _asleep = suspend(&session).expect_success();
    let image = exported(&here, "a");
    let refused = import(&there, "", &image);
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid_field")));
    assert_eq!(on_disk(&there), 0);
    let templates = |daemon: &Daemon| {
        let of_it = daemon.dir().join("state/images/.templates/other");
        fs::read_dir(of_it).map_or(0, Iterator::count)
    };
    // The control: what was exported has one.
    assert_eq!((templates(&here), templates(&there)), (1, 0));
    here.stop_and_check();
    there.stop_and_check();
}

#[test]
fn imports_count_to_what_a_tenant_may_have() {
    let fleet = Fleet::new();
    let (here, there) =
        (fleet.host().start(), fleet.host().config("images", "max_per_tenant = 1").start());
    let session = session_named(&here, "a");
    let _asleep = suspend(&session).expect_success();
    let image = exported(&here, "a");
    let _first = import(&there, "", &image).expect_success();
    let second = import(&there, "?id=b", &image);
    assert_eq!((second.status, &second.json()["code"]), (429, &json!("images_full")));
    here.stop_and_check();
    there.stop_and_check();
}

#[test]
fn another_tenants_images_do_not_exist_and_are_not_imported() {
    let (daemon, owner, stranger) = of_two_tenants();
    let at = daemon.unix();
    let _made = owner.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"}))).expect_success();
    let _set = owner.execute(&at, "a", "x = 41");
    let _asleep = owner.ask(&at, "POST", "/v1/sessions/a/suspend", None).expect_success();
    let listed = stranger.ask(&at, "GET", "/v1/images", None).expect_success();
    assert_eq!(listed["images"], json!([]));
    for (method, path) in
        [("GET", "/v1/images/a"), ("GET", "/v1/images/a/export"), ("DELETE", "/v1/images/a")]
    {
        assert_eq!(stranger.ask(&at, method, path, None).status, 404, "{method} {path}");
    }
    let image = owner.ask(&at, "GET", "/v1/images/a/export", None);
    assert_eq!(image.status, 200);
    let import = |whose: &Token| {
        let bearer = format!("Bearer {}", whose.text);
        let headers = [TAR, ("authorization", &bearer)];
        Client::connect(&at).send("POST", "/v1/images?id=b", &headers, Some(&image.body))
    };
    let refused = import(&stranger);
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("image_failed")));
    // The control.
    assert_eq!(import(&owner).status, 201);
    assert_eq!(owner.execute(&at, "b", "x")["result"]["repr"], "41");
    daemon.stop_and_check();
}
