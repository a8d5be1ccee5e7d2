//! Kernelspecs, and the life of kernels.

use serde_json::{Value, json};
use vivarium_tests::http::Client;

use super::{Socket, ask, at, content, is_time, kernel};

#[test]
fn environments_are_kernelspecs() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let version = ask(&at, "GET", "/api", None).expect_success();
    assert!(version["version"].is_string());
    let specs = ask(&at, "GET", "/api/kernelspecs", None).expect_success();
    assert_eq!(specs["default"], "python3");
    for name in ["python3", "default"] {
        assert_eq!(specs["kernelspecs"][name]["spec"]["language"], "python", "{specs}");
        let one = ask(&at, "GET", &format!("/api/kernelspecs/{name}"), None).expect_success();
        assert_eq!(one, specs["kernelspecs"][name]);
    }
    for none in [
        "/api/kernelspecs/none",
        "/kernelspecs/python3/logo-64x64.png",
        "/api/sessions",
        "/api/contents",
        "/api/terminals",
        "/",
    ] {
        assert_eq!(ask(&at, "GET", none, None).status, 404, "{none}");
    }
    assert_eq!(ask(&at, "PUT", "/api/kernels", None).status, 405);
    daemon.release();
}

#[test]
fn kernels_are_started_listed_and_ended() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let asked =
        json!({"name": "python3", "env": {"KERNEL_USERNAME": "u", "KERNEL_WORKING_DIR": "/"}});
    let started = ask(&at, "POST", "/api/kernels", Some(&asked));
    assert_eq!((started.status, started.header("content-type")), (201, Some("application/json")));
    let model = started.json();
    let id = model["id"].as_str().unwrap();
    assert_eq!((model["name"].as_str(), id.len()), (Some("python3"), 36));
    assert!(is_time(&model["last_activity"]), "{model}");
    let of_kernel = format!("/api/kernels/{id}");
    assert_eq!(ask(&at, "GET", &of_kernel, None).expect_success()["execution_state"], "idle");
    let listed = ask(&at, "GET", "/api/kernels", None).expect_success();
    assert!(listed.as_array().unwrap().iter().any(|one| one["id"] == id), "{listed}");
    let mut socket = Socket::open(&at, "", id);
    assert_eq!(ask(&at, "GET", &of_kernel, None).expect_success()["connections"], 1);
    socket.execute("x = 1");
    let restarted = ask(&at, "POST", &format!("{of_kernel}/restart"), None);
    assert_eq!((restarted.status, &restarted.json()["id"]), (200, &json!(id)));
    let messages = socket.execute("x");
    assert_eq!(content(&messages, "error")["ename"], "NameError");
    assert_eq!(content(&messages, "execute_reply")["execution_count"], 1);
    assert_eq!(ask(&at, "POST", &format!("{of_kernel}/interrupt"), None).status, 204);
    assert_eq!(ask(&at, "DELETE", &of_kernel, None).status, 204);
    assert_eq!(socket.closed(), 1013);
    assert_eq!(ask(&at, "GET", &of_kernel, None).status, 404);
    daemon.release();
}

#[test]
fn kernels_are_started_with_whatever_clients_call_their_body() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let body = br#"{"name": "default"}"#;
    for kind in ["application/x-www-form-urlencoded", "application/octet-stream"] {
        let headers = [("Content-Type", kind)];
        let mut client = Client::connect(&at);
        let named = client.send("POST", "/jupyter/api/kernels", &headers, Some(body));
        assert_eq!(named.expect_success()["name"], "default");
        let unnamed = client.send("POST", "/jupyter/api/kernels", &headers, Some(b""));
        assert_eq!(unnamed.expect_success()["name"], "python3");
    }
    let unknown = ask(&at, "POST", "/api/kernels", Some(&json!({"name": "none"})));
    assert_eq!(unknown.status, 422);
    assert!(unknown.json()["message"].is_string());
    daemon.release();
}

/// A session that nobody made for this is no kernel.
#[test]
fn other_sessions_are_no_kernels() {
    let daemon = super::DAEMON.hold();
    let at = at(&daemon);
    let made = daemon.request("POST", "/v1/sessions", None).expect_success();
    let id = made["id"].as_str().unwrap();
    assert_eq!(ask(&at, "GET", &format!("/api/kernels/{id}"), None).status, 404);
    assert_eq!(ask(&at, "DELETE", &format!("/api/kernels/{id}"), None).status, 404);
    let own = kernel(&at, "");
    let listed: Value = ask(&at, "GET", "/api/kernels", None).expect_success();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert!(ids.contains(&&json!(own)) && !ids.contains(&&json!(id)), "{ids:?}");
    daemon.release();
}
