//! Admission on hosts whose memory the test tells.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const MIB: u64 = 1 << 20;

/// What a session is expected to take at first.
const ESTIMATE: u64 = 32 * MIB;

const TERMS: Terms = Terms { reserve_bytes: 160 * MIB, max_pressure_percent: 40 };

/// A host that has so much more than the reserve.
fn left(bytes: u64) -> Reading {
    let available_bytes = TERMS.reserve_bytes + bytes;
    let stock = Stock { available_bytes, total_bytes: 64 * 1024 * MIB };
    Reading { memory: Some(stock), pressure_percent: Some(0.0) }
}

/// One whose processes wait so much, for there is little.
fn pressed(percent: f64) -> Reading {
    Reading { pressure_percent: Some(percent), ..left(1024 * MIB) }
}

fn refused(memory: &Memory) -> Shortage {
    memory.admit("e", TERMS).unwrap_err()
}

#[test]
fn the_last_that_fits_is_admitted_and_the_next_is_not() {
    let memory = Memory::fixed(left(2 * ESTIMATE));
    let first = memory.admit("e", TERMS).unwrap();
    let second = memory.admit("e", TERMS).unwrap();
    let shortage = refused(&memory);
    assert_eq!(shortage.available_bytes, Some(2 * ESTIMATE));
    assert_eq!(shortage.needed_bytes, 3 * ESTIMATE);
    assert!(!shortage.is_pressure);
    let text = shortage.to_string();
    assert!(text.contains("96 MiB") && text.contains("available 64 MiB"), "{text}");
    drop((first, second));
    assert!(Memory::fixed(left(ESTIMATE)).admit("e", TERMS).is_ok());
    assert!(Memory::fixed(left(ESTIMATE - 1)).admit("e", TERMS).is_err());
}

#[test]
fn a_burst_between_two_readings_is_bounded_by_what_is_promised() {
    let memory = Memory::fixed(left(10 * ESTIMATE));
    // Each starts at once, and still no reading shows what it has taken.
    let admitted = (0..1000).filter(|_| memory.admit("e", TERMS).is_ok()).count();
    assert_eq!(admitted, 10);
    // It was taken.
    memory.note(left(0));
    assert!(memory.admit("e", TERMS).is_err());
    // Or it was given back meanwhile.
    memory.note(left(10 * ESTIMATE));
    let held: Vec<_> = (0..1000).filter_map(|_| memory.admit("e", TERMS).ok()).collect();
    // The last of them were refused once, and so have to leave a little more.
    assert!((9..=10).contains(&held.len()), "{}", held.len());
    memory.note(left(10 * ESTIMATE));
    assert!(memory.admit("e", TERMS).is_err(), "those that start are in no reading");
}

#[test]
fn what_settles_while_a_reading_is_made_is_not_taken_to_be_in_it() {
    let memory = Memory::fixed(left(2 * ESTIMATE));
    let early = memory.admit("e", TERMS).unwrap();
    let late = memory.admit("e", TERMS).unwrap();
    drop(early);
    memory.shared.note(|| {
        drop(late);
        left(ESTIMATE)
    });
    assert_eq!(refused(&memory).needed_bytes, 2 * ESTIMATE);
}

#[test]
fn what_sessions_were_found_to_have_is_what_the_next_needs() {
    let memory = Memory::fixed(left(64 * MIB));
    for _ in 0..100 {
        memory.learn("e", 4 * MIB);
    }
    let held: Vec<_> = (0..1000).filter_map(|_| memory.admit("e", TERMS).ok()).collect();
    assert_eq!(held.len(), 16);
    drop(held);
    memory.note(left(64 * MIB));
    let other = memory.outlook("other", TERMS);
    assert_eq!((other.estimate_bytes, other.refuses), (ESTIMATE, false), "another environment");
    for _ in 0..100 {
        memory.learn("e", 100 * MIB);
    }
    assert_eq!(refused(&memory).needed_bytes, 100 * MIB);
}

