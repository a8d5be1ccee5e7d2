//! Files over HTTP, from an agent whose files are named after what comes of them.

use vivarium_engine::testing::{FakeAgent, engine};
use vivarium_protocol::frame;
use vivarium_protocol::message::{
    FileEntry, FileEvent, FileEventKind, FileKind, FileOperation, FileProblemKind, FileReply,
    ToAgent, WATCH_FRAME_BYTES,
};

use super::*;

mod entries;

/// 2026-01-01T00:00:00Z
const MODIFIED_MS: i64 = 1_767_225_600_000;

/// Answers operations on files until the session is over.
async fn serve_files(mut agent: FakeAgent) {
    agent.start().await;
    let mut changes = 0;
    while let Some(message) = agent.recv().await {
        let ToAgent::File { transfer, operation } = message else { continue };
        let path = match &operation {
            FileOperation::Read { path, .. }
            | FileOperation::Write { path }
            | FileOperation::Unpack { path }
            | FileOperation::List { path, .. }
            | FileOperation::Delete { path }
            | FileOperation::Stat { path }
            | FileOperation::Archive { path }
            | FileOperation::Watch { path, .. }
            | FileOperation::MakeDirectory { path }
            | FileOperation::SetMode { path, .. }
            | FileOperation::Move { path, .. } => path.clone(),
        };
        let refusal = match path.as_str() {
            "missing" => Some(FileProblemKind::NotFound),
            "tree" if matches!(operation, FileOperation::Archive { .. }) => None,
            "directory" | "tree" => Some(FileProblemKind::Kind),
            "link" => Some(FileProblemKind::Path),
            "full" => Some(FileProblemKind::NoSpace),
            "bad.tar" => Some(FileProblemKind::Archive),
            "refused" => Some(FileProblemKind::Io),
            "busy" => Some(FileProblemKind::Aborted),
            _ => None,
        };
        changes += u64::from(path == "changing");
        let size = if path == "changing" { 100 + changes } else { 100 };
        let entry = FileEntry {
            path: path.clone(),
            kind: FileKind::File,
            size_bytes: size,
            modified_ms: MODIFIED_MS,
            mode: 0o644,
        };
        let reply = match (&operation, refusal) {
            (_, Some(kind)) => Err(kind),
            (FileOperation::Read { offset, length, .. }, _) => {
                let rest = size.saturating_sub(*offset);
                let length = length.map_or(rest, |length| length.min(rest));
                Ok(FileReply::Content { entry, length })
            }
            (FileOperation::Archive { .. }, _) => Ok(FileReply::Archive(entry)),
            (FileOperation::Watch { .. }, _) => Ok(FileReply::Watching),
            (FileOperation::Delete { .. }, _) => Ok(FileReply::Deleted),
            (FileOperation::MakeDirectory { .. }, _) => Ok(FileReply::DirectoryMade { new: true }),
            (FileOperation::SetMode { mode, .. }, _) => {
                Ok(FileReply::Entry(FileEntry { mode: *mode, ..entry }))
            }
            (FileOperation::Stat { .. } | FileOperation::Move { .. }, _) => {
                Ok(FileReply::Entry(entry))
            }
            (FileOperation::List { limit, .. }, _) => {
                Ok(FileReply::Listed { entries: vec![entry; *limit as usize], more: true })
            }
            _ => {
                let socket = agent.socket();
                let mut wire = Vec::new();
                while !wire.ends_with(&[0; 4]) {
                    wire.extend(socket.read().await);
                }
                Ok(FileReply::Written { files: 1, bytes: wire.len() as u64 - 8 })
            }
        };
        let content = match (&operation, &reply) {
            (FileOperation::Read { offset, .. }, Ok(FileReply::Content { length, .. })) => {
                let sent = if path == "short" { length / 2 } else { *length };
                (*offset..offset + sent).map(|at| at.to_le_bytes()[0]).collect()
            }
            (FileOperation::Archive { .. }, Ok(_)) => b"\x03\0\0\0tar\0\0\0\0".to_vec(),
            (FileOperation::Watch { .. }, Ok(_)) => {
                let event = |kind, path: &str, from: Option<&str>| FileEvent {
                    kind,
                    path: path.to_owned(),
                    from: from.map(str::to_owned),
                    is_directory: false,
                };
                let events = vec![
                    event(FileEventKind::Created, "a\nb", None),
                    event(FileEventKind::Moved, "c", Some("a")),
                    event(FileEventKind::Overflow, "", None),
                ];
                frame::encode(&events, WATCH_FRAME_BYTES).unwrap()
            }
            _ => vec![],
        };
        let has_socket = matches!(
            operation,
            FileOperation::Read { .. }
                | FileOperation::Write { .. }
                | FileOperation::Unpack { .. }
                | FileOperation::Archive { .. }
                | FileOperation::Watch { .. }
        );
        agent.file_done(transfer, reply).await;
        if has_socket && let Some(socket) = agent.try_socket() {
            socket.write(content).await;
        }
    }
}

