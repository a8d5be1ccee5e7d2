//! Every test but one has a clock of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{advance, pause};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn bucket(count: u64, per: Duration) -> Arc<Bucket> {
    let bucket = Bucket::default();
    bucket.set(Some(Rate { count, per }));
    Arc::new(bucket)
}

#[tokio::test]
async fn what_is_taken_comes_back_evenly_and_no_more() {
    pause();
    let bucket = bucket(3, SECOND);
    for _ in 0..3 {
        bucket.take(1).unwrap();
    }
    // A third of a second, which is no whole number of nanoseconds.
    assert_eq!(bucket.take(1), Err(Wait(Duration::from_nanos(333_333_334))));
    advance(Duration::from_nanos(333_333_333)).await;
    assert_eq!(bucket.take(1), Err(Wait(Duration::from_nanos(1))));
    advance(Duration::from_nanos(1)).await;
    bucket.take(1).unwrap();
    assert!(bucket.take(1).is_err());
    advance(Duration::from_hours(1)).await;
    assert!(bucket.take(4).is_err(), "more than there are at once");
    bucket.take(3).unwrap();
    assert!(bucket.take(1).is_err());
}

#[tokio::test]
async fn no_rounding_adds_up() {
    pause();
    let bucket = bucket(7, SECOND);
    bucket.take(7).unwrap();
    let mut taken = 0;
    for _ in 0..10_000 {
        advance(Duration::from_nanos(999_983)).await;
        while bucket.take(1).is_ok() {
            taken += 1;
        }
    }
    // 9.99983 s of seven in a second are 69.99881.
    assert_eq!(taken, 69);
    advance(Duration::from_nanos(170_000)).await;
    assert!(bucket.take(1).is_ok(), "the seventieth");
    assert!(bucket.take(1).is_err());
}

#[tokio::test]
async fn a_rate_of_bytes_is_taken_in_parts() {
    pause();
    let bucket = bucket(1000, SECOND);
    assert_eq!(bucket.take_some(300), Ok(300));
    assert_eq!(bucket.take_some(5000), Ok(700));
    assert_eq!(bucket.take_some(5000), Err(Wait(Duration::from_millis(1))));
    advance(Duration::from_millis(10)).await;
    for _ in 0..3 {
        assert_eq!(bucket.wait_for(10), Wait(Duration::ZERO));
        assert_eq!(bucket.wait_for(2010), Wait(SECOND * 2), "more than there are at once");
    }
    assert_eq!(bucket.take_some(5000), Ok(10));
    assert_eq!(bucket.wait_for(1), Wait(Duration::from_millis(1)));
    let free = Bucket::default();
    assert_eq!(free.take_some(u64::MAX), Ok(u64::MAX));
    assert_eq!(free.take(u64::MAX), Ok(()));
}

#[tokio::test]
async fn a_grant_that_is_not_used_goes_back() {
    pause();
    let bucket = bucket(1, SECOND);
    drop(bucket.reserve().unwrap());
    bucket.reserve().unwrap().used();
    assert!(bucket.reserve().is_err());
}

#[tokio::test]
async fn another_rate_keeps_what_was_taken() {
    pause();
    let bucket = bucket(10, SECOND);
    bucket.take(4).unwrap();
    bucket.set(Some(Rate { count: 6, per: SECOND * 60 }));
    bucket.take(2).unwrap();
    assert_eq!(bucket.take(1), Err(Wait(SECOND * 10)));
    bucket.set(Some(Rate { count: 2, per: SECOND }));
    assert_eq!(bucket.take(1), Err(Wait(SECOND / 2)), "never more than the new one has");
    bucket.set(None);
    bucket.take(1_000_000).unwrap();
}

#[test]
fn a_thousand_at_once_get_what_there_is() {
    let bucket = bucket(100, Duration::from_hours(24));
    let (barrier, taken) = (std::sync::Barrier::new(50), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                barrier.wait();
                for number in 0..20 {
                    match bucket.reserve() {
                        Ok(grant) if number % 2 == 0 => {
                            taken.fetch_add(1, Ordering::Relaxed);
                            grant.used();
                        }
                        // The others see what comes back.
                        _ => std::thread::yield_now(),
                    }
                }
            });
        }
    });
    let mut taken = taken.into_inner();
    while bucket.take(1).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 100);
}
