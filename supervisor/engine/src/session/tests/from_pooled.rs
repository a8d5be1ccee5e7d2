//! Sessions that were started before they were anybody's.

use super::*;
use crate::session::{PooledSession, from_pooled};

async fn adopted() -> Bench {
    let (backend, mut launched) = Fake::new();
    let plan = launch_plan(&backend);
    let results = Arc::clone(&plan.context.results);
    let account = plan.context.account.clone();
    let never = std::future::pending::<&'static str>();
    let starting = tokio::spawn(PooledSession::start("t", plan, never));
    let mut agent = launched.recv().await.unwrap();
    agent.start().await;
    let pooled = starting.await.unwrap().unwrap();
    let session = from_pooled(identity(), adjustable(limits()), LONG_TIMEOUTS, pooled, |_| ());
    Bench { session, agent, backend, results, account }
}

#[tokio::test]
async fn pooled_session_starts_idle_and_works_normally() {
    let mut bench = adopted().await;
    let info = bench.session.info();
    assert_eq!((info.state, info.id.as_str()), (SessionState::Idle, "s"));
    assert_eq!(info.created_at, info.last_used_at);
    bench.session.started().await.unwrap();
    bench.works().await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.exited(1, Some(execution), KernelEnd::Exited(3)).await;
    assert_eq!(outcome(reply).await.cause, Some(Cause::Exited));
    bench.agent.ready(2).await;
    bench.works().await;
    assert_eq!(bench.session.info().usage.executions, 3);
    bench.session.close(Cause::Deleted).await;
    bench.is_gone().await;
}

#[tokio::test]
async fn pooled_session_checks_its_agent() {
    let mut bench = adopted().await;
    // It has said so before, and nothing has happened since.
    bench.agent.ready(1).await;
    bench.is_gone().await;
}

#[tokio::test]
async fn a_kernel_that_ends_after_it_was_taken_is_replaced() {
    let mut bench = adopted().await;
    bench.agent.exited(1, None, KernelEnd::Exited(0)).await;
    bench.agent.ready(2).await;
    bench.works().await;
}

#[tokio::test]
async fn pooled_session_that_fails_to_start_leaves_nothing() {
    let (backend, mut launched) = Fake::new();
    let why = async { "it takes too long" };
    let failure = PooledSession::start("t", launch_plan(&backend), why).await.unwrap_err();
    assert_eq!(failure.reason, "it takes too long");
    assert_eq!(backend.killed.load(std::sync::atomic::Ordering::SeqCst), 1);
    let mut agent = launched.recv().await.unwrap();
    agent.launched().await;
    assert_eq!(agent.recv().await, None);
}
