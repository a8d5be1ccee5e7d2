//! Messages of an agent in, events and an outcome out.

use vivarium_protocol::message::{FileEntry, FileKind};
use vivarium_protocol::outcome::{DisplayKind, MimePart, Usage};
use vivarium_protocol::policy::CpuCores;
use vivarium_protocol::units::Limit;

use super::*;

/// Limits for tests: ten bytes of output and of results.
pub(in crate::session) fn limits() -> Limits {
    let at = |n| Limit::new(n).unwrap();
    Limits {
        max_memory_mb: at(64),
        max_cpu_secs: at(2),
        max_procs: at(8),
        max_open_fds: at(64),
        max_file_size_mb: at(1),
        max_disk_mb: at(1),
        max_inodes: at(64),
        cpu_cores: CpuCores::ONE,
        max_output_bytes: at(10),
        max_result_bytes: at(10),
    }
}

/// A collector whose results may take so many bytes.
fn collector(max_result_bytes: u64) -> Collector {
    let max_result_bytes = Limit::new(max_result_bytes).unwrap();
    Collector::new(&Limits { max_result_bytes, ..limits() }, vec![], false)
}

fn output(stream: Stream, data: &[u8]) -> FromAgent {
    FromAgent::Output { execution: 1, stream, data: data.to_vec() }
}

fn done(stdout_dropped: u64, files: Vec<FileEntry>) -> FromAgent {
    FromAgent::Done {
        execution: 1,
        completion: Completion::Ok,
        stdout_dropped,
        stderr_dropped: 0,
        usage: Usage::default(),
        account: Account::default(),
        changes: Changes { files, more: false, deleted: vec!["b".into()] },
    }
}

fn value(repr: &str, data: &[u8]) -> FromAgent {
    let mime = vec![MimePart { mime_type: "a/b".into(), data: data.to_vec() }];
    FromAgent::Value {
        execution: 1,
        value: Value { repr: repr.into(), type_name: "T".into(), mime },
    }
}

fn display(kind: DisplayKind, id: Option<&str>, bytes: usize) -> FromAgent {
    let mime = vec![MimePart { mime_type: "text/plain".into(), data: vec![b'x'; bytes] }];
    FromAgent::Display { execution: 1, display: Display { kind, id: id.map(Into::into), mime } }
}

#[test]
fn output_is_kept_apart_and_capped() {
    let mut collector = Collector::new(&limits(), vec![], false);
    let first = collector.fold(output(Stream::Stdout, b"12345"));
    assert_eq!(first, Some(EventKind::Output(Stream::Stdout, "12345".into())));
    collector.fold(output(Stream::Stderr, b"oh"));
    collector.fold(output(Stream::Stdout, b"67890"));
    assert_eq!(collector.fold(output(Stream::Stdout, b"x")), None);
    let Collected { stdout, stderr, .. } = collector.finish();
    assert_eq!((stdout.text.as_str(), stdout.truncated), ("1234567890", true));
    assert_eq!((stderr.text.as_str(), stderr.truncated), ("oh", false));
}

#[test]
fn rest_of_a_stream_becomes_an_event_at_its_end() {
    let mut collector = Collector::new(&limits(), vec![], false);
    assert_eq!(collector.fold(output(Stream::Stderr, b"\xc3")), None);
    assert_eq!(collector.rest(), [EventKind::Output(Stream::Stderr, "\u{fffd}".into())]);
    assert_eq!(collector.rest(), []);
    assert_eq!(collector.finish().stderr.text, "\u{fffd}");
}

#[test]
fn streamed_output_is_kept_shorter() {
    let limits = Limits { max_output_bytes: Limit::Unlimited, ..limits() };
    let mut collector = Collector::new(&limits, vec![], true);
    for _ in 0..5 {
        let text = collector.fold(output(Stream::Stdout, &[b'x'; 100 << 10]));
        assert!(text.is_some());
    }
    let Collected { stdout, .. } = collector.finish();
    assert_eq!((stdout.text.len(), stdout.bytes), (256 << 10, 500 << 10));
    assert!(stdout.truncated && !stdout.over_limit);
}

