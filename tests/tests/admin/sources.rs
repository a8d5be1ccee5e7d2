//! Tenants from a directory and from a command: taken over by themselves, whole or not at all.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use vivarium_tests::tenants::{Token, entry};
use vivarium_tests::{Daemon, Setup, program, wait};

use super::admin_json;

/// A directory that the daemon's user can read, and nobody else change.
fn place() -> tempfile::TempDir {
    let place = program::temp_dir();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    place
}

fn keys(token: &Token, more: &str) -> String {
    format!("token_sha256 = [{:?}]\n{more}\n", token.hash)
}

/// Puts a file there as a whole.
fn put(dir: &Path, name: &str, text: &str) {
    let temporary = dir.join(format!(".{name}"));
    fs::write(&temporary, text).unwrap();
    fs::set_permissions(&temporary, Permissions::from_mode(0o644)).unwrap();
    fs::rename(temporary, dir.join(name)).unwrap();
}

fn status_of(daemon: &Daemon, token: &Token) -> u16 {
    token.ask(&daemon.tcp(), "GET", "/v1/sessions", None).status
}

fn until_known(daemon: &Daemon, token: &Token, status: u16) {
    wait::until_true("the tenants to change", || status_of(daemon, token) == status);
}

fn until_failing(daemon: &Daemon, why: &str) {
    wait::until_true(why, || {
        let sources = &admin_json(daemon, &["status"])["tenant_sources"];
        sources["state"] == "failing" && sources["error"].as_str().unwrap().contains(why)
    });
}

#[test]
fn directory_is_followed_without_a_signal_and_an_error_changes_nothing() {
    let place = place();
    let dir = place.path();
    let (main, ann, bob) = (Token::new(), Token::new(), Token::new());
    put(dir, "ann.toml", &keys(&ann, "max_sessions = 1"));
    let daemon = Setup::default()
        .config("tenants", &format!("directory = {dir:?}\ninterval = \"1h\""))
        .config("[tenant]", &entry("main", &main, ""))
        .start();
    let made =
        |token: &Token| token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&json!({}))).status;
    assert_eq!((status_of(&daemon, &main), status_of(&daemon, &bob)), (200, 401));
    assert_eq!((made(&ann), made(&ann)), (201, 429));
    put(dir, "bob.toml", &keys(&bob, ""));
    until_known(&daemon, &bob, 200);
    put(dir, "ann.toml", &keys(&ann, "max_sessions = 2"));
    wait::until_true("another limit", || made(&ann) == 201);

    // Whatever is wrong in one file, all tenants stay, also the one whose file is gone.
    fs::remove_file(dir.join("bob.toml")).unwrap();
    until_known(&daemon, &bob, 401);
    put(dir, "eve.toml", "\ntoken_sha256 = [\"viv_secret\"]\n");
    until_failing(&daemon, "eve.toml:2: tenant.eve.token_sha256");
    put(dir, "bob.toml", &keys(&bob, ""));
    fs::remove_file(dir.join("ann.toml")).unwrap();
    wait::until_true("reads", || {
        daemon.metric("vivarium_tenant_reads_total{outcome=\"refused\"}") >= Some(2)
    });
    assert_eq!((status_of(&daemon, &ann), status_of(&daemon, &bob)), (200, 401));
    let log = daemon.log();
    assert!(log.contains("tenants stay as they are") && !log.contains("viv_secret"), "{log}");
    put(dir, "eve.toml", &keys(&main, ""));
    until_failing(&daemon, "is a token of tenant");
    fs::remove_file(dir.join("eve.toml")).unwrap();
    until_known(&daemon, &ann, 401);
    assert_eq!(status_of(&daemon, &bob), 200);
    // Its sessions go on until they end.
    let tenants = admin_json(&daemon, &["tenants"]);
    let all = tenants["tenants"].as_array().unwrap();
    let left = all.iter().find(|tenant| tenant["name"] == "ann").unwrap();
    assert_eq!((&left["configured"], &left["sessions"]), (&json!(false), &json!(2)));

    // Nor is a directory trusted in which others could write.
    fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    put(dir, "ann.toml", &keys(&ann, ""));
    until_failing(&daemon, "others than its owner can write to it");
    assert_eq!(status_of(&daemon, &ann), 401);
    let config = daemon.dir().join("vivarium.toml");
    let checked = program::run(&["config", "check", config.to_str().unwrap()]);
    assert!(checked.stderr().contains("others than its owner"), "{}", checked.stderr());
    assert_eq!(checked.code(), 2);
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    until_known(&daemon, &ann, 200);
    drop(program::run(&["config", "check", config.to_str().unwrap()]).expect_code(0));
    daemon.stop_and_check();
}

#[test]
fn command_is_run_again_and_again_and_without_tenants_nothing_starts() {
    let place = place();
    let (ann, bob) = (Token::new(), Token::new());
    let list = place.path().join("list");
    fs::write(&list, format!("[[tenant]]\n{}", entry("ann", &ann, ""))).unwrap();
    fs::set_permissions(&list, Permissions::from_mode(0o644)).unwrap();
    let command = format!("command = [\"/bin/cat\", {list:?}]\ninterval = \"200ms\"");
    let daemon = Setup::default().config("tenants", &command).start();
    assert_eq!((status_of(&daemon, &ann), status_of(&daemon, &bob)), (200, 401));
    let json = json!({"tenant": [{"name": "bob", "token_sha256": [bob.hash]}]});
    fs::write(&list, json.to_string()).unwrap();
    until_known(&daemon, &bob, 200);
    assert_eq!(status_of(&daemon, &ann), 401);
    // A list without anybody would let everybody in.
    fs::write(&list, "").unwrap();
    until_failing(&daemon, "there is no tenant");
    assert_eq!(status_of(&daemon, &bob), 200);
    let nobody =
        vivarium_tests::http::Client::connect(&daemon.tcp()).json("GET", "/v1/sessions", None);
    assert_eq!(nobody.status, 401);
    daemon.stop_and_check();
    let refused = Setup::default().config("tenants", &command).try_start().unwrap_err();
    assert!(refused.1.contains("there is no tenant"), "{}", refused.1);
}
