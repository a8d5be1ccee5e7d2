//! Another tenant's sessions, executions, files and keys do not exist, whatever is asked of them:
//! 404, as for what never was, and never 403, which would tell that something is there.

use serde_json::{Value, json};
use vivarium_tests::events::{Events, names};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup, wait};

/// A daemon with two tenants, the first of which has a session `mine` with a file and a finished
/// execution, and one that runs.
struct Two {
    daemon: Daemon,
    owner: Token,
    stranger: Token,
}

/// What an execution waits for.
const WAITING: &str =
    "import os, time\nprint('secret')\nwhile not os.path.exists('go'): time.sleep(0.01)\n'end'";

impl Two {
    fn start() -> Self {
        let (owner, stranger) = (Token::new(), Token::new());
        let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
        let daemon = Setup::default().config("[tenant]", &tenants).start();
        let two = Self { daemon, owner, stranger };
        let made = two.ask(&two.owner, "POST", "/v1/sessions", Some(&json!({"id": "mine"})));
        assert_eq!(made.status, 201);
        let first = json!({"code": "open('file', 'w').write('secret') and print('secret')"});
        let ran = two.ask(&two.owner, "POST", "/v1/sessions/mine/execute", Some(&first));
        assert_eq!(ran.expect_success()["status"], "ok");
        two
    }

    fn ask(&self, whose: &Token, method: &str, path: &str, body: Option<&Value>) -> Response {
        whose.ask(&self.daemon.unix(), method, path, body)
    }