async fn started() -> Server {
    let (engine, _, mut launched) = engine(settings());
    tokio::spawn(async move {
        while let Some(agent) = launched.recv().await {
            tokio::spawn(serve_files(agent));
        }
    });
    let server = start_with(engine);
    server.call("POST", "/v1/sessions", r#"{"id": "a"}"#).await;
    server
}

/// A request with a body of octets.
async fn send(server: &Server, method: &str, rest: &str, headers: &str, body: &str) -> Response {
    let path = format!("/v1/sessions/a/files{rest}");
    raw(server.address, &request(method, &path, headers, body)).await
}

const TAR: &str = "content-type: application/x-tar\r\n";

#[tokio::test]
async fn every_refusal_has_its_code() {
    let server = started().await;
    for (method, rest, headers, expected) in [
        ("GET", "/missing", "", (404, "unknown_file")),
        ("HEAD", "/missing", "", (404, "")),
        ("GET", "/directory", "", (409, "not_a_file")),
        ("GET", "/link", "", (422, "bad_path")),
        ("GET", "/refused", "", (409, "file_refused")),
        ("GET", "/busy", "", (429, "too_many_transfers")),
        ("GET", "/changing", "range: bytes=-5\r\n", (409, "file_refused")),
        ("GET", "/file", "range: bytes=100-\r\n", (416, "range_not_satisfiable")),
        ("PUT", "/full", "", (507, "no_space")),
        ("PUT", "/link", "", (422, "bad_path")),
        ("PUT", "/bad.tar?unpack=true", TAR, (422, "bad_archive")),
        ("PUT", "/a?unpack=true", "", (415, "unsupported_media_type")),
        ("PUT", "?unpack=true", "", (415, "unsupported_media_type")),
        ("PUT", "?unpack=perhaps", "", (400, "invalid_query")),
        ("PUT", "", "", (422, "bad_path")),
        ("PUT", "/a", "content-encoding: gzip\r\n", (415, "unsupported_media_type")),
        ("PUT", "/a", "content-range: bytes 0-0/2\r\n", (400, "unsupported_header")),
        ("PUT", "/a", "if-match: \"x\"\r\n", (400, "unsupported_header")),
        ("DELETE", "/missing", "", (404, "unknown_file")),
        ("DELETE", "", "", (405, "method_not_allowed")),
        ("POST", "/a", "", (405, "method_not_allowed")),
        ("GET", "/missing?info=true", "", (404, "unknown_file")),
        ("PUT", "/a?directory=true&unpack=true", TAR, (400, "invalid_query")),
        ("PATCH", "/a", "", (415, "unsupported_media_type")),
        ("GET", "?limit=0", "", (422, "invalid_field")),
        ("GET", "?limit=1001", "", (422, "invalid_field")),
        ("GET", "?path=..", "", (422, "bad_path")),
        ("GET", "?after=%00", "", (422, "invalid_field")),
        ("GET", "?paht=x", "", (400, "invalid_query")),
    ] {
        let answer = send(&server, method, rest, headers, "").await;
        let found = match method {
            "HEAD" => (answer.status, String::new()),
            _ => answer.problem(),
        };
        assert_eq!(found, (expected.0, expected.1.to_owned()), "{method} {rest}");
        if expected.0 == 429 {
            assert!(answer.head.contains("\r\nretry-after: "), "{}", answer.head);
        }
    }
    let answer = send(&server, "GET", "/file", "range: bytes=100-\r\n", "").await;
    assert!(answer.head.contains("\r\ncontent-range: bytes */100"), "{}", answer.head);
    let tree = send(&server, "GET", "/tree", "range: bytes=0-1\r\n", "").await;
    assert_eq!(tree.status, 200);
    for header in ["content-type: application/x-tar", "filename*=utf-8''tree.tar", "nosniff"] {
        assert!(tree.head.contains(header), "{}", tree.head);
    }
    assert!(tree.body.contains("tar"), "{}", tree.body);
    assert_eq!(send(&server, "HEAD", "/tree", "", "").await.status, 200);
}

#[tokio::test]
async fn paths_outside_the_workdir_never_reach_the_agent() {
    let server = started().await;
    let long = format!("/{}", "x".repeat(4097));
    for rest in [
        "/..",
        "/../file",
        "/a/../file",
        "/%2e%2e/file",
        "/%2e%2e%2ffile",
        "/..%2ffile",
        "/a%2f..%2ffile",
        "/.",
        "/./file",
        "/%2ffile",
        "//file",
        "/a//file",
        "/file/",
        "/file%00",
        "/a%00/file",
        "/%ff",
        &long,
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let answer = send(&server, method, rest, "", "").await;
            assert_eq!(answer.problem(), (422, "bad_path".to_owned()), "{method} {rest}");
        }
    }
    // Decoded once: these are names.
    for rest in ["/file", "/..file", "/%252e%252e", "/..%5cfile", "/a%3fb%23", "/%C3%BC"] {
        assert_eq!(send(&server, "GET", rest, "", "").await.status, 200, "{rest}");
    }
}

