//! Commands, and questions to the kernel.

use nix::sys::signal::Signal;
use vivarium_protocol::message::{Assist, CommandSpec, WindowSize};
use vivarium_protocol::outcome::{MimePart, Value};

use super::*;

const SHORT: Timing = Timing { interrupt_grace: SOON, ..LONG_TIMEOUTS };

fn ls() -> Work {
    Work::Command(CommandSpec::new(vec!["ls".into()]))
}

fn complete() -> Work {
    Work::Assist { kind: Assist::Complete, code: "x".into(), cursor: 1 }
}

impl Bench {
    /// Queues a command and has the agent start it.
    pub(super) async fn commanding(&mut self, timeout: Duration) -> (u64, Reply) {
        let reply = self.submit_work(ls(), timeout, false).await;
        (self.agent.begin().await, reply)
    }
}

#[tokio::test(start_paused = true)]
async fn the_idle_time_begins_when_an_execution_ends() {
    let hour = Duration::from_secs(3600);
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let adjustable = bench.session.adjustable();
    bench.session.adjust(Adjustable { idle_timeout: hour, ..adjustable });
    let (execution, reply) = bench.running(NEVER).await;
    tokio::time::advance(hour * 2 / 3).await;
    bench.agent.done(execution, Completion::Ok).await;
    outcome(reply).await;
    tokio::time::advance(hour * 2 / 3).await;
    assert!(!bench.session.claim_expired(), "it was in use two thirds of an hour ago");
    tokio::time::advance(hour / 3).await;
    assert!(bench.session.claim_expired());
}

#[tokio::test]
async fn a_command_ends_with_a_code_and_the_kernel_goes_on() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    for (code, status) in [(0, Status::Ok), (3, Status::Error)] {
        let (execution, reply) = bench.commanding(NEVER).await;
        bench.agent.print(execution, "out").await;
        bench.agent.done(execution, Completion::Exited(code)).await;
        let outcome = outcome(reply).await;
        assert_eq!((outcome.status, outcome.exit_code), (status, Some(code)));
        assert_eq!((outcome.stdout.as_str(), outcome.state), ("out", State::Preserved));
    }
    bench.works().await;
}

#[tokio::test]
async fn command_that_ignores_its_timeout_is_killed_alone() {
    let mut bench = Bench::started(SHORT).await;
    let (execution, reply) = bench.commanding(SOON).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Kill { execution }));
    bench.agent.done(execution, Completion::Signaled(9)).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Preserved));
    assert!(outcome.detail.contains("did not give way to SIGINT"), "{}", outcome.detail);
    bench.works().await;
}

#[tokio::test(start_paused = true)]
async fn agent_that_fails_to_kill_is_killed_with_its_session() {
    let timing = Timing { start_timeout: SOON, ..SHORT };
    let mut bench = Bench::unstarted(timing).await;
    bench.agent.start().await;
    let (_, reply) = bench.commanding(SOON).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Lost));
    bench.is_gone().await;
}

#[tokio::test]
async fn a_kernel_that_dies_takes_commands_with_it() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.commanding(NEVER).await;
    let end = KernelEnd::Signaled { signal: 11, by_agent: false };
    bench.agent.exited(1, None, end).await;
    bench.agent.done(execution, Completion::Signaled(9)).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Signal), State::Lost));
    assert!(outcome.detail.contains("ended with a kernel of its session"), "{}", outcome.detail);
    bench.agent.ready(2).await;
    bench.works().await;
}

#[tokio::test]
async fn commands_run_beside_code_and_one_another() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (code, code_reply) = bench.running(NEVER).await;
    let (first, first_reply) = bench.commanding(NEVER).await;
    let (second, second_reply) = bench.commanding(NEVER).await;
    assert_eq!(bench.session.info().state, SessionState::Running);
    bench.agent.done(second, Completion::Exited(0)).await;
    assert_eq!(outcome(second_reply).await.status, Status::Ok);
    bench.agent.done(code, Completion::Ok).await;
    assert_eq!(outcome(code_reply).await.status, Status::Ok);
    assert_eq!(bench.session.info().state, SessionState::Running, "a command still runs");
    bench.agent.done(first, Completion::Exited(3)).await;
    assert_eq!(outcome(first_reply).await.exit_code, Some(3));
    assert_eq!(bench.session.info().state, SessionState::Idle);
    bench.works().await;
}

#[tokio::test]
async fn a_command_that_waits_for_its_turn_comes_after_code_and_before_the_next() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (code, code_reply) = bench.running(NEVER).await;
    let command_reply = bench.submit_queued(ls()).await;
    let next_reply = bench.submit("after", NEVER).await;
    bench.agent.done(code, Completion::Ok).await;
    outcome(code_reply).await;
    let command = bench.agent.begin().await;
    bench.agent.done(command, Completion::Exited(0)).await;
    assert_eq!(outcome(command_reply).await.status, Status::Ok);
    let next = bench.agent.begin().await;
    assert!(next > command);
    bench.agent.done(next, Completion::Ok).await;
    assert_eq!(outcome(next_reply).await.status, Status::Ok);
}

#[tokio::test]
async fn a_reset_ends_commands_and_says_so() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.commanding(NEVER).await;
    let session = Arc::clone(&bench.session);
    let reset = tokio::spawn(async move { session.ask(reset).await });
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.done(execution, Completion::Signaled(9)).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Reset), State::Lost));
    bench.agent.exited(1, None, KILLED_BY_AGENT).await;
    bench.agent.ready(2).await;
    reset.await.unwrap().unwrap();
    bench.works().await;
}

