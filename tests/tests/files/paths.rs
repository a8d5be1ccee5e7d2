//! Paths that climb, in every way they can be written.

use vivarium_tests::Session;
use vivarium_tests::http::Client;

use super::Files;

const CLIMBING: &[&str] = &[
    "../etc/passwd",
    "%2e%2e/etc/passwd",
    "%2E%2E%2Fetc%2Fpasswd",
    "..%2fetc%2fpasswd",
    ".%2e/etc/passwd",
    "a/../../etc/passwd",
    "a/%2e%2e/%2e%2e/etc/passwd",
    "..",
    "%2e%2e",
    ".",
    "%2e",
    "./etc",
    "%2fetc%2fpasswd",
    "/etc/passwd",
    "%2F%2Fetc%2Fpasswd",
    "a//b",
    "a%2f%2fb",
    "a/",
    "a%2f",
    "a%00",
    "a%00/../../etc/passwd",
    "%ff%fe",
    "%c0%ae%c0%ae/etc/passwd",
];

#[test]
fn paths_that_climb_are_refused() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let _made = files.put("a", b"1");
    for path in CLIMBING {
        files.get(path).expect_problem(422, "bad_path");
        files.put(path, b"x").expect_problem(422, "bad_path");
        files.delete(path).expect_problem(422, "bad_path");
        files.unpack(path, &super::tar::archive(&[])).expect_problem(422, "bad_path");
    }
    for path in ["..", "/etc", "a/..", "%00", "%2e%2e/%2e%2e"] {
        let list = files.session.request("GET", &format!("/files?path={path}"), None);
        list.expect_problem(422, "bad_path");
    }
    // Another escape is a name like any other.
    for name in ["%252e%252e", "%252e%252e%252fetc", "..%5c..%5cetc", "..a", "a..", "%E2%80%A5"] {
        assert_eq!(files.put(name, b"x").status, 201, "{name}");
        assert_eq!(files.content(name), b"x");
    }
    // As deep as a path can be, and no deeper.
    let deep = vec!["d"; 2048].join("/");
    assert_eq!(files.put(&deep, b"x").status, 201);
    assert_eq!(files.content(&deep), b"x");
    files.put(&format!("{deep}/dd"), b"x").expect_problem(422, "bad_path");
    assert_eq!(files.delete("d").status, 204);
    daemon.release();
}

#[test]
fn only_sessions_that_are_there_have_files() {
    let daemon = crate::DAEMON.hold();
    for id in ["none", "..", "%2e%2e", "a%2fb", "%00"] {
        for method in ["GET", "PUT", "DELETE"] {
            let path = format!("/v1/sessions/{id}/files/a");
            let answer = Client::connect(&daemon.unix()).send(method, &path, &[], Some(b""));
            answer.expect_problem(404, "unknown_session");
        }
        let list = daemon.request("GET", &format!("/v1/sessions/{id}/files"), None);
        list.expect_problem(404, "unknown_session");
    }
    let gone = daemon.session();
    assert_eq!(gone.request("DELETE", "", None).status, 204);
    let gone = Session::named(&daemon, &gone.id);
    gone.request("GET", "/files", None).expect_problem(404, "unknown_session");
    daemon.release();
}
