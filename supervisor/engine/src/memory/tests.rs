//! Admission on hosts whose memory the test tells.

use super::*;

const MIB: u64 = 1 << 20;

/// What a session is expected to take at first.
const ESTIMATE: u64 = 32 * MIB;

const POLICY: MemoryPolicy = MemoryPolicy { reserve_bytes: 160 * MIB, max_pressure_percent: 40 };

/// A host that has so much more than the reserve.
fn left(bytes: u64) -> MemoryReading {
    let available_bytes = POLICY.reserve_bytes + bytes;
    let available = Available { available_bytes, total_bytes: 64 * 1024 * MIB };
    MemoryReading { memory: Some(available), pressure_percent: Some(0.0) }
}

/// One whose processes wait so much, for there is little.
fn pressed(percent: f64) -> MemoryReading {
    MemoryReading { pressure_percent: Some(percent), ..left(1024 * MIB) }
}

fn refused(memory: &Memory) -> Shortage {
    memory.admit("e", POLICY).unwrap_err()
}

#[test]
fn the_last_that_fits_is_admitted_and_the_next_is_not() {
    let memory = Memory::fixed(left(2 * ESTIMATE));
    let first = memory.admit("e", POLICY).unwrap();
    let second = memory.admit("e", POLICY).unwrap();
    let shortage = refused(&memory);
    assert_eq!(shortage.available_bytes, Some(2 * ESTIMATE));
    assert_eq!(shortage.needed_bytes, 3 * ESTIMATE);
    assert!(!shortage.is_pressure);
    let text = shortage.to_string();
    assert!(text.contains("96 MiB") && text.contains("available 64 MiB"), "{text}");
    drop((first, second));
    assert!(Memory::fixed(left(ESTIMATE)).admit("e", POLICY).is_ok());
    assert!(Memory::fixed(left(ESTIMATE - 1)).admit("e", POLICY).is_err());
}

#[test]
fn a_burst_between_two_readings_is_bounded_by_what_is_promised() {
    let memory = Memory::fixed(left(10 * ESTIMATE));
    // Each starts at once, and still no reading shows what it has taken.
    let admitted = (0..1000).filter(|_| memory.admit("e", POLICY).is_ok()).count();
    assert_eq!(admitted, 10);
    // It was taken.
    memory.note(left(0));
    assert!(memory.admit("e", POLICY).is_err());
    // Or it was given back meanwhile.
    memory.note(left(10 * ESTIMATE));
    let held: Vec<_> = (0..1000).filter_map(|_| memory.admit("e", POLICY).ok()).collect();
    // The last of them were refused once, and so have to leave a little more.
    assert!((9..=10).contains(&held.len()), "{}", held.len());
    memory.note(left(10 * ESTIMATE));
    assert!(memory.admit("e", POLICY).is_err(), "those that start are in no reading");
}

#[test]
fn session_settled_during_a_reading_stays_reserved() {
    let memory = Memory::fixed(left(2 * ESTIMATE));
    let early = memory.admit("e", POLICY).unwrap();
    let late = memory.admit("e", POLICY).unwrap();
    drop(early);
    memory.shared.note(|| {
        drop(late);
        left(ESTIMATE)
    });
    assert_eq!(refused(&memory).needed_bytes, 2 * ESTIMATE);
}

#[test]
fn measured_sessions_set_the_next_reservation() {
    let memory = Memory::fixed(left(64 * MIB));
    for _ in 0..100 {
        memory.record_usage("e", 4 * MIB);
    }
    let held: Vec<_> = (0..1000).filter_map(|_| memory.admit("e", POLICY).ok()).collect();
    assert_eq!(held.len(), 16);
    drop(held);
    memory.note(left(64 * MIB));
    let other = memory.status("other", POLICY);
    assert_eq!((other.estimate_bytes, other.refuses), (ESTIMATE, false), "another environment");
    for _ in 0..100 {
        memory.record_usage("e", 100 * MIB);
    }
    assert_eq!(refused(&memory).needed_bytes, 100 * MIB);
}

