//! Bodies that are large, or for which there is no room.

use super::*;

#[tokio::test]
async fn bodies_are_bounded() {
    let mut settings = settings();
    settings.server.max_body_bytes = 1000;
    let server = start(settings);
    let large = format!(r#"{{"code": "{}"}}"#, "x".repeat(100_000));
    let answer = server.call("POST", "/v1/run", &large).await;
    assert_eq!(answer.problem(), (413, "body_too_large".into()));
    let one_large = format!("{:x}\r\n{large}\r\n", large.len());
    let many_small = format!("64\r\n{}\r\n", "x".repeat(100)).repeat(11);
    for chunks in [one_large, many_small] {
        let answer = send_chunked(&server, "POST", "/v1/run", &chunks).await;
        assert_eq!(answer.problem(), (413, "body_too_large".into()));
    }
}

#[tokio::test]
async fn body_without_room_is_refused_before_it_is_read() {
    let server = start(settings());
    let headers = format!("{JSON}content-length: 10000000\r\nexpect: 100-continue\r\n");
    let announced = head("POST", "/v1/run", &headers);
    let held = server.engine.account("default").hold(250 << 20);
    let answer = raw(server.address, announced.as_bytes()).await;
    assert_eq!(answer.problem(), (429, "no_room".into()));
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
    let chunk = format!("{:x}\r\n{}\r\n", 10_000_000, "x".repeat(10_000_000));
    let answer = send_chunked(&server, "POST", "/v1/run", &chunk).await;
    assert_eq!(answer.problem(), (429, "no_room".into()));
    // Another tenant's are no business of this one's, until nothing is left for anybody.
    drop(held);
    let others = [("one", 250), ("two", 250)];
    let _held = others.map(|(tenant, mib)| server.engine.account(tenant).hold(mib << 20));
    let answer = raw(server.address, announced.as_bytes()).await;
    assert_eq!(answer.problem(), (503, "overloaded".into()));
    assert_eq!(server.call("POST", "/v1/run", r#"{"code": "hi"}"#).await.status, 200);
}

#[tokio::test]
async fn ten_megabytes_of_code_are_executed() {
    let server = start(settings());
    let code = "x".repeat(10 << 20);
    let answer = server.call("POST", "/v1/run", &json!({ "code": code }).to_string()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["stdout"].as_str().unwrap().len(), 10 << 20);
}
