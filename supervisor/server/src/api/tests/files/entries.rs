//! Entries and changes of files.

use super::*;

#[tokio::test]
async fn entries_are_described_made_and_changed() {
    let server = started().await;
    let info = send(&server, "GET", "/file?info=true", "", "").await;
    assert_eq!((info.status, info.json()["mode"].as_str()), (200, Some("0644")), "{}", info.body);
    let made = send(&server, "PUT", "/%2Ftmp/d?directory=true", "", "").await;
    assert_eq!((made.status, made.json()["path"].as_str()), (201, Some("/tmp/d")));
    let json = "content-type: application/json\r\n";
    for (body, expected) in [
        (r#"{"mode": "0600"}"#, (200, None)),
        (r#"{"mode": "600", "move_to": "b"}"#, (200, None)),
        (r#"{"move_to": "/workspace/b", "replace": true}"#, (200, None)),
        ("{}", (422, Some("missing_field"))),
        (r#"{"mode": "4755"}"#, (422, Some("invalid_field"))),
        (r#"{"mode": "0999"}"#, (422, Some("invalid_field"))),
        (r#"{"mode": "+644"}"#, (422, Some("invalid_field"))),
        (r#"{"mode": 420}"#, (422, Some("invalid_field"))),
        (r#"{"move_to": "../b"}"#, (422, Some("bad_path"))),
        (r#"{"move_to": "/etc/b"}"#, (422, Some("bad_path"))),
        (r#"{"move_to": ""}"#, (422, Some("bad_path"))),
        (r#"{"moveto": "b"}"#, (422, Some("unknown_field"))),
    ] {
        let answer = send(&server, "PATCH", "/a", json, body).await;
        assert_eq!(answer.status, expected.0, "{body}: {}", answer.body);
        if let Some(code) = expected.1 {
            assert_eq!(answer.problem().1, code, "{body}");
        }
    }
}

#[tokio::test]
async fn changes_are_a_stream_of_events() {
    let server = started().await;
    let path = "/v1/sessions/a/watch?path=d&recursive=false";
    let answer = raw(server.address, &request("GET", path, "", "")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
    let mut events = answer.body.split("event: ").skip(1);
    for expected in [
        "ready\ndata: {}\n\n",
        r#"created
data: {"path":"a\nb","directory":false}"#,
        r#"moved
data: {"path":"c","from":"a","directory":false}"#,
        "overflow\ndata: {}\n\n",
    ] {
        let event = events.next().unwrap();
        assert!(event.starts_with(expected), "{event}");
    }
    for (query, expected) in [
        ("path=../d", (422, "bad_path")),
        ("path=/etc", (422, "bad_path")),
        ("path=missing", (404, "unknown_file")),
        ("recursive=maybe", (400, "invalid_query")),
    ] {
        let answer = server.call("GET", &format!("/v1/sessions/a/watch?{query}"), "").await;
        assert_eq!(answer.problem(), (expected.0, expected.1.to_owned()), "{query}");
    }
}