#[test]
fn who_was_refused_is_admitted_again_only_when_there_is_more_than_just_enough() {
    let memory = Memory::fixed(left(ESTIMATE - 1));
    refused(&memory);
    memory.note(left(ESTIMATE));
    refused(&memory);
    let spare = POLICY.reserve_bytes / 8;
    memory.note(left(ESTIMATE + spare - 1));
    refused(&memory);
    memory.note(left(ESTIMATE + spare));
    drop(memory.admit("e", POLICY).unwrap());
    memory.note(left(ESTIMATE));
    drop(memory.admit("e", POLICY).unwrap());
}

#[test]
fn pressure_refuses_above_its_bound_and_until_a_quarter_less() {
    let memory = Memory::fixed(pressed(40.0));
    drop(memory.admit("e", POLICY).unwrap());
    memory.note(pressed(40.1));
    let shortage = refused(&memory);
    assert!(shortage.is_pressure && shortage.pressure_percent == Some(40.1));
    assert!(shortage.retry_after() > Duration::from_secs(2));
    memory.note(pressed(31.0));
    refused(&memory);
    memory.note(pressed(30.0));
    drop(memory.admit("e", POLICY).unwrap());
    memory.note(pressed(40.0));
    drop(memory.admit("e", POLICY).unwrap());
}

#[test]
fn pressure_bound_of_100_percent_disables_it() {
    let policy = MemoryPolicy { max_pressure_percent: 100, ..POLICY };
    let memory = Memory::fixed(pressed(100.0));
    drop(memory.admit("e", policy).unwrap());
    // Nor after a refusal for another reason.
    memory.note(MemoryReading { pressure_percent: Some(100.0), ..left(0) });
    memory.admit("e", policy).unwrap_err();
    memory.note(pressed(100.0));
    drop(memory.admit("e", policy).unwrap());
}

#[test]
fn a_tenant_that_stalls_in_its_own_limit_shuts_nobody_out() {
    let available = Available { available_bytes: 1024 * MIB, total_bytes: 2048 * MIB };
    let memory =
        Memory::fixed(MemoryReading { memory: Some(available), pressure_percent: Some(99.0) });
    drop(memory.admit("e", POLICY).unwrap());
    assert_eq!(memory.pool_action("e", POLICY), PoolAction::Hold);
}

#[test]
fn where_nothing_tells_nobody_is_refused() {
    let memory = Memory::fixed(MemoryReading::default());
    let policy = MemoryPolicy { reserve_bytes: u64::MAX, ..POLICY };
    assert!((0..1000).all(|_| memory.admit("e", policy).is_ok()));
    assert_eq!(memory.status("e", policy).available_bytes, None);
}

#[test]
fn pools_give_up_before_anybody_is_refused() {
    let memory = Memory::fixed(left(0));
    let line = ESTIMATE + POLICY.reserve_bytes;
    for (bytes, action, refuses) in [
        (ESTIMATE - 1, PoolAction::Shrink, true),
        (ESTIMATE + POLICY.reserve_bytes / 8, PoolAction::Shrink, false),
        (line - 1, PoolAction::Shrink, false),
        (line, PoolAction::Hold, false),
        (line + POLICY.reserve_bytes / 4 - 1, PoolAction::Hold, false),
        (line + POLICY.reserve_bytes / 4, PoolAction::Fill, false),
    ] {
        memory.note(left(bytes));
        assert_eq!(memory.pool_action("e", POLICY), action, "{bytes}");
        assert_eq!(memory.status("e", POLICY).refuses, refuses, "{bytes}");
    }
    memory.note(pressed(41.0));
    assert_eq!(memory.pool_action("e", POLICY), PoolAction::Shrink);
    // What others were promised is gone too.
    memory.note(left(line + POLICY.reserve_bytes / 4));
    let _reservation = memory.reserve("other");
    assert_eq!(memory.pool_action("e", POLICY), PoolAction::Hold);
}

#[tokio::test]
async fn stale_reading_is_refreshed_on_demand() {
    let missing = crate::cgroup::Missing { why: "a test".into(), fix: String::new() };
    let sources = Sources::of_this_host(&crate::cgroup::Support::Unavailable(missing));
    let memory = Memory::watch(sources);
    let mut readings = memory.readings();
    drop(memory.admit("e", MemoryPolicy { reserve_bytes: 0, max_pressure_percent: 100 }));
    readings.changed().await.unwrap();
}
