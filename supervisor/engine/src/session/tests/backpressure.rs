//! Executions for whose output the daemon has no room.

use super::*;

/// Takes all that the tenant may have, and one byte more.
fn use_up(bench: &Bench) -> crate::budget::Reservation {
    bench.account.hold((32 << 20) + 1)
}

#[tokio::test]
async fn execution_is_charged_until_its_result_is_evicted() {
    let mut bench = Bench::unlimited().await;
    let used = |bench: &Bench| {
        let rest = bench.account.take(32 << 20).is_ok();
        let some = bench.account.take(31 << 20).is_ok();
        (rest, some)
    };
    assert_eq!(used(&bench), (true, true));
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.print(execution, &"x".repeat(2 << 20)).await;
    let reader = reply.log.subscribe(None).unwrap();
    while reply.log.weight_bytes() < 1 << 20 {
        tokio::task::yield_now().await;
    }
    drop(reader);
    bench.agent.done(execution, Completion::Ok).await;
    assert_eq!(outcome(reply).await.stdout.len(), 2 << 20);
    let number = execution;
    assert!(bench.results.get("t", "s", number).is_some());
    assert!(bench.account.take(29 << 20).is_ok());
    // It is kept, and makes room.
    assert_eq!(used(&bench), (true, true));
    assert!(bench.results.get("t", "s", number).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_execution_waits_for_room_and_loses_nothing() {
    let mut bench = Bench::unlimited().await;
    let (execution, reply) = bench.running(NEVER).await;
    let held = use_up(&bench);
    bench.agent.print(execution, "text").await;
    drop(held);
    bench.agent.done(execution, Completion::Ok).await;
    let outcome = outcome(reply).await;
    assert_eq!((outcome.stdout.as_str(), outcome.stdout_truncated), ("text", false));
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_finds_no_room_for_long_goes_on_without_its_output() {
    for is_large in [false, true] {
        let mut bench = Bench::unlimited().await;
        let (execution, reply) = bench.running(NEVER).await;
        bench.agent.print(execution, "before ").await;
        while reply.log.weight_bytes() < size_of::<ExecutionLog>() + 260 {
            tokio::task::yield_now().await;
        }
        let held = use_up(&bench);
        let text = if is_large { "x".repeat(1 << 20) } else { "lost".to_owned() };
        bench.agent.print(execution, &text).await;
        bench.agent.value(execution, "lost too").await;
        bench.agent.done(execution, Completion::Ok).await;
        let outcome = outcome(reply).await;
        assert_eq!(outcome.status, Status::Ok);
        assert_eq!((outcome.stdout.as_str(), outcome.stdout_truncated), ("before ", true));
        assert!(outcome.result.is_none());
        assert!(outcome.detail.contains("server.max_buffered_mb"), "{}", outcome.detail);
        drop(held);
        bench.works().await;
    }
}
