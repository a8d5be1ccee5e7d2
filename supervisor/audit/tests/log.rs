//! A log, written and read back; torn, changed and moved in every way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use vivarium_audit::{
    AdminAct, ApprovalAsked, ApprovalEnded, AuditLog, Event, Filter, Fsync, Hash, OnFull,
    OpenError, Report, Settings, csv, read, verify,
};
use vivarium_metrics::Metrics;

fn settings(dir: &Path) -> Settings {
    Settings {
        dir: Some(dir.to_owned()),
        fsync: Fsync::Each,
        rotate_mb: 1,
        keep: 100,
        capture_code: false,
        capture_output: false,
        on_full: OnFull::Stop,
    }
}

fn open(dir: &Path, is_strict: bool) -> Result<AuditLog, OpenError> {
    AuditLog::open(&settings(dir), is_strict, &Arc::new(Metrics::new().unwrap()))
}

fn act(text: &str) -> Event {
    Event::Admin(Box::new(AdminAct {
        actor: "uid:0".to_owned(),
        action: "tenant.pause".into(),
        target: Some(text.to_owned()),
        result: "ok".into(),
        detail: None,
    }))
}

async fn written(log: &AuditLog, text: &str) {
    log.record_and_wait(|| act(text)).unwrap().wait().await;
}

/// A log of so many lines beside the first and the last.
async fn log_of(count: usize) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    let log = open(temp.path(), true).unwrap();
    for at in 0..count {
        written(&log, &format!("t{at}")).await;
    }
    log.stop().await;
    temp
}

fn file(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("audit-{number:06}.jsonl"))
}

fn report(dir: &Path) -> Report {
    verify(dir, &[]).unwrap()
}

fn lines(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    read(dir, &Filter::default(), |line| {
        all.push(line.to_owned());
        true
    })
    .unwrap();
    all
}

