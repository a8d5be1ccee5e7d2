//! Executions that wait.

use super::*;

#[tokio::test]
async fn executions_run_in_the_order_they_came() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let replies = [
        bench.submit("a", NEVER).await,
        bench.submit("b", NEVER).await,
        bench.submit("c", NEVER).await,
    ];
    for expected in ["a", "b", "c"] {
        let (execution, code, _) = bench.agent.accept().await;
        assert_eq!(code, expected);
        bench.agent.send(FromAgent::Started { execution, at_us: monotonic_us() }).await;
        bench.agent.done(execution, Completion::Ok).await;
    }
    for (reply, id) in replies.into_iter().zip(["1", "2", "3"]) {
        assert_eq!(outcome(reply).await.execution_id, id);
    }
}

#[tokio::test]
async fn a_full_queue_is_refused_and_the_others_run() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, running) = bench.running(NEVER).await;
    let waiting = [bench.submit("1", NEVER).await, bench.submit("2", NEVER).await];
    let refused = bench.submit("3", NEVER).await;
    assert_eq!(refusal(refused).await, Refusal::QueueFull);
    assert_eq!(bench.session.info().usage.queued, 2);
    bench.agent.done(execution, Completion::Ok).await;
    assert_eq!(outcome(running).await.status, Status::Ok);
    for reply in waiting {
        let execution = bench.agent.begin().await;
        bench.agent.done(execution, Completion::Ok).await;
        assert_eq!(outcome(reply).await.status, Status::Ok);
    }
}

#[tokio::test]
async fn without_a_queue_the_first_execution_of_a_starting_session_still_runs() {
    let mut bench = Bench::unstarted(Timing { queue_depth: 0, ..LONG_TIMEOUTS }).await;
    let first = bench.submit("1", NEVER).await;
    let second = bench.submit("2", NEVER).await;
    assert_eq!(refusal(second).await, Refusal::QueueFull);
    bench.agent.start().await;
    let execution = bench.agent.begin().await;
    bench.agent.done(execution, Completion::Ok).await;
    assert_eq!(outcome(first).await.status, Status::Ok);
}

#[tokio::test]
async fn idle_is_told_when_nothing_runs_or_waits() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    assert_eq!(bench.session.ask(Command::WhenIdle).await, Some(()));
    let (execution, reply) = bench.running(NEVER).await;
    let (sender, idle) = oneshot::channel();
    bench.session.send(Command::WhenIdle(sender)).await;
    bench.agent.done(execution, Completion::Ok).await;
    idle.await.unwrap();
    assert_eq!(outcome(reply).await.status, Status::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_heard_late_counts_from_when_it_was() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let ago = |seconds: u64| monotonic_us().saturating_sub(seconds * 1_000_000);
    for (at_us, ran_ms) in [(u64::MAX, 0.0), (ago(500), 500e3), (0, 1000e3)] {
        let reply = bench.submit("x", NEVER).await;
        let (execution, ..) = bench.agent.accept().await;
        tokio::time::advance(Duration::from_secs(1000)).await;
        bench.agent.send(FromAgent::Started { execution, at_us }).await;
        bench.agent.done(execution, Completion::Ok).await;
        let found = outcome(reply).await.duration_ms;
        assert!((found - ran_ms).abs() < 60e3, "{ran_ms}: {found}");
    }
}
