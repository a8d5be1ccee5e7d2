//! What becomes of pools when memory is short.

use super::*;

const RESERVE_BYTES: u64 = 100 << 20;

/// A host that has so many times the reserve.
fn has(reserves: u64) -> MemoryReading {
    let available_bytes = RESERVE_BYTES * reserves;
    let memory = Some(Left { available_bytes, total_bytes: 1 << 40 });
    MemoryReading { memory, pressure_percent: None }
}

/// One whose processes wait so much.
fn waits(percent: f64) -> MemoryReading {
    MemoryReading { memory: None, pressure_percent: Some(percent) }
}

#[tokio::test]
async fn pool_starts_nothing_while_memory_is_short() {
    let mut memory = bounds().memory;
    memory.max_pressure_percent = 10;
    let mut bench = Bench::with(Bounds { memory, ..bounds() });
    for (short, enough) in [(waits(11.0), waits(9.0)), (has(1), has(10)), (has(2), has(10))] {
        bench.memory.note(short);
        bench.pools.ensure("t", "e", || Some(bench.spec(1, 1)));
        while !bench.pools.is_paused() {
            tokio::task::yield_now().await;
        }
        bench.rests().await;
        bench.memory.note(enough);
        let _agent = bench.start_one().await;
        bench.until_ready(1).await;
        assert!(!bench.pools.is_paused());
        let taken = bench.checkout().unwrap();
        let _agent = bench.start_one().await;
        bench.until_ready(1).await;
        taken.discard().await;
        bench.pools.arrange(Bounds { memory, ..bounds() }, &BTreeSet::new(), |_| None);
        bench.until_ready(0).await;
    }
}

#[tokio::test]
async fn memory_shortage_ends_some_pooled_sessions_per_reading() {
    let mut bench = Bench::new();
    let mut agents = bench.filled(10, 10).await;
    bench.memory.note(has(1));
    bench.until_ready(6).await;
    bench.rests().await;
    assert_eq!(bench.pools.ready("t", "e"), 6, "one reading, some sessions");
    // Not short, and not enough to begin anew either: 200 MiB and one session.
    bench.memory.note(MemoryReading {
        memory: Some(Left {
            available_bytes: (2 * RESERVE_BYTES) + (40 << 20),
            total_bytes: 1 << 40,
        }),
        pressure_percent: None,
    });
    bench.rests().await;
    assert_eq!(bench.pools.ready("t", "e"), 6);
    assert!(bench.pools.is_paused());
    for left in [2, 0] {
        bench.memory.note(has(1));
        bench.until_ready(left).await;
    }
    bench.until_killed(10).await;
    // The oldest went first.
    assert_eq!(agents.remove(0).recv().await, None);
    bench.shows(r#"vivarium_pool_given_up_total{environment="e"} 10"#);
    bench.memory.note(has(10));
    for _ in 0..10 {
        agents.push(bench.start_one().await);
    }
    bench.until_ready(10).await;
}

#[tokio::test]
async fn the_fullest_pool_gives_first() {
    let mut bench = Bench::new();
    let mut agents = Vec::new();
    for environment in ["half", "full"] {
        bench.pools.ensure("t", environment, || Some(bench.spec(1, 4)));
        for ready in 1..=4 {
            agents.push(bench.start_one().await);
            while bench.pools.ready("t", environment) != ready {
                tokio::task::yield_now().await;
            }
        }
    }
    let policy = bench.policy();
    let _taken = [(); 2].map(|()| bench.pools.checkout("t", "half", &policy).unwrap());
    bench.memory.note(has(1));
    bench.until_killed(4).await;
    assert_eq!((bench.pools.ready("t", "half"), bench.pools.ready("t", "full")), (1, 1));
}