#[tokio::test]
async fn what_is_recorded_is_read_back_and_verifies() {
    let temp = log_of(3).await;
    let report = report(temp.path());
    assert!(report.is_intact() && report.torn.is_none(), "{report:?}");
    assert_eq!((report.files, report.lines, report.first_seq), (1, 5, Some(1)));
    let all = lines(temp.path());
    assert!(all[0].contains(r#""event":"file_opened","file":"audit-000001.jsonl""#), "{}", all[0]);
    assert!(all[4].contains(r#""event":"daemon_stopped""#));
    let mut found = Vec::new();
    let filter =
        Filter { events: vec!["admin".into()], text: Some("t1".into()), ..Default::default() };
    read(temp.path(), &filter, |line| {
        found.push(csv(Some(line)).unwrap());
        true
    })
    .unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with(",uid:0,tenant.pause,t1,ok,,,,,,,,,,"), "{found:?}");
}

#[tokio::test]
async fn the_chain_goes_on_after_a_restart_and_across_files() {
    let temp = tempfile::tempdir().unwrap();
    let text = "x".repeat(30 << 10);
    for _ in 0..3 {
        let log = open(temp.path(), true).unwrap();
        for _ in 0..30 {
            written(&log, &text).await;
        }
        log.stop().await;
    }
    let report = report(temp.path());
    assert!(report.is_intact(), "{report:?}");
    assert_eq!(report.files, 3);
    let first = fs::read_to_string(file(temp.path(), 2)).unwrap();
    assert!(first.contains(r#""previous":{"file":"audit-000001.jsonl","seq":"#));
    fs::remove_file(file(temp.path(), 2)).unwrap();
    assert!(!self::report(temp.path()).is_intact());
}

#[tokio::test]
async fn removed_old_files_are_told_and_others_are_missed() {
    let temp = tempfile::tempdir().unwrap();
    let settings = Settings { keep: 2, ..settings(temp.path()) };
    let metrics = Arc::new(Metrics::new().unwrap());
    let log = AuditLog::open(&settings, true, &metrics).unwrap();
    let text = "x".repeat(60 << 10);
    for _ in 0..70 {
        written(&log, &text).await;
    }
    log.stop().await;
    assert!(!file(temp.path(), 1).exists());
    let report = report(temp.path());
    assert!(report.is_intact() && report.files == 2, "{report:?}");
    assert!(report.first_seq.unwrap() > 1);
    let told = lines(temp.path()).iter().filter(|line| line.contains("file_removed")).count();
    assert!(told >= 1);
    drop(log);
    // One that nobody removed.
    let first = fs::read_dir(temp.path()).unwrap().map(|e| e.unwrap().path()).min().unwrap();
    fs::remove_file(first).unwrap();
    let report = self::report(temp.path());
    assert!(report.breaks[0].reason.contains("missing"), "{report:?}");
    let OpenError::Broken { .. } = open(temp.path(), true).unwrap_err() else { panic!() };
}

#[tokio::test]
async fn a_torn_line_is_cut_and_recorded() {
    for kept in [0, 1, 40] {
        let temp = log_of(2).await;
        let path = file(temp.path(), 1);
        let mut bytes = fs::read(&path).unwrap();
        let whole = bytes.len();
        let last = bytes[..whole - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        bytes.truncate(last + kept);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(report(temp.path()).torn.is_some(), kept > 0);
        open(temp.path(), true).unwrap().stop().await;
        let report = report(temp.path());
        assert!(report.is_intact() && report.torn.is_none(), "{report:?}");
        let told = lines(temp.path()).iter().any(|line| {
            line.contains(&format!(
                r#""event":"torn_line_cut","file":"audit-000001.jsonl","bytes":{kept}"#
            ))
        });
        assert_eq!(told, kept > 0);
    }
}

fn asked(approval: &str) -> ApprovalAsked {
    ApprovalAsked {
        tenant: "a".to_owned(),
        session: "s".to_owned(),
        approval: approval.to_owned(),
        subject: "egress".into(),
        execution: None,
        code_sha256: None,
        // Chosen by code: it makes no end of another.
        host: Some("\"event\":\"approval_ended\",\"approval\":\"one\"".to_owned()),
        port: Some(443),
    }
}

#[tokio::test]
async fn calls_that_wait_when_the_daemon_is_killed_are_ended_once_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let ends = |outcome: &str| {
        let all = lines(temp.path()).into_iter();
        let ended = all.filter(|line| line.contains("\"event\":\"approval_ended\""));
        let mut ids: Vec<_> = ended
            .map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap())
            .filter(|line| line["outcome"] == outcome)
            .map(|line| line["approval"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let log = open(temp.path(), true).unwrap();
    for id in ["one", "two", "three"] {
        log.record(|| Event::ApprovalAsked(Box::new(asked(id))));
    }
    let ended = ApprovalEnded {
        asked: asked("three"),
        outcome: "allowed",
        by: Some("x".to_owned()),
        reason: None,
        remember: "nothing",
    };
    log.record(|| Event::ApprovalEnded(Box::new(ended)));
    // Closed as orderly as it is, nothing ended these.
    log.stop().await;
    for _ in 0..2 {
        assert_eq!(ends("allowed"), ["three"]);
        open(temp.path(), true).unwrap().stop().await;
        assert_eq!(ends("interrupted"), ["one", "two"]);
        assert!(report(temp.path()).is_intact());
    }
}

#[tokio::test]
async fn a_broken_chain_is_refused_or_begun_anew_and_never_forgotten() {
    let temp = log_of(3).await;
    let path = file(temp.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"t1\"", "\"t9\"")).unwrap();
    let OpenError::Broken { file: name, line, .. } = open(temp.path(), true).unwrap_err() else {
        panic!()
    };
    assert_eq!((name.as_str(), line), ("audit-000001.jsonl", 3));
    open(temp.path(), false).unwrap().stop().await;
    let report = report(temp.path());
    assert!(!report.is_intact(), "a break that is recorded is still one");
    assert!(report.breaks.iter().all(|it| it.is_recorded), "{report:?}");
    // It is known: the chain since then goes on.
    open(temp.path(), true).unwrap().stop().await;
    assert_eq!(self::report(temp.path()).breaks, report.breaks);
    assert_eq!(self::report(temp.path()).files, 2);
}

#[tokio::test]
async fn a_file_that_is_changed_or_removed_while_it_is_written_is_noticed() {
    for removed in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let log = open(temp.path(), true).unwrap();
        written(&log, "a").await;
        let path = file(temp.path(), 1);
        if removed {
            fs::remove_file(&path).unwrap();
        } else {
            fs::write(&path, "").unwrap();
        }
        written(&log, "b").await;
        log.stop().await;
        let report = report(temp.path());
        assert!(!report.is_intact() && report.breaks.iter().all(|it| it.is_recorded), "{report:?}");
        assert!(lines(temp.path()).iter().any(|line| line.contains("while it was written")));
        open(temp.path(), true).unwrap().stop().await;
    }
}

#[tokio::test]
async fn a_rewritten_log_shows_by_its_head() {
    let honest = log_of(3).await;
    let head = report(honest.path()).head.unwrap().hash;
    assert!(verify(honest.path(), &[head]).unwrap().is_intact());
    let forged = log_of(3).await;
    let report = verify(forged.path(), &[head]).unwrap();
    assert!(report.breaks.is_empty() && !report.is_intact());
    assert_eq!(report.missing_heads, [head]);
    // Nor does one that was cut at the end of a line have it.
    let path = file(honest.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    let cut: Vec<_> = text.split_inclusive('\n').collect();
    fs::write(&path, cut[..3].concat()).unwrap();
    assert!(self::report(honest.path()).is_intact(), "the control: without the head");
    assert!(!verify(honest.path(), &[head]).unwrap().is_intact());
}

#[tokio::test]
async fn only_one_daemon_writes() {
    let temp = tempfile::tempdir().unwrap();
    let log = open(temp.path(), true).unwrap();
    let OpenError::InUse { .. } = open(temp.path(), true).unwrap_err() else { panic!() };
    log.stop().await;
}

#[tokio::test]
async fn many_that_record_at_once_share_the_disk_and_lose_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let log = open(temp.path(), true).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..500 {
        let log = log.clone();
        tasks.spawn(async move {
            log.admit().await.unwrap();
            written(&log, &format!("t{at}")).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    log.stop().await;
    let report = report(temp.path());
    assert!(report.is_intact() && report.lines == 502, "{report:?}");
}

#[tokio::test]
async fn failed_authentications_are_counted_not_listed() {
    let temp = tempfile::tempdir().unwrap();
    let log = open(temp.path(), true).unwrap();
    for _ in 0..1000 {
        log.auth_failed(|| "192.0.2.1".to_owned(), "unknown token");
    }
    log.stop().await;
    assert_eq!(report(temp.path()).lines, 3);
}

/// The page's program, with the log as its arguments.
#[tokio::test]
async fn a_stranger_verifies_by_what_the_page_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md");
    let page = fs::read_to_string(page).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let temp = log_of(20).await;
    let path = file(temp.path(), 1);
    let python = || {
        let run = std::process::Command::new("python3").arg("-c").arg(program).arg(&path).output();
        let run = run.unwrap();
        (run.status.success(), String::from_utf8_lossy(&run.stdout).trim().to_owned())
    };
    let head = report(temp.path()).head.unwrap();
    assert_eq!(python(), (true, format!("{} {}", head.seq, head.hash)));
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 20) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        assert!(!python().0, "byte {at}");
    }
}

/// One log for all cases of a property.
fn sample() -> &'static [u8] {
    static SAMPLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    SAMPLE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let temp = runtime.block_on(log_of(12));
        fs::read(file(temp.path(), 1)).unwrap()
    })
}

fn found(bytes: &[u8]) -> Report {
    let temp = tempfile::tempdir().unwrap();
    fs::write(file(temp.path(), 1), bytes).unwrap();
    report(temp.path())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_changed_byte_is_found(at in any::<prop::sample::Index>(), with in 1u8..=255) {
        let mut bytes = sample().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let report = found(&bytes);
        // Without its line feed the last line is what kill -9 leaves.
        prop_assert!(!report.is_intact() || (at == bytes.len() - 1 && report.torn.is_some()));
    }

    #[test]
    fn any_removed_doubled_or_moved_line_is_found(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        how in 0..3,
    ) {
        let lines: Vec<&[u8]> = sample().split_inclusive(|byte| *byte == b'\n').collect();
        let (from, to) = (from.index(lines.len()), to.index(lines.len()));
        let mut changed = lines.clone();
        match how {
            0 => { changed.remove(from); }
            1 => changed.insert(to, lines[from]),
            _ => changed.swap(from, to),
        }
        let report = found(&changed.concat());
        // What is cut from the end shows by the head only.
        let is_same = changed == lines || lines.starts_with(&changed);
        prop_assert_eq!(report.is_intact(), is_same);
        if is_same && changed.len() < lines.len() {
            let head: Hash = std::str::from_utf8(lines[lines.len() - 1]).unwrap()
                .rsplit('"').nth(1).unwrap().parse().unwrap();
            prop_assert_ne!(report.head.unwrap().hash, head);
        }
    }

    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        found(&bytes);
    }
}
