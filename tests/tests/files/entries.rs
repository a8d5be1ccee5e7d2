//! Directories, other names and permissions.

use serde_json::{Value, json};

use super::Files;

#[test]
fn directories_are_made_and_files_moved() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let make = |path: &str| files.send("PUT", &format!("{path}?directory=true"), &[], None);
    assert_eq!((make("a/b").status, make("a/b").status), (201, 200));
    assert_eq!(make("%2Ftmp/d").json()["path"], "/tmp/d");
    assert_eq!(files.session.value("__import__('os').path.isdir('a/b')"), "True");
    assert_eq!(files.put("f", b"content").status, 201);
    make("f").expect_problem(409, "not_a_file");
    make("f/d").expect_problem(409, "not_a_file");
    make("../d").expect_problem(422, "bad_path");

    let moved = files.change("f", &json!({"move_to": "/mnt/data/new/g"})).expect_success();
    assert_eq!((&moved["path"], &moved["size_bytes"]), (&json!("new/g"), &json!(7)));
    files.get("f").expect_problem(404, "unknown_file");
    assert_eq!(files.content("new/g"), b"content");
    assert_eq!(files.put("h", b"other").status, 201);
    files.change("h", &json!({"move_to": "new/g"})).expect_problem(409, "file_exists");
    let replaced = files.change("h", &json!({"move_to": "new/g", "replace": true}));
    assert_eq!(replaced.json()["size_bytes"], 5);
    files.change("new", &json!({"move_to": "new/sub"})).expect_problem(409, "file_refused");
    files.change("none", &json!({"move_to": "x/y"})).expect_problem(404, "unknown_file");
    let elsewhere = files.change("new/g", &json!({"move_to": "/tmp/g"}));
    elsewhere.expect_problem(409, "file_refused");
    assert!(elsewhere.json()["detail"].as_str().unwrap().contains("copy it"));
    let moved = files.change("%2Ftmp/d", &json!({"move_to": "/tmp/e/f"})).expect_success();
    assert_eq!((&moved["path"], &moved["kind"]), (&json!("/tmp/e/f"), &json!("directory")));
    assert_eq!(files.names("recursive=true"), ["a", "a/b", "new", "new/g"]);
    daemon.release();
}

#[test]
fn permissions_are_read_and_changed() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run("import os, stat; open('f', 'w').close(); os.mkdir('d'); os.symlink('f', 'link')");
    let mode = |path: &str| {
        let info = files.get(&format!("{path}?info=true")).expect_success();
        info["mode"].as_str().unwrap().to_owned()
    };
    assert_eq!((mode("f").as_str(), mode("d").as_str()), ("0644", "0755"));
    assert_eq!(files.change("f", &json!({"mode": "0750"})).json()["mode"], "0750");
    assert_eq!(files.change("d", &json!({"mode": "700"})).json()["path"], "d");
    assert_eq!(
        files.session.value("oct(os.stat('f').st_mode), os.access('f', os.X_OK)"),
        "('0o100750', True)"
    );
    for bad in [json!("4755"), json!("0o644"), json!("1777"), json!("88"), json!(493)] {
        files.change("f", &json!({"mode": bad})).expect_problem(422, "invalid_field");
    }
    files.change("link", &json!({"mode": "0777"})).expect_problem(422, "bad_path");
    assert_eq!(files.get("link?info=true").json()["kind"], "link");
    assert_eq!(files.get("%2Fworkspace?info=true").json()["path"], "");
    assert_eq!(files.get("%2Ftmp?info=true").json()["path"], "/tmp");
    files.get("none?info=true").expect_problem(404, "unknown_file");
    files.get("f/x?info=true").expect_problem(409, "not_a_file");
    // It is still the code's own.
    files.run("os.chmod('f', 0o600); os.rmdir('d')");
    let info = files.get("f?info=true").json();
    assert_eq!(
        (&info["mode"], &info["mime_type"]),
        (&json!("0600"), &Value::from("application/octet-stream"))
    );
    daemon.release();
}