#[tokio::test]
async fn download_has_headers_that_keep_browsers_from_rendering_it() {
    let server = started().await;
    let answer = send(&server, "GET", "/a/page%201.html", "", "").await;
    assert_eq!((answer.status, answer.body.len()), (200, 100));
    for line in [
        "content-type: text/html",
        "content-length: 100",
        "accept-ranges: bytes",
        "cache-control: no-store",
        "content-disposition: attachment; filename*=utf-8''page%201.html",
        "x-content-type-options: nosniff",
        "content-security-policy: sandbox",
        "cross-origin-resource-policy: same-origin",
        "last-modified: thu, 01 jan 2026 00:00:00 gmt",
    ] {
        assert!(answer.head.contains(&format!("\r\n{line}")), "{line} in {}", answer.head);
    }
    let head = send(&server, "HEAD", "/a/page%201.html", "", "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let lines = |answer: &Response| {
        let lines = answer.head.lines().filter(|line| !line.starts_with("date:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&head), lines(&answer));
    let tag = answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let unchanged = format!("if-none-match: {tag}\r\n");
    let answer = send(&server, "GET", "/a/page%201.html", &unchanged, "").await;
    assert_eq!((answer.status, answer.body.as_str()), (304, ""));
}

#[tokio::test]
async fn one_range_is_sent_alone() {
    let server = started().await;
    for (range, status, at, body) in [
        ("bytes=1-3", 206, "bytes 1-3/100", "\u{1}\u{2}\u{3}"),
        ("bytes=98-", 206, "bytes 98-99/100", "bc"),
        ("bytes=-2", 206, "bytes 98-99/100", "bc"),
        ("bytes=98-1000", 206, "bytes 98-99/100", "bc"),
    ] {
        let answer = send(&server, "GET", "/file", &format!("range: {range}\r\n"), "").await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{range}");
        let expected = format!("\r\ncontent-range: {at}");
        assert!(answer.head.contains(&expected), "{range}: {}", answer.head);
    }
    for headers in ["range: bytes=0-1,3-4\r\n", "range: bytes=0-1\r\nif-range: \"other\"\r\n"] {
        let answer = send(&server, "GET", "/file", headers, "").await;
        assert_eq!((answer.status, answer.body.len()), (200, 100), "{headers}");
        assert!(!answer.head.contains("content-range"), "{}", answer.head);
    }
}

#[tokio::test]
async fn truncated_content_is_shorter_than_announced() {
    let server = started().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request("GET", "/v1/sessions/a/files/short", "", "")).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    // A content that ends at once may take a head with it that is not sent yet.
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return };
    assert!(head.contains("200 OK") && head.contains("\r\ncontent-length: 100"), "{head}");
    assert!(body.len() < 100, "{body}");
}

#[tokio::test]
async fn upload_reports_the_files_it_wrote() {
    let server = started().await;
    let answer = send(&server, "PUT", "/file", "", "hello").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"path": "file", "files": 1, "size_bytes": 5}));
    let answer = send(&server, "PUT", "?unpack=true", TAR, "hello").await;
    assert_eq!((answer.status, &answer.json()["path"]), (200, &json!("")));
    assert_eq!(send(&server, "DELETE", "/file", "", "").await.status, 204);
    let listed = send(&server, "GET", "?limit=2&recursive=true", "", "").await.json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 2);
    assert_eq!(listed["entries"][0]["modified_at"], "2026-01-01T00:00:00Z");
    assert_eq!(listed["next"], "");
}

#[tokio::test]
async fn oversized_upload_is_refused_before_reading() {
    let server = started().await;
    let max = 256 << 20;
    let path = "/v1/sessions/a/files/file";
    let headers = format!("expect: 100-continue\r\ncontent-length: {}\r\n", max + 1);
    let announced = raw(server.address, head("PUT", path, &headers).as_bytes()).await;
    assert_eq!(announced.problem(), (413, "file_too_large".into()));
    let chunks = format!("100000\r\n{}\r\n", "x".repeat(1 << 20)).repeat(257);
    let chunked = send_chunked(&server, "PUT", path, &chunks).await;
    assert_eq!(chunked.problem(), (413, "file_too_large".into()));
}

#[tokio::test]
async fn draining_daemon_serves_downloads_and_refuses_uploads() {
    let server = started().await;
    // This agent never runs anything, and so the session stays busy.
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    let execute = request("POST", "/v1/sessions/a/execute", JSON, r#"{"code": "1"}"#);
    busy.write_all(&execute).await.unwrap();
    let state = |listed: Value| listed["sessions"][0]["state"].clone();
    while state(server.call("GET", "/v1/sessions", "").await.json()) != "running" {}
    let engine = server.engine.clone();
    let shutdown = tokio::spawn(async move {
        engine.shutdown(std::time::Duration::from_secs(3600)).await;
    });
    while !server.engine.is_draining() {
        tokio::task::yield_now().await;
    }
    for method in ["PUT", "DELETE"] {
        let answer = send(&server, method, "/file", "", "").await;
        assert_eq!(answer.problem(), (503, "draining".into()));
    }
    let answer = send(&server, "GET", "/file", "", "").await;
    assert_eq!((answer.status, answer.body.len()), (200, 100));
    assert!(!shutdown.is_finished());
    shutdown.abort();
}