#[test]
fn output_dropped_by_the_agent_is_reported() {
    let mut collector = Collector::new(&limits(), vec![], false);
    collector.fold(done(1, vec![]));
    let Collected { stdout, stderr, .. } = collector.finish();
    assert!(stdout.truncated && stdout.over_limit && !stderr.truncated);
}

#[test]
fn results_are_capped_and_encoded_by_type() {
    let mut fits = collector(10);
    fits.fold(value("r", b"\xff\0"));
    assert_eq!(fits.finish().result.unwrap().mime.get("a/b").unwrap(), "/wA=");
    let mut over = collector(10);
    assert_eq!(over.fold(value("0123456789", b"")), None);
    let collected = over.finish();
    assert_eq!((collected.result, collected.oversized), (None, true));
}

#[test]
fn a_value_is_kept_once_for_its_event_and_the_outcome() {
    let mut collector = collector(10);
    let Some(EventKind::Value(told)) = collector.fold(value("r", b"")) else { panic!() };
    assert!(Arc::ptr_eq(&told, &collector.finish().result.unwrap()));
}

#[test]
fn displays_values_and_files_share_one_bound() {
    let mut collector = collector(1000);
    assert!(collector.fold(display(DisplayKind::Display, Some("a"), 600)).is_some());
    assert_eq!(collector.fold(display(DisplayKind::Image, None, 600)), None);
    assert_eq!(collector.fold(value(&"x".repeat(600), b"")), None);
    // What it replaces is given back.
    assert!(collector.fold(display(DisplayKind::Clear, None, 0)).is_some());
    assert!(collector.fold(value(&"x".repeat(600), b"")).is_some());
    let collected = collector.finish();
    assert!(collected.displays.is_empty() && collected.result.is_some() && collected.oversized);
}

#[test]
fn an_exception_is_not_lost_to_what_was_shown_before_it() {
    let mut collector = collector(300);
    collector.fold(display(DisplayKind::Display, None, 30));
    let exception =
        Exception { type_name: "E".into(), message: "x".repeat(200), traceback: String::new() };
    let raised = FromAgent::Exception { execution: 1, exception: exception.clone() };
    assert!(collector.fold(raised).is_some());
    assert_eq!(collector.exception(), Some(&exception));
}

#[test]
fn changed_files_are_bounded_too() {
    let entry = |path: &str| FileEntry {
        path: path.to_owned(),
        kind: FileKind::File,
        size_bytes: 3,
        modified_ms: 0,
        mode: 0o644,
    };
    let mut collector = collector(100);
    collector.fold(done(0, vec![entry("a"), entry(&"b".repeat(100)), entry("c")]));
    let collected = collector.finish();
    let expected = ChangedFile { name: "a".into(), size_bytes: 3, deleted: false };
    assert_eq!((collected.files_changed, collected.files_changed_more), (vec![expected], true));
    assert!(!collected.oversized, "they have a word of their own");
}

#[test]
fn what_policies_noted_is_bounded_as_a_result_is() {
    let noted = |max_result_bytes: u64| {
        let FromAgent::Done { changes, .. } = done(0, vec![]) else { unreachable!() };
        let account = Account {
            work: Some(7),
            audit_events: Some(vec![("open".into(), 3)]),
            prints: vec![vec!["x".repeat(1000)], vec![]],
        };
        let mut collector = collector(max_result_bytes).noting(Noted {
            max_work: Some(7),
            audit_events: true,
            prints: true,
        });
        let message = FromAgent::Done {
            execution: 1,
            completion: Completion::Ok,
            stdout_dropped: 0,
            stderr_dropped: 0,
            usage: Usage::default(),
            account,
            changes,
        };
        assert_eq!(collector.fold(message), None);
        collector.finish()
    };
    let whole = noted(10_000);
    assert_eq!((whole.work, whole.oversized), (Some(7), false));
    assert_eq!(whole.audit_events.unwrap()["open"], 3);
    assert_eq!(whole.prints.unwrap().len(), 2);
    let cut = noted(500);
    assert_eq!((cut.work, cut.oversized), (Some(7), true));
    assert_eq!(cut.audit_events.unwrap()["open"], 3);
    assert_eq!(cut.prints.unwrap(), Vec::<Vec<String>>::new(), "left out as a whole");
}
