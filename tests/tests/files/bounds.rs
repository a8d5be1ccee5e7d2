//! The session's limits, reached from outside.

use serde_json::json;
use vivarium_tests::{Daemon, Session};

use super::stream::Exchange;
use super::tar;
use super::{Files, noise, resident_bytes};

fn small(daemon: &Daemon) -> Files<'_> {
    let limits = json!({"max_disk_mb": 20, "max_inodes": 200, "max_file_size_mb": 15});
    Files { daemon, session: daemon.session_with(&json!({"limits": limits})) }
}

/// Sends a body of so many MiB in chunks, of which nobody knows how long it will be.
fn put_megabytes(files: &Files<'_>, file: &str, count: usize) -> Option<u16> {
    let chunk = noise(5, 1 << 20);
    let chunked = "Transfer-Encoding: chunked\r\n";
    let mut exchange = Exchange::begin(files.daemon, "PUT", &files.url(file), chunked);
    for _ in 0..count {
        let sent = exchange.send(format!("{:x}\r\n", chunk.len()).as_bytes())
            && exchange.send(&chunk)
            && exchange.send(b"\r\n");
        if !sent {
            break;
        }
    }
    exchange.send(b"0\r\n\r\n");
    exchange.head().map(|head| head.status)
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let daemon = crate::DAEMON.hold();
    let files = small(&daemon);
    let old = noise(6, 8 << 20);
    assert_eq!(files.put("old", &old).status, 201);
    // 8 of 20 are used, 13 do not fit: neither beside the old one nor in its place.
    assert_eq!(put_megabytes(&files, "new", 13), Some(507));
    assert_eq!(put_megabytes(&files, "old", 13), Some(507));
    files.put("new", &noise(7, 13 << 20)).expect_problem(507, "no_space");
    assert_eq!(files.names("recursive=true"), ["old"]);
    assert_eq!(files.seen(), "\"['old']\"");
    assert!(files.content("old") == old);
    // The control: 11 fit, once the space of the failed ones is free again.
    assert_eq!(put_megabytes(&files, "new", 11), Some(201));
    daemon.release();
}

#[test]
fn a_file_is_no_larger_than_files_may_be() {
    let daemon = crate::DAEMON.hold();
    let files = small(&daemon);
    assert_eq!(put_megabytes(&files, "a", 16), Some(413));
    let announced = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 15 * (1 << 20) + 1);
    let mut exchange = Exchange::begin(&daemon, "PUT", &files.url("a"), &announced);
    assert_eq!(exchange.head().unwrap().status, 413);
    assert_eq!(files.names(""), [""; 0]);
    assert_eq!(put_megabytes(&files, "a", 15), Some(201));
    // In an archive too.
    let archive = tar::archive(&[tar::file("b", &noise(8, 16 << 20))]);
    let _freed = files.delete("a");
    files.unpack("", &archive).expect_problem(507, "no_space");
    assert_eq!(files.names(""), [""; 0]);
    daemon.release();
}

#[test]
fn archives_are_held_by_the_same_limits() {
    let daemon = crate::DAEMON.hold();
    let files = small(&daemon);
    // A bomb of bytes: the entry it does not fit into is not there, those before it are.
    let entries: Vec<_> = (0..4).map(|n| tar::file(&format!("f{n}"), &noise(n, 6 << 20))).collect();
    files.unpack("", &tar::archive(&entries)).expect_problem(507, "no_space");
    assert_eq!(files.names("recursive=true"), ["f0", "f1", "f2"]);
    for name in ["f0", "f1", "f2"] {
        assert_eq!(files.delete(name).status, 204);
    }
    // A bomb of inodes.
    let entries: Vec<_> = (0..10_000).map(|n| tar::file(&format!("d{n}/f"), b"")).collect();
    files.unpack("", &tar::archive(&entries)).expect_problem(507, "no_space");
    assert!(files.names("limit=1000").len() < 200);
    files.run("import shutil, glob\nfor d in glob.glob('d*'): shutil.rmtree(d)");
    assert_eq!(files.put("a", b"1").status, 201);
    daemon.release();
}

#[test]
fn a_million_entries_end_at_the_inodes_and_others_go_on_meanwhile() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let length = "Content-Type: application/x-tar\r\nContent-Length: 512001024\r\n";
    let url = files.session.path("/files/bomb?unpack=true");
    let before = resident_bytes(&daemon);
    let mut exchange = Exchange::begin(&daemon, "PUT", &url, length);
    for part in 0..1000 {
        let entries: Vec<_> = (0..1000).map(|n| tar::file(&format!("{part}-{n}"), b"")).collect();
        if !exchange.send(&entries.concat()) {
            break;
        }
        if part % 20 == 0 {
            // Its kernel is not kept waiting for the end of this, nor are others.
            assert_eq!(files.session.value("1 + 1"), "2");
            assert!(files.session.request("GET", "/files?limit=1", None).status == 200);
        }
    }
    assert_eq!(exchange.head().unwrap().status, 507);
    let grown = resident_bytes(&daemon).saturating_sub(before);
    assert!(grown < 16 << 20, "the daemon has grown by {grown} bytes");
    assert_eq!(files.delete("bomb").status, 204);
    assert_eq!(files.put("a", b"1").status, 201);
    daemon.release();
}

#[test]
fn transfers_of_a_session_are_bounded() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let other = Files::of(&daemon);
    let _made = files.put("large", &noise(9, 4 << 20));
    // Whoever does not read what it asked for holds its own transfer, and no memory.
    let mut stalled: Vec<_> = (0..8)
        .map(|_| {
            let mut exchange = Exchange::begin(&daemon, "GET", &files.url("large"), "");
            assert_eq!(exchange.head().unwrap().status, 200);
            exchange
        })
        .collect();
    for answer in [files.get("large"), files.put("x", b""), files.delete("x")] {
        answer.expect_problem(429, "too_many_transfers");
        assert!(answer.header("retry-after").is_some());
    }
    let list = files.session.request("GET", "/files", None);
    list.expect_problem(429, "too_many_transfers");
    // Code runs, and others have their files.
    assert_eq!(files.session.value("1 + 1"), "2");
    assert_eq!(other.put("x", b"1").status, 201);
    assert_eq!(stalled.remove(0).rest(), 4 << 20);
    assert_eq!(files.put("x", b"").status, 201);
    stalled.clear();
    vivarium_tests::wait::until_true("an end of the transfers", || {
        (0..8).all(|_| files.get("x").status == 200)
    });
    daemon.release();
}

#[test]
fn another_session_has_other_files() {
    let daemon = crate::DAEMON.hold();
    let (files, other) = (Files::of(&daemon), Files::of(&daemon));
    let _made = files.put("a", b"mine");
    other.get("a").expect_problem(404, "unknown_file");
    other.delete("a").expect_problem(404, "unknown_file");
    assert_eq!(other.names("recursive=true"), [""; 0]);
    assert_eq!(files.content("a"), b"mine");
    let nobody = Session::named(&daemon, &format!("{}x", files.session.id));
    nobody.request("GET", "/files/a", None).expect_problem(404, "unknown_session");
    daemon.release();
}