#[tokio::test]
async fn no_more_commands_run_than_may() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let mut replies = Vec::new();
    for _ in 0..crate::session::MAX_COMMANDS {
        replies.push(bench.commanding(NEVER).await.1);
    }
    let refused = bench.submit_work(ls(), NEVER, false).await;
    assert_eq!(refusal(refused).await, Refusal::TooManyCommands);
    bench.works().await;
}

#[tokio::test]
async fn signals_go_to_commands_that_run() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.commanding(NEVER).await;
    let signal = |number, signal| {
        let session = Arc::clone(&bench.session);
        async move { session.ask(|reply| Command::Signal(number, signal, reply)).await.unwrap() }
    };
    assert!(signal(execution, Signal::SIGTERM).await);
    assert!(!signal(execution + 1, Signal::SIGTERM).await);
    assert!(signal(execution, Signal::SIGKILL).await);
    let sent = ToAgent::Signal { execution, signal: Signal::SIGTERM as i32 };
    assert_eq!(bench.agent.recv().await, Some(sent));
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Kill { execution }));
    bench.agent.done(execution, Completion::Signaled(9)).await;
    assert_eq!(verdict(&*outcome(reply).await).1, Some(Cause::Signal));
}

/// Asks a session to change the size of a command's terminal: whether the command has one, if there is it.
async fn resize(bench: &Bench, number: u64, columns: u16) -> Option<bool> {
    let size = WindowSize { columns, rows: 24 };
    bench.session.ask(|reply| Command::Resize(number, size, reply)).await.unwrap()
}

#[tokio::test]
async fn sizes_of_terminals_wait_for_commands_that_do_not_run_yet() {
    let mut bench = Bench::unstarted(LONG_TIMEOUTS).await;
    let size = WindowSize { columns: 80, rows: 24 };
    let of_terminal = CommandSpec { pty: Some(size), ..CommandSpec::new(vec!["ls".into()]) };
    let _with = bench.submit_work(Work::Command(of_terminal), NEVER, false).await;
    let _without = bench.submit_work(ls(), NEVER, false).await;
    for columns in [90, 100] {
        assert_eq!(resize(&bench, 1, columns).await, Some(true));
    }
    assert_eq!(resize(&bench, 2, 90).await, Some(false));
    assert_eq!(resize(&bench, 3, 90).await, None);
    bench.agent.start().await;
    assert_eq!(bench.agent.begin().await, 1);
    let sent = ToAgent::Resize { execution: 1, size: WindowSize { columns: 100, rows: 24 } };
    assert_eq!(bench.agent.recv().await, Some(sent));
    assert_eq!(bench.agent.begin().await, 2);
}

#[tokio::test]
async fn completion_is_answered_without_an_execution() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit_work(complete(), NEVER, false).await;
    let execution = bench.agent.begin().await;
    let part = MimePart { mime_type: "application/json".into(), data: b"{}".to_vec() };
    let value = Value { repr: String::new(), type_name: String::new(), mime: vec![part] };
    // Ten bytes of results are allowed, and the type alone has more.
    bench.agent.send(FromAgent::Value { execution, value }).await;
    bench.agent.done(execution, Completion::Ok).await;
    assert_eq!(outcome(reply).await.status, Status::Ok);
    assert_eq!(bench.session.info().usage.executions, 0);
    bench.works().await;
    assert_eq!(bench.session.info().usage.executions, 1);
}

#[tokio::test]
async fn kernel_lost_to_a_completion_is_reported_by_the_next_execution() {
    let mut bench = Bench::started(SHORT).await;
    let reply = bench.submit_work(complete(), SOON, false).await;
    let execution = bench.agent.begin().await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    assert_eq!(bench.agent.recv().await, Some(REPLACE));
    bench.agent.exited(1, Some(execution), KILLED_BY_AGENT).await;
    assert_eq!(outcome(reply).await.status, Status::TimedOut);
    bench.agent.ready(2).await;
    let outcome = bench.completes().await;
    assert!(outcome.detail.contains("found a fresh kernel"), "{}", outcome.detail);
}

#[tokio::test]
async fn completion_on_a_busy_session_is_refused() {
    let mut bench = Bench::unstarted(LONG_TIMEOUTS).await;
    let early = bench.submit_work(complete(), NEVER, false).await;
    assert_eq!(refusal(early).await, Refusal::Busy);
    bench.agent.start().await;
    let (execution, reply) = bench.running(NEVER).await;
    let asked = bench.submit_work(complete(), NEVER, false).await;
    assert_eq!(refusal(asked).await, Refusal::Busy);
    bench.agent.done(execution, Completion::Ok).await;
    assert_eq!(outcome(reply).await.status, Status::Ok);
}

#[tokio::test]
async fn a_signal_for_a_command_that_waits_follows_it_to_the_agent() {
    let mut bench = Bench::unstarted(LONG_TIMEOUTS).await;
    let reply = bench.submit_work(ls(), NEVER, false).await;
    let signal = |signal| move |reply| Command::Signal(1, signal, reply);
    for name in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGTERM] {
        assert_eq!(bench.session.ask(signal(name)).await, Some(true));
    }
    let other = |reply| Command::Signal(2, Signal::SIGTERM, reply);
    assert_eq!(bench.session.ask(other).await, Some(false), "there is no such command");
    bench.agent.start().await;
    let execution = bench.agent.begin().await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Kill { execution }));
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Signal { execution, signal: 15 }));
    bench.agent.done(execution, Completion::Signaled(9)).await;
    assert_eq!(outcome(reply).await.status, Status::Killed);
    bench.works().await;
}
