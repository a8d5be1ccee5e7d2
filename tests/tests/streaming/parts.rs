//! One part of an outcome, fetched by its name once its size is known.

use serde_json::{Value, json};
use vivarium_tests::{Daemon, Session, wait};

const SHOWN: &str = r#"
print('é' * 1000)
display({'text/html': '<b>bold</b>', 'image/png': b'\x89PNG\r\n\x1a\n', 'application/json': '{"a": 1}'}, raw=True)
open('table.csv', 'w').write('a,b\n')
'r' * 500"#;

fn fetch(session: &Session<'_>, id: &Value, part: &str) -> vivarium_tests::http::Response {
    let id = id.as_str().unwrap();
    session.request("GET", &format!("/executions/{id}/outputs/{part}"), None)
}

#[test]
fn parts_told_by_size_are_fetched_by_name() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let answer = json!({"format": "notebook", "content": "sizes"});
    let request = json!({"code": SHOWN, "answer": answer, "outputs": [{"name": "table.csv"}]});
    let outcome = session.execute_with(&request).ok().0;
    let id = &outcome["execution_id"];
    let mut fetched = Vec::new();
    for output in outcome["outputs"].as_array().unwrap() {
        assert_eq!(output["data"], json!({}), "{output}");
        let told = &output["metadata"]["vivarium"];
        for (kind, size) in told["sizes"].as_object().unwrap() {
            let part = told["part"].as_str().unwrap();
            let found = fetch(&session, id, &format!("{part}?mime_type={kind}"));
            assert_eq!(found.status, 200, "{part} {kind}");
            assert_eq!(found.body.len() as u64, size.as_u64().unwrap(), "{part} {kind}");
            let told = found.header("content-type").unwrap().split(';').next();
            assert_eq!(told, Some(kind.as_str()));
            fetched.push(String::from_utf8_lossy(&found.body).into_owned());
        }
    }
    let repr = format!("'{}'", "r".repeat(500));
    assert_eq!(fetched[0], r#"{"a": 1}"#);
    assert_eq!(&fetched[2..], ["<b>bold</b>", &repr]);

    let stdout = fetch(&session, id, "stdout");
    assert_eq!(stdout.body.len() as u64, outcome["stdout_bytes"].as_u64().unwrap());
    assert_eq!(stdout.body, format!("{}\n", "é".repeat(1000)).as_bytes());
    assert_eq!(stdout.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(fetch(&session, id, "displays%2F0?mime_type=image/png").body, b"\x89PNG\r\n\x1a\n");
    let file = fetch(&session, id, "files/0");
    assert_eq!(file.body, b"a,b\n");
    let saved = file.header("content-disposition").unwrap();
    assert_eq!(saved, "attachment; filename*=UTF-8''table.csv");
    let failed = session.execute("1 / 0").0;
    let traceback = fetch(&session, &failed["execution_id"], "exception");
    assert_eq!(traceback.body, failed["exception"]["traceback"].as_str().unwrap().as_bytes());
    daemon.stop_and_check();
}

#[test]
fn what_is_no_part_is_refused_with_those_there_are() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let shown = "display({'text/html': '<b>', 'image/svg+xml': '<svg/>'}, raw=True)";
    let outcome = session.execute(shown).ok().0;
    let id = &outcome["execution_id"];
    for part in ["displays/1", "displays/00", "displays", "result", "stdin", "files/0", "a%2Fb%00"]
    {
        let problem = fetch(&session, id, part).expect_problem(404, "unknown_output");
        assert!(problem["detail"].as_str().unwrap().contains("displays/0"), "{problem}");
    }
    let missing = fetch(&session, id, "displays/0?mime_type=image/png");
    let detail = &missing.expect_problem(404, "unknown_output")["detail"];
    assert_eq!(detail, "displays/0 has no \"image/png\": it has image/svg+xml, text/html");
    let which = fetch(&session, id, "displays/0").expect_problem(400, "invalid_query");
    assert_eq!(which["field"], "mime_type");
    fetch(&session, id, "displays/0?mime=text/html").expect_problem(400, "invalid_query");
    fetch(&session, &json!("99"), "stdout").expect_problem(404, "unknown_execution");

    let started = session.request(
        "POST",
        "/commands",
        Some(&json!({"shell": "printf ended; cat", "stdin_open": true,
        "background": true})),
    );
    let id = &started.expect_success()["execution_id"];
    fetch(&session, id, "stdout").expect_problem(409, "not_done");
    let path = format!("/executions/{}/stdin?close=true", id.as_str().unwrap());
    let _closed = session.request("POST", &path, None).expect_success();
    wait::until("the command's output", || {
        let found = fetch(&session, id, "stdout");
        (found.status == 200).then(|| assert_eq!(found.body, b"ended"))
    });
    daemon.stop_and_check();
}

/// What tenant code shows is never a page, a script or a header of the API's.
#[test]
fn content_of_any_type_is_saved_and_not_shown() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let kinds =
        ["text/html", "image/svg+xml", "text/javascript", "application/pdf", "a", "text/x y"];
    let header = "text/x\\r\\nset-cookie: a=b";
    let shown =
        format!("display({{kind: b'<script>' for kind in {kinds:?} + ['{header}']}}, raw=True)");
    let outcome = session.execute(&shown).ok().0;
    let id = &outcome["execution_id"];
    let mut seen = 0;
    for kind in outcome["displays"][0]["mime"].as_object().unwrap().keys() {
        let kind: String = kind.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let found = fetch(&session, id, &format!("displays/0?mime_type={kind}"));
        assert_eq!(found.status, 200, "{kind}");
        for (name, value) in [
            ("content-security-policy", "sandbox"),
            ("x-content-type-options", "nosniff"),
            ("content-disposition", "attachment; filename*=UTF-8''displays-0"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(found.header(name), Some(value), "{kind}");
        }
        assert_eq!(found.header("set-cookie"), None);
        seen += 1;
    }
    assert_eq!(seen, 7, "{outcome}");
    daemon.stop_and_check();
}
