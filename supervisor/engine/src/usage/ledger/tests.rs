use super::*;
use crate::usage::Sources;

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn executions(count: u64) -> Figures {
    Figures { executions: count, ..Figures::default() }
}

fn range(from: &str, to: &str, period: UsagePeriod) -> UsageRange {
    UsageRange { from: at(from), to: at(to), period, tenant: None }
}

fn counts(ledger: &Ledger, range: &UsageRange) -> Vec<(String, String, u64)> {
    let rows = ledger.query(range).unwrap().into_iter();
    rows.map(|row| (row.start.to_string(), row.tenant, row.executions)).collect()
}

#[test]
fn usage_is_told_by_period_whether_written_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::new(dir.path().to_owned());
    ledger.book(at("2026-01-31T22:59:59Z"), "a", &executions(1));
    ledger.book(at("2026-01-31T23:00:00Z"), "a", &executions(2));
    ledger.flush().unwrap();
    ledger.book(at("2026-01-31T23:10:00Z"), "a", &executions(4));
    ledger.book(at("2026-02-01T00:00:00Z"), "b", &executions(8));
    let all =
        |period| counts(&ledger, &range("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", period));
    let row = |start: &str, tenant: &str, count| (start.to_owned(), tenant.to_owned(), count);
    assert_eq!(
        all(UsagePeriod::Hour),
        [
            row("2026-01-31T22:00:00Z", "a", 1),
            row("2026-01-31T23:00:00Z", "a", 6),
            row("2026-02-01T00:00:00Z", "b", 8)
        ]
    );
    assert_eq!(
        all(UsagePeriod::Day),
        [row("2026-01-31T00:00:00Z", "a", 7), row("2026-02-01T00:00:00Z", "b", 8)]
    );
    assert_eq!(
        all(UsagePeriod::Month),
        [row("2026-01-01T00:00:00Z", "a", 7), row("2026-02-01T00:00:00Z", "b", 8)]
    );
    assert_eq!(
        all(UsagePeriod::Total),
        [row("2026-01-01T00:00:00Z", "a", 7), row("2026-01-01T00:00:00Z", "b", 8)]
    );
    let hour = range("2026-01-31T23:00:00Z", "2026-02-01T00:00:00Z", UsagePeriod::Hour);
    assert_eq!(counts(&ledger, &hour), [row("2026-01-31T23:00:00Z", "a", 6)]);
    let of_b = UsageRange { tenant: Some("b".to_owned()), ..hour };
    assert!(counts(&ledger, &of_b).is_empty());
}

#[test]
fn what_could_not_be_written_is_written_later_and_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let usage = dir.path().join("usage");
    let mut ledger = Ledger::new(usage.clone());
    let now = at("2026-01-31T23:00:00Z");
    ledger.book(now, "a", &executions(1));
    ledger.flush().unwrap_err();
    fs::create_dir(&usage).unwrap();
    ledger.book(now, "a", &executions(2));
    ledger.flush().unwrap();
    ledger.flush().unwrap();
    let day = range("2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z", UsagePeriod::Day);
    for ledger in [ledger, Ledger::new(usage)] {
        assert_eq!(counts(&ledger, &day)[0].2, 3);
    }
}

#[test]
fn torn_and_old_files_go_and_damaged_ones_are_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    put(".unfinished-2026-01-31.json", "{\"vers");
    put("2025-01-01.json", "{\"version\":1,\"hours\":{}}");
    put("2026-01-30.json", "{\"version\":1,\"hours\":{\"1\":{\"a\":{\"executions\":5}}}}");
    put("2026-01-31.json", "{\"version\":1,\"hours\":{\"1\"");
    put("2026-01-29.json", "{\"version\":2,\"hours\":{}}");
    put("notes.txt", "not ours");
    let ledger = Ledger::new(dir.path().to_owned());
    let keep = Duration::from_hours(24 * 90);
    let aside = ledger.tidy(at("2026-01-31T12:00:00Z"), keep).unwrap();
    assert_eq!(aside.len(), 2, "{aside:?}");
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names[0], "2026-01-29.json.damaged-1769860800000");
    assert_eq!(names[1], "2026-01-30.json");
    assert_eq!(names[2], "2026-01-31.json.damaged-1769860800000");
    assert_eq!(names[3..], ["notes.txt"]);
    let month = range("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", UsagePeriod::Total);
    assert_eq!(counts(&ledger, &month)[0].2, 5);
}

#[test]
fn figures_survive_the_file_and_say_where_they_are_from() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::new(dir.path().to_owned());
    let figures = Figures {
        cpu_us: 1_500_000,
        memory_byte_ms: u64::MAX,
        executions: 1,
        sessions: 2,
        egress_bytes: 3,
        cpu_from: Sources::CGROUP,
        memory_from: Sources::EXECUTIONS,
    };
    ledger.book(at("2026-01-31T12:00:00Z"), "a", &figures);
    ledger.flush().unwrap();
    let more = Figures { cpu_us: 1, cpu_from: Sources::EXECUTIONS, ..Figures::default() };
    ledger.book(at("2026-01-31T12:00:00Z"), "a", &more);
    let day = range("2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z", UsagePeriod::Day);
    let rows = Ledger { unwritten: ledger.unwritten, dir: ledger.dir }.query(&day).unwrap();
    let row = &rows[0];
    assert!((row.cpu_seconds - 1.500_001).abs() < 1e-9);
    assert_eq!(row.memory_byte_seconds, u64::MAX / 1000);
    assert_eq!((row.executions, row.sessions, row.egress_bytes), (1, 2, 3));
    assert_eq!(row.cpu_source, Some(vivarium_api_types::UsageSource::Mixed));
    assert_eq!(row.memory_source, Some(vivarium_api_types::UsageSource::Executions));
}
