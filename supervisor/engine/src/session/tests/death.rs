//! Kernels and agents that die.

use vivarium_protocol::message::CommandSpec;

use super::*;

#[tokio::test]
async fn every_kernel_death_is_reported_and_the_session_survives() {
    let signaled = |signal| KernelEnd::Signaled { signal, by_agent: false };
    for (end, status, cause) in [
        (KernelEnd::Exited(3), Status::Killed, Cause::Exited),
        (signaled(11), Status::Killed, Cause::Signal),
        (signaled(24), Status::TimedOut, Cause::CpuLimit),
        (KernelEnd::CpuLimit { used_us: 1 }, Status::TimedOut, Cause::CpuLimit),
        (KernelEnd::Protocol("nonsense".into()), Status::Killed, Cause::Protocol),
    ] {
        let mut bench = Bench::started(LONG_TIMEOUTS).await;
        let (execution, reply) = bench.running(NEVER).await;
        bench.agent.print(execution, "last words").await;
        bench.agent.exited(1, Some(execution), end).await;
        let outcome = outcome(reply).await;
        assert_eq!(verdict(&outcome), (status, Some(cause), State::Lost));
        assert_eq!(outcome.stdout, "last words");
        assert!(!outcome.detail.is_empty());
        bench.agent.ready(2).await;
        bench.works().await;
    }
}

#[tokio::test]
async fn a_death_between_executions_is_told_with_the_next() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    bench.agent.exited(1, None, KernelEnd::Signaled { signal: 11, by_agent: false }).await;
    bench.agent.ready(2).await;
    let outcome = bench.completes().await;
    assert_eq!(outcome.status, Status::Ok);
    assert!(outcome.detail.contains("SIGSEGV"), "{}", outcome.detail);
}

#[tokio::test]
async fn an_execution_on_its_way_to_a_dying_kernel_runs_in_the_next() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit("x", NEVER).await;
    let (execution, ..) = bench.agent.accept().await;
    bench.agent.exited(1, None, KernelEnd::Exited(0)).await;
    bench.agent.ready(2).await;
    bench.agent.send(FromAgent::Started { execution, at_us: monotonic_us() }).await;
    bench.agent.done(execution, Completion::Ok).await;
    let outcome = outcome(reply).await;
    assert_eq!(outcome.status, Status::Ok);
    assert!(outcome.detail.contains("fresh kernel"), "{}", outcome.detail);
}

#[tokio::test]
async fn a_kernel_that_does_not_start_is_tried_once_more() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.exited(1, Some(execution), KernelEnd::Exited(1)).await;
    outcome(reply).await;
    bench.agent.exited(2, None, KernelEnd::NotStarted("ENOMEM".into())).await;
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.ready(3).await;
    bench.works().await;
}

#[tokio::test]
async fn kernel_that_never_starts_ends_the_session() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.exited(1, Some(execution), KernelEnd::Exited(1)).await;
    outcome(reply).await;
    let waiting = bench.submit("waits", NEVER).await;
    for generation in [2, 3] {
        bench.agent.exited(generation, None, KernelEnd::NotStarted("ENOMEM".into())).await;
    }
    let rejected = outcome(waiting).await;
    assert_eq!(verdict(&rejected), (Status::Rejected, Some(Cause::KernelStart), State::Lost));
    assert!(rejected.detail.contains("ENOMEM"), "{}", rejected.detail);
    bench.is_gone().await;
}

#[tokio::test]
async fn an_agent_that_dies_takes_the_session_with_it() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.print(execution, "last words").await;
    let Bench { session, agent, backend, .. } = bench;
    drop(agent);
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Agent), State::Lost));
    assert_eq!(outcome.stdout, "last words");
    session.gone().await;
    assert_eq!(backend.killed.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// The kernel that an answer tells of: its generation, whether it is fresh, why the one before
/// ended.
fn kernel(outcome: &Arc<Outcome>) -> (u64, bool, Option<Cause>) {
    let kernel = outcome.kernel.clone().unwrap();
    (kernel.generation, kernel.fresh, kernel.previous_end.map(|end| end.cause))
}

#[tokio::test]
async fn every_answer_tells_which_kernel_it_ran_in_and_why_the_one_before_ended() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    for fresh in [true, false] {
        assert_eq!(kernel(&bench.completes().await), (1, fresh, None));
    }
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.exited(1, Some(execution), KernelEnd::Exited(3)).await;
    assert_eq!(kernel(&outcome(reply).await), (1, false, None), "the one it ran in");
    bench.agent.ready(2).await;
    // One that ends between executions, before any code has run in it.
    bench.agent.exited(2, None, KernelEnd::Signaled { signal: 11, by_agent: false }).await;
    bench.agent.ready(3).await;
    for fresh in [true, false] {
        let outcome = bench.completes().await;
        assert_eq!(kernel(&outcome), (3, fresh, Some(Cause::Signal)));
        assert_eq!(outcome.detail.contains("found a fresh kernel"), fresh, "{}", outcome.detail);
    }
}

#[tokio::test]
async fn a_command_does_not_take_the_news_of_a_loss_from_the_code_after_it() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    bench.agent.exited(1, None, KernelEnd::Exited(7)).await;
    bench.agent.ready(2).await;
    let work = Work::Command(CommandSpec::new(vec!["ls".into()]));
    let reply = bench.submit_work(work, NEVER, false).await;
    let execution = bench.agent.begin().await;
    bench.agent.done(execution, Completion::Exited(0)).await;
    assert_eq!(kernel(&outcome(reply).await), (2, true, Some(Cause::Exited)));
    let outcome = bench.completes().await;
    assert_eq!(kernel(&outcome), (2, true, Some(Cause::Exited)));
    assert!(outcome.detail.contains("code 7"), "{}", outcome.detail);
}

#[tokio::test]
async fn previous_end_reports_a_kernel_killed_for_time() {
    let short = Timing { interrupt_grace: SOON, ..LONG_TIMEOUTS };
    let mut bench = Bench::started(short).await;
    let (execution, reply) = bench.running(SOON).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    // It ended by itself as the order was on its way.
    bench.agent.done(execution, Completion::Ok).await;
    assert_eq!(outcome(reply).await.state, State::Lost);
    bench.agent.exited(1, None, KILLED_BY_AGENT).await;
    bench.agent.ready(2).await;
    let outcome = bench.completes().await;
    assert_eq!(kernel(&outcome), (2, true, Some(Cause::WallTime)));
    assert_eq!(outcome.detail, "", "its answer has told");
}
