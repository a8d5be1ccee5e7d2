//! Timeouts, interrupts, CPU limits, resets and deletions.

use super::*;

const SHORT: Timing = Timing { interrupt_grace: SOON, ..LONG_TIMEOUTS };

#[tokio::test]
async fn code_that_gives_way_at_its_timeout_keeps_its_state() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(SOON).await;
    bench.agent.print(execution, "so far").await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Preserved));
    assert_eq!(outcome.stdout, "so far");
    bench.works().await;
}

#[tokio::test]
async fn code_that_does_not_is_killed_and_loses_it() {
    let mut bench = Bench::started(SHORT).await;
    let (execution, reply) = bench.running(SOON).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.exited(1, Some(execution), KILLED_BY_AGENT).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Lost));
    assert!(outcome.detail.contains("did not give way to SIGINT"), "{}", outcome.detail);
    assert_eq!(bench.session.info().state, SessionState::Replacing);
    bench.agent.ready(2).await;
    bench.works().await;
}

#[tokio::test]
async fn end_that_crosses_a_kill_is_not_reported_as_preserved() {
    let mut bench = Bench::started(SHORT).await;
    let (execution, reply) = bench.running(SOON).await;
    bench.agent.recv().await;
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.done(execution, Completion::Ok).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Lost));
    bench.agent.exited(1, None, KILLED_BY_AGENT).await;
    bench.agent.ready(2).await;
    bench.works().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_answer_is_killed_with_its_session() {
    let timing = Timing { start_timeout: SOON, ..SHORT };
    let mut bench = Bench::unstarted(timing).await;
    bench.agent.start().await;
    let (_, reply) = bench.running(SOON).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Lost));
    assert!(outcome.detail.contains("the session was killed"), "{}", outcome.detail);
    bench.is_gone().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_take_the_code_is_given_up() {
    let timing = Timing { start_timeout: SOON, ..SHORT };
    let mut bench = Bench::unstarted(timing).await;
    bench.agent.start().await;
    let reply = bench.submit("x", NEVER).await;
    bench.agent.accept().await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Agent), State::Lost));
    bench.is_gone().await;
}

#[tokio::test]
async fn the_clock_runs_from_the_start_and_not_from_the_sending() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit("x", SOON).await;
    let (execution, ..) = bench.agent.accept().await;
    // Longer than the timeout: nothing may come.
    let early = tokio::time::timeout(SOON * 3, bench.agent.recv()).await;
    assert!(early.is_err(), "{early:?}");
    bench.agent.send(FromAgent::Started { execution, at_us: monotonic_us() }).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    assert_eq!(outcome(reply).await.status, Status::TimedOut);
}

#[tokio::test]
async fn used_up_cpu_time_goes_the_same_way() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.send(FromAgent::CpuLimitReached { execution, used_us: 2_100_000 }).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::CpuLimit), State::Preserved));
    assert!(outcome.detail.contains("2.1 s"), "{}", outcome.detail);

    let mut bench = Bench::started(SHORT).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.send(FromAgent::CpuLimitReached { execution, used_us: 2_100_000 }).await;
    bench.agent.recv().await;
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.exited(1, Some(execution), KILLED_BY_AGENT).await;
    let outcome = super::outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::CpuLimit), State::Lost));
}

#[tokio::test]
async fn an_interrupt_that_is_obeyed_is_told() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    let interrupted = bench.session.ask(interrupt).await.unwrap().unwrap();
    assert_eq!(interrupted.execution, execution);
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    bench.agent.done(execution, Completion::Interrupted).await;
    interrupted.ended.await.unwrap_err();
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Interrupted, Some(Cause::Interrupt), State::Preserved));
    assert!(bench.session.ask(interrupt).await.unwrap().is_none());
    bench.works().await;
}

#[tokio::test]
async fn an_interrupt_that_is_ignored_kills_nothing() {
    let mut bench = Bench::started(SHORT).await;
    let (execution, reply) = bench.running(NEVER).await;
    let interrupted = bench.session.ask(interrupt).await.unwrap().unwrap();
    bench.agent.recv().await;
    let waited = tokio::time::timeout(SOON * 3, interrupted.ended).await;
    assert!(waited.is_err(), "it has not ended");
    bench.agent.done(execution, Completion::Ok).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Ok, None, State::Preserved));
}