    fn stream(
        &self,
        whose: &Token,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Events {
        let bearer = format!("Bearer {}", whose.text);
        let all = [&[("Authorization", bearer.as_str())], headers].concat();
        Events::open(&self.daemon.unix(), method, path, &all, body)
    }
}

/// Every call about a session: method, what follows its id, and a body it takes.
fn calls() -> Vec<(&'static str, &'static str, Option<Value>)> {
    let code = || Some(json!({"code": "1"}));
    vec![
        ("GET", "", None),
        ("POST", "/interrupt", None),
        ("POST", "/reset", None),
        ("POST", "/keepalive", None),
        ("GET", "/imageable", None),
        ("POST", "/suspend", None),
        ("POST", "/resume", None),
        ("POST", "/branch", Some(json!({"count": 1}))),
        ("POST", "/checkpoints", Some(json!({"name": "stolen"}))),
        ("GET", "/checkpoints", None),
        ("GET", "/checkpoints/kept/diff", None),
        ("DELETE", "/checkpoints/kept", None),
        ("POST", "/rollback", Some(json!({"checkpoint": "kept"}))),
        ("POST", "/execute", code()),
        ("POST", "/commands", Some(json!({"argv": ["cat", "file"]}))),
        ("POST", "/complete", code()),
        ("POST", "/inspect", code()),
        ("POST", "/is_complete", code()),
        ("GET", "/files", None),
        ("GET", "/files/file", None),
        ("PUT", "/files/file", Some(json!("overwritten"))),
        ("GET", "/executions", None),
        ("GET", "/executions/1", None),
        ("GET", "/executions/1/outputs/stdout", None),
        ("POST", "/executions/1/signal", Some(json!({"signal": "SIGTERM"}))),
        ("POST", "/executions/1/resize", Some(json!({"columns": 80, "rows": 24}))),
        ("POST", "/executions/1/stdin", Some(json!("typed"))),
        ("GET", "/executions/1/calls", None),
        ("POST", "/executions/1/continue", Some(json!({"answers": {}}))),
        ("PATCH", "/files/file", Some(json!({"mode": "0600"}))),
        ("DELETE", "/files/file", None),
        ("GET", "/ports/8000/file", None),
        ("POST", "/previews", Some(json!({"port": 8000}))),
        ("POST", "/contexts", Some(json!({"id": "other"}))),
        ("GET", "/contexts", None),
        ("GET", "/contexts/other", None),
        ("POST", "/contexts/other/reset", None),
        ("POST", "/contexts/other/interrupt", None),
        ("DELETE", "/contexts/other", None),
        ("PATCH", "", Some(json!({"metadata": {"whose": "a stranger's"}}))),
        ("DELETE", "", None),
    ]
}

/// What the session's own tenant is refused, as there is no such command, server or preview, and as
/// its environment has no images. What is refused is known to be there.
const REFUSED_TO_ALL: [&str; 11] = [
    "/suspend",
    "/branch",
    "/checkpoints",
    "/checkpoints/kept",
    "/checkpoints/kept/diff",
    "/rollback",
    "/executions/1/signal",
    "/executions/1/resize",
    "/executions/1/stdin",
    "/ports/8000/file",
    "/previews",
];

#[test]
fn every_call_of_the_api_is_tried() {
    let document = Daemon::start().request("GET", "/openapi.json", None).expect_success();
    let mut missing = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let Some(rest) = path.strip_prefix("/v1/sessions/{id}") else { continue };
        let rest = rest.replace("{path}", "file").replace("{execution_id}", "1");
        let rest = rest.replace("{port}", "8000").replace("{context}", "other");
        let rest = rest.replace("{part}", "stdout").replace("{name}", "kept");
        for method in operations.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            // A tar archive into the workdir goes by its own media type; a watch has no end.
            let elsewhere = [("put", "/files"), ("get", "/watch")];
            // An execution without tools has none, which is as unknown to its owner: tests/calls.
            if rest == "/executions/1/calls/{call_id}" {
                continue;
            }
            let is_tried = calls()
                .iter()
                .any(|(other, path, _)| other.eq_ignore_ascii_case(method) && *path == rest);
            if !is_tried && !elsewhere.contains(&(method.as_str(), rest.as_str())) {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_session_is_unknown_to_another_tenant_by_whatever_is_asked_of_it() {
    let two = Two::start();
    for (method, rest, body) in calls() {
        let ask = |whose: &Token, id: &str| {
            two.ask(whose, method, &format!("/v1/sessions/{id}{rest}"), body.as_ref())
        };
        let answer = ask(&two.stranger, "mine");
        let code =
            if rest.starts_with("/executions/") { "unknown_execution" } else { "unknown_session" };
        let problem = answer.expect_problem(404, code);
        // The same, word for word, as of one that never was.
        let never = ask(&two.stranger, "none").json().to_string().replace("none", "mine");
        assert_eq!(problem.to_string(), never, "{method} {rest}");
        // The control: for whom it belongs to it is there.
        let status = ask(&two.owner, "mine").status;
        let is_known = if REFUSED_TO_ALL.contains(&rest) { status != 404 } else { status < 300 };
        assert!(is_known, "{method} {rest}: {status}");
    }
    let watch = two.stream(&two.stranger, "GET", "/v1/sessions/mine/watch", &[], None);
    watch.head.expect_problem(404, "unknown_session");
    let archive = two.stream(
        &two.stranger,
        "PUT",
        "/v1/sessions/mine/files?unpack=true",
        &[("Content-Type", "application/x-tar")],
        Some(&json!("")),
    );
    archive.head.expect_problem(404, "unknown_session");
    two.daemon.stop_and_check();
}

#[test]
fn what_a_stranger_asks_for_changes_nothing() {
    let two = Two::start();
    let path = "/v1/sessions/mine/execute";
    let running = json!({"code": WAITING});
    let mut events = two.stream(&two.owner, "POST", path, &[], Some(&running));
    events.expect("started");
    for (method, rest, body) in calls() {
        let answer =
            two.ask(&two.stranger, method, &format!("/v1/sessions/mine{rest}"), body.as_ref());
        assert_eq!(answer.status, 404, "{method} {rest}");
    }
    // Nor does `create`, which makes one of the stranger's own.
    let created = two.ask(
        &two.stranger,
        "POST",
        &format!("{path}?create=true"),
        Some(&json!({"code": "import os; os.listdir()"})),
    );
    assert!(!created.expect_success().to_string().contains("'file'"));
    let go = two.ask(&two.owner, "PUT", "/v1/sessions/mine/files/go", Some(&json!("")));
    assert_eq!(go.status, 201);
    let done = events.rest().pop().unwrap();
    assert_eq!((done.name.as_str(), &done.data["status"]), ("done", &json!("ok")));
    let file = two.ask(&two.owner, "GET", "/v1/sessions/mine/files/file", None);
    assert_eq!(file.body, b"secret");
    two.daemon.stop_and_check();
}

#[test]
fn events_are_for_whom_they_belong_to_while_it_runs_and_afterwards() {
    let two = Two::start();
    let mut events = two.stream(
        &two.owner,
        "POST",
        "/v1/sessions/mine/execute",
        &[],
        Some(&json!({"code": WAITING})),
    );
    let started = events.expect("started");
    let number = started.data["execution_id"].as_str().unwrap();
    let path = format!("/v1/sessions/mine/executions/{number}");
    let strangers_see_nothing = || {
        for headers in [&[][..], &[("Last-Event-ID", "1")], &[("Last-Event-ID", "99")]] {
            let stream = two.stream(&two.stranger, "GET", &path, headers, None);
            stream.head.expect_problem(404, "unknown_execution");
        }
        let plain = two.ask(&two.stranger, "GET", &path, None);
        plain.expect_problem(404, "unknown_execution");
    };
    strangers_see_nothing();
    // Not with a session of this name and an execution of this number of its own either.
    let own = two.ask(
        &two.stranger,
        "POST",
        "/v1/sessions/mine/execute?create=true",
        Some(&json!({"code": "'own'"})),
    );
    assert_eq!(own.expect_success()["execution_id"], "1");
    let theirs =
        two.stream(&two.stranger, "GET", "/v1/sessions/mine/executions/1", &[], None).rest();
    assert_eq!(names(&theirs), ["started", "result", "done"]);
    strangers_see_nothing();
    let go = two.ask(&two.owner, "PUT", "/v1/sessions/mine/files/go", Some(&json!("")));
    assert_eq!(go.status, 201);
    assert_eq!(names(&events.rest()).last(), Some(&"done"));
    strangers_see_nothing();
    // The control.
    let followed = two.stream(&two.owner, "GET", &path, &[("Last-Event-ID", "1")], None).rest();
    assert_eq!(names(&followed), ["stdout", "result", "done"]);
    two.daemon.stop_and_check();
}

#[test]
fn a_runs_result_is_its_tenants_though_its_session_is_gone() {
    let two = Two::start();
    let ran = two.ask(&two.owner, "POST", "/v1/run", Some(&json!({"code": "'secret'"})));
    let ran = ran.expect_success();
    let path = format!("/v1/sessions/{}/executions/1", ran["session_id"].as_str().unwrap());
    two.ask(&two.stranger, "GET", &path, None).expect_problem(404, "unknown_execution");
    let stream = two.stream(&two.stranger, "GET", &path, &[], None);
    stream.head.expect_problem(404, "unknown_execution");
    assert_eq!(two.ask(&two.owner, "GET", &path, None).expect_success()["outcome"], ran);
    two.daemon.stop_and_check();
}

#[test]
fn a_key_is_its_tenants() {
    let two = Two::start();
    let run = json!({"code": "import uuid; uuid.uuid4().hex"}).to_string();
    let send = |whose: &Token, path: &str, body: &str| {
        let bearer = format!("Bearer {}", whose.text);
        let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "key")];
        Client::connect(&two.daemon.unix()).send("POST", path, &headers, Some(body.as_bytes()))
    };
    let first = send(&two.owner, "/v1/run", &run);
    let other = send(&two.stranger, "/v1/run", &run);
    assert_eq!(other.header("idempotent-replayed"), None);
    assert_ne!(other.expect_success()["result"], first.expect_success()["result"]);
    // The control: the same tenant gets the same answer.
    let again = send(&two.owner, "/v1/run", &run);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect_success(), first.expect_success());
    // Nor does another's key stand in the way of another request.
    let different = json!({"code": "7"}).to_string();
    send(&two.owner, "/v1/run", &different).expect_problem(422, "idempotency_key_reused");
    let third = Token::new();
    let config = two.daemon.dir().join("vivarium.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let more = format!("{text}[[tenant]]\n{}", entry("third", &third, ""));
    std::fs::write(&config, more).unwrap();
    two.daemon.signal(nix::sys::signal::Signal::SIGHUP);
    wait::until_true("the third tenant", || {
        two.ask(&third, "GET", "/v1/sessions", None).status == 200
    });
    let ran = send(&third, "/v1/run", &different).expect_success();
    assert_eq!(ran["result"]["repr"], "7");
    two.daemon.stop_and_check();
}
