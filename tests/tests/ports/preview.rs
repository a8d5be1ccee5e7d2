//! Previews: an origin for each port of each session, opened by a signed URL.

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::{Daemon, Session, Setup, wait};

use crate::{answer, literal, session_with};

const COOKIE: &str = "__Host-vivarium-preview";

fn daemon_with(more: &str) -> Daemon {
    let lines = format!("url = \"https://preview.test\"\n{more}");
    Setup::default().config("preview", &lines).start()
}

/// A preview as a browser has it: its host, and the token that opens it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preview {
    pub(crate) host: String,
    pub(crate) token: String,
}

#[track_caller]
fn preview(session: &Session<'_>) -> Preview {
    let made = session.request("POST", "/previews", Some(&json!({"port": 8000}))).expect_success();
    Preview::at(made["url"].as_str().unwrap())
}

impl Preview {
    #[track_caller]
    pub(crate) fn at(url: &str) -> Self {
        let url = url.strip_prefix("https://").unwrap();
        let (host, token) = url.split_once("/?vivarium-preview=").unwrap();
        Self { host: host.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn ask(&self, daemon: &Daemon, path: &str, headers: &[(&str, &str)]) -> Response {
        let host = [("Host", self.host.as_str())];
        Client::connect(&daemon.tcp()).send("GET", path, &[&host, headers].concat(), None)
    }

    pub(crate) fn ask_with_cookie(
        &self,
        daemon: &Daemon,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        let cookie = format!("a=1; {COOKIE}={}; b=2", self.token);
        let cookie = [("Cookie", cookie.as_str())];
        self.ask(daemon, path, &[&cookie, headers].concat())
    }
}

fn served(daemon: &Daemon, text: &str) -> (String, Preview) {
    let session = session_with(daemon, &format!("serve(8000, {})", literal(&answer(text))));
    (session.id.clone(), preview(&session))
}

#[test]
fn signed_url_opens_a_preview() {
    let daemon = daemon_with("");
    let (id, shown) = served(&daemon, "shown");
    let session = Session::named(&daemon, &id);
    let opened = shown.ask(&daemon, &format!("/a?b&vivarium-preview={}&c", shown.token), &[]);
    assert_eq!(opened.status, 303);
    let there = format!("https://{}/a?b&c", shown.host);
    assert_eq!(opened.header("location"), Some(there.as_str()));
    let cookie = opened.header("set-cookie").unwrap();
    let expected =
        format!("{COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=", shown.token);
    assert!(cookie.starts_with(&expected), "{cookie}");
    assert_eq!(session.value("len(heads)"), "0");

    let own = format!("https://{}", shown.host);
    let headers =
        [("Authorization", "Bearer secret"), ("Origin", own.as_str()), ("X-Kept", "kept")];
    let found = shown.ask_with_cookie(&daemon, "/a?b&c", &headers);
    assert_eq!((found.status, found.body.as_slice()), (200, &b"shown"[..]));
    assert_eq!(found.header("content-security-policy"), None);
    assert_eq!(found.header("origin-agent-cluster"), Some("?1"));
    let head = session.value("heads[-1].decode().lower()");
    let mut lines: Vec<_> =
        head.trim_matches('\'').split("\\r\\n").filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let forwarded = format!("x-forwarded-host: {}", shown.host);
    let expected = [
        "connection: close",
        "cookie: a=1; b=2",
        "get /a?b&c http/1.1",
        "host: localhost:8000",
        "origin: http://localhost:8000",
        "x-forwarded-for: 127.0.0.1",
        &forwarded,
        "x-forwarded-proto: https",
        "x-kept: kept",
    ];
    assert_eq!(lines, expected);
    daemon.stop_and_check();
}

#[test]
fn preview_is_closed_to_whoever_has_no_token_of_its_own() {
    let daemon = daemon_with("");
    let ((_, one), (_, other)) = (served(&daemon, "one"), served(&daemon, "other"));
    assert_ne!(one.host, other.host);
    assert_eq!(one.ask_with_cookie(&daemon, "/", &[]).body, b"one");
    one.ask(&daemon, "/", &[]).expect_problem(403, "preview_closed");
    let mixed = Preview { host: one.host.clone(), token: other.token };
    let nobodys = Preview { host: "8000-0123.preview.test".to_owned(), token: one.token.clone() };
    for wrong in [mixed, nobodys] {
        wrong.ask_with_cookie(&daemon, "/", &[]).expect_problem(403, "preview_closed");
        let opening = format!("/?vivarium-preview={}", wrong.token);
        let refused = wrong.ask(&daemon, &opening, &[]);
        refused.expect_problem(403, "preview_closed");
        assert_eq!(refused.header("set-cookie"), None);
    }
    daemon.stop_and_check();
}

#[test]
fn hosts_of_previews_and_of_the_api_are_apart() {
    let daemon = daemon_with("");
    let (id, shown) = served(&daemon, "shown");
    // The API's paths are the server's on its own host, and nobody's without a token.
    for path in ["/v1/host", "/v1/sessions", "/healthz", "/metrics", "/openapi.json"] {
        assert_eq!(shown.ask_with_cookie(&daemon, path, &[]).body, b"shown", "{path}");
        shown.ask(&daemon, path, &[]).expect_problem(403, "preview_closed");
    }
    let bare = Preview { host: "preview.test".to_owned(), ..shown.clone() };
    bare.ask_with_cookie(&daemon, "/v1/host", &[]).expect_problem(404, "unknown_preview");
    let upper = Preview { host: format!("{}.:443", shown.host.to_uppercase()), ..shown.clone() };
    assert_eq!(upper.ask_with_cookie(&daemon, "/v1/host", &[]).body, b"shown");
    // A request that names both is for neither.
    let api = Client::connect(&daemon.tcp()).send(
        "GET",
        &format!("http://localhost/v1/sessions/{id}"),
        &[("Host", &shown.host)],
        None,
    );
    api.expect_problem(400, "bad_host");
    let mut client = Client::connect(&daemon.tcp());
    let both = [("Host", "localhost"), ("Host", shown.host.as_str())];
    client.send("GET", "/v1/host", &both, None).expect_problem(400, "bad_host");
    // A token opens nothing of the API.
    let opening = format!("/?vivarium-preview={}", shown.token);
    daemon.request("GET", &opening, None).expect_problem(404, "unknown_path");
    daemon.stop_and_check();
}

#[test]
fn pages_of_other_previews_can_only_lead_there() {
    let daemon = daemon_with("");
    let ((_, one), (_, other)) = (served(&daemon, "one"), served(&daemon, "other"));
    let origin = format!("https://{}", other.host);
    for headers in [
        &[("Origin", origin.as_str())][..],
        &[("Origin", "null")],
        &[
            ("Sec-Fetch-Site", "same-site"),
            ("Sec-Fetch-Mode", "no-cors"),
            ("Sec-Fetch-Dest", "image"),
        ],
        &[("Origin", &origin), ("Connection", "Upgrade"), ("Upgrade", "websocket")],
    ] {
        one.ask_with_cookie(&daemon, "/", headers).expect_problem(403, "cross_origin");
    }
    let leads = [
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    assert_eq!(one.ask_with_cookie(&daemon, "/", &leads).body, b"one");
    daemon.stop_and_check();
}

#[test]
fn preview_ends_with_its_session_and_its_time() {
    let daemon = daemon_with("");
    let make = || {
        let spec = json!({"id": "same", "network": "loopback"});
        let session = daemon.session_with(&spec);
        let code = format!("{}\nserve(8000, {})", crate::RAW_SERVER, literal(&answer("shown")));
        assert_eq!(session.execute(&code).ok().stderr(), "");
        session
    };
    let session = make();
    let first = preview(&session);
    assert_eq!(first.host, preview(&session).host, "one origin for a port of a session");
    assert_eq!(first.ask_with_cookie(&daemon, "/", &[]).body, b"shown");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    first.ask_with_cookie(&daemon, "/", &[]).expect_problem(404, "unknown_session");
    let second = preview(&make());
    assert_ne!(first.host, second.host);
    first.ask_with_cookie(&daemon, "/", &[]).expect_problem(403, "preview_closed");
    assert_eq!(second.ask_with_cookie(&daemon, "/", &[]).body, b"shown");
    daemon.stop_and_check();

    let daemon = daemon_with("lifetime = \"1s\"");
    let (_, shown) = served(&daemon, "shown");
    wait::until_true("the end of its time", || {
        let found = shown.ask_with_cookie(&daemon, "/", &[]);
        assert!(found.status == 200 || found.json()["code"] == "preview_closed");
        found.status == 403
    });
    daemon.stop_and_check();
}

#[test]
fn previews_have_to_be_configured_and_possible() {
    let daemon = crate::DAEMON.hold();
    let session = session_with(&daemon, "");
    let ask =
        |session: &Session<'_>, body: Value| session.request("POST", "/previews", Some(&body));
    let problem = ask(&session, json!({"port": 8000})).expect_problem(409, "no_previews");
    assert!(problem["fix"].as_str().unwrap().contains("preview.url"), "{problem}");
    daemon.release();

    let daemon = daemon_with("");
    let none = daemon.session_with(&json!({"network": "none"}));
    ask(&none, json!({"port": 8000})).expect_problem(409, "no_ports");
    let session = session_with(&daemon, "");
    for port in [json!(0), json!(65536), json!("x")] {
        ask(&session, json!({"port": port})).expect_problem(422, "invalid_field");
    }
    preview(&session).ask_with_cookie(&daemon, "/", &[]).expect_problem(502, "port_closed");
    daemon.stop_and_check();
}