#[test]
fn who_was_refused_is_admitted_again_only_when_there_is_more_than_just_enough() {
    let memory = Memory::fixed(left(ESTIMATE - 1));
    refused(&memory);
    memory.note(left(ESTIMATE));
    refused(&memory);
    let spare = TERMS.reserve_bytes / 8;
    memory.note(left(ESTIMATE + spare - 1));
    refused(&memory);
    memory.note(left(ESTIMATE + spare));
    drop(memory.admit("e", TERMS).unwrap());
    memory.note(left(ESTIMATE));
    drop(memory.admit("e", TERMS).unwrap());
}

#[test]
fn pressure_refuses_above_its_bound_and_until_a_quarter_less() {
    let memory = Memory::fixed(pressed(40.0));
    drop(memory.admit("e", TERMS).unwrap());
    memory.note(pressed(40.1));
    let shortage = refused(&memory);
    assert!(shortage.is_pressure && shortage.pressure_percent == Some(40.1));
    assert!(shortage.retry_after() > Duration::from_secs(2));
    memory.note(pressed(31.0));
    refused(&memory);
    memory.note(pressed(30.0));
    drop(memory.admit("e", TERMS).unwrap());
    memory.note(pressed(40.0));
    drop(memory.admit("e", TERMS).unwrap());
}

#[test]
fn a_bound_of_a_hundred_is_none() {
    let terms = Terms { max_pressure_percent: 100, ..TERMS };
    let memory = Memory::fixed(pressed(100.0));
    drop(memory.admit("e", terms).unwrap());
    // Nor after a refusal for another reason.
    memory.note(Reading { pressure_percent: Some(100.0), ..left(0) });
    memory.admit("e", terms).unwrap_err();
    memory.note(pressed(100.0));
    drop(memory.admit("e", terms).unwrap());
}

#[test]
fn a_tenant_that_stalls_in_its_own_limit_shuts_nobody_out() {
    let stock = Stock { available_bytes: 1024 * MIB, total_bytes: 2048 * MIB };
    let memory = Memory::fixed(Reading { memory: Some(stock), pressure_percent: Some(99.0) });
    drop(memory.admit("e", TERMS).unwrap());
    assert_eq!(memory.advise("e", TERMS), Advice::Hold);
}

#[test]
fn where_nothing_tells_nobody_is_refused() {
    let memory = Memory::fixed(Reading::default());
    let terms = Terms { reserve_bytes: u64::MAX, ..TERMS };
    assert!((0..1000).all(|_| memory.admit("e", terms).is_ok()));
    assert_eq!(memory.outlook("e", terms).available_bytes, None);
}

#[test]
fn pools_give_up_before_anybody_is_refused() {
    let memory = Memory::fixed(left(0));
    let line = ESTIMATE + TERMS.reserve_bytes;
    for (bytes, advice, refuses) in [
        (ESTIMATE - 1, Advice::Shrink, true),
        (ESTIMATE + TERMS.reserve_bytes / 8, Advice::Shrink, false),
        (line - 1, Advice::Shrink, false),
        (line, Advice::Hold, false),
        (line + TERMS.reserve_bytes / 4 - 1, Advice::Hold, false),
        (line + TERMS.reserve_bytes / 4, Advice::Fill, false),
    ] {
        memory.note(left(bytes));
        assert_eq!(memory.advise("e", TERMS), advice, "{bytes}");
        assert_eq!(memory.outlook("e", TERMS).refuses, refuses, "{bytes}");
    }
    memory.note(pressed(41.0));
    assert_eq!(memory.advise("e", TERMS), Advice::Shrink);
    // What others were promised is gone too.
    memory.note(left(line + TERMS.reserve_bytes / 4));
    let _promise = memory.promise("other");
    assert_eq!(memory.advise("e", TERMS), Advice::Hold);
}

#[tokio::test]
async fn it_reads_again_when_somebody_asks() {
    let missing = crate::cgroup::Missing { why: "a test".into(), fix: String::new() };
    let sources = Sources::of_this_host(&crate::cgroup::Support::Unavailable(missing));
    let memory = Memory::watch(sources);
    let mut readings = memory.readings();
    drop(memory.admit("e", Terms { reserve_bytes: 0, max_pressure_percent: 100 }));
    readings.changed().await.unwrap();
}