#[tokio::test]
async fn a_keyboard_interrupt_of_its_own_is_an_error() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.done(execution, Completion::Interrupted).await;
    assert_eq!(outcome(reply).await.status, Status::Error);
}

#[tokio::test]
async fn a_reset_ends_what_runs_and_what_waits_runs_afterwards() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    let queued = bench.submit("queued", NEVER).await;
    let (sender, answer) = oneshot::channel();
    bench.session.send(reset(sender)).await;
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.exited(1, Some(execution), KILLED_BY_AGENT).await;
    let ended = outcome(reply).await;
    assert_eq!(verdict(&ended), (Status::Killed, Some(Cause::Reset), State::Lost));
    bench.agent.ready(2).await;
    assert_eq!(answer.await.unwrap(), Some(of_session(Some(execution))));
    let second = bench.agent.begin().await;
    bench.agent.done(second, Completion::Ok).await;
    assert_eq!(outcome(queued).await.status, Status::Ok);
}

#[tokio::test]
async fn a_reset_of_an_idle_session_waits_for_the_fresh_kernel() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (sender, answer) = oneshot::channel();
    bench.session.send(reset(sender)).await;
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.exited(1, None, KILLED_BY_AGENT).await;
    bench.agent.ready(2).await;
    assert_eq!(answer.await.unwrap(), Some(of_session(None)));
    assert_eq!(bench.completes().await.detail, "", "a reset that was asked for is no news");
}

#[tokio::test(start_paused = true)]
async fn a_reset_that_gets_no_answer_ends_the_session() {
    let timing = Timing { start_timeout: SOON, ..SHORT };
    let mut bench = Bench::unstarted(timing).await;
    bench.agent.start().await;
    bench.session.started().await.unwrap();
    assert_eq!(bench.session.ask(reset).await, None);
    bench.is_gone().await;
}

#[tokio::test]
async fn a_deletion_ends_what_runs_and_rejects_what_waits() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (_, reply) = bench.running(NEVER).await;
    let queued = bench.submit("queued", NEVER).await;
    bench.session.close(Cause::Deleted).await;
    let ended = outcome(reply).await;
    assert_eq!(verdict(&ended), (Status::Killed, Some(Cause::Deleted), State::Lost));
    let rejected = outcome(queued).await;
    assert_eq!(verdict(&rejected), (Status::Rejected, Some(Cause::Deleted), State::Lost));
    bench.is_gone().await;
    // A second one finds nothing to do.
    bench.session.close(Cause::Deleted).await;
}

/// Nothing else bounds an operation on files.
#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_answer_a_ping_is_given_up() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (session, room) =
        (Arc::clone(&bench.session), crate::session::transfer::TransferLimiter::default());
    let deleted = tokio::spawn(async move { session.delete_file(&room, "a".into()).await });
    bench.agent.file().await;
    // It hears nothing more, and so no ping.
    let error = deleted.await.unwrap().unwrap_err();
    assert!(matches!(error, crate::session::transfer::TransferError::Over), "{error}");
    bench.is_gone().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_answers_pings_may_take_its_time() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (_, reply) = bench.running(Duration::from_secs(300)).await;
    // All this time it does nothing but answer.
    assert!(matches!(bench.agent.recv().await, Some(ToAgent::Interrupt { .. })));
    assert_eq!(bench.session.info().state, SessionState::Interrupting);
    drop(reply);
}

/// Who has a place among the commands when the session ends, and uses it only then.
#[tokio::test(start_paused = true)]
async fn a_command_that_is_late_for_the_end_is_answered() {
    let Bench { session, agent, .. } = Bench::started(LONG_TIMEOUTS).await;
    let place = session.commands.reserve().await.unwrap();
    drop(agent);
    // Time goes on only when everybody waits.
    tokio::time::sleep(SOON).await;
    assert!(session.is_closed());
    let (reply, answer) = tokio::sync::oneshot::channel();
    place.send(reset(reply));
    tokio::time::timeout(NEVER, answer).await.unwrap().unwrap_err();
    session.gone().await;
}
