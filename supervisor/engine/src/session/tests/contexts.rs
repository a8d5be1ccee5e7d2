//! Several kernels in a session. There are no cgroups here, so that one's end is that of all.

use super::*;
use crate::session::{ContextRefusal, MAX_CONTEXTS};

fn in_context(name: &str) -> WorkSpec {
    let work = Work::code(format!("in {name}"));
    WorkSpec { context: Some(name.to_owned()), ..spec(work, NEVER, false) }
}

impl Bench {
    /// Has a context opened; its kernel is not ready yet.
    async fn opening(
        &mut self,
        name: &str,
    ) -> (u32, oneshot::Receiver<Result<vivarium_api_types::ContextInfo, ContextRefusal>>) {
        let (reply, opened) = oneshot::channel();
        let name = name.to_owned();
        assert!(self.session.send(Command::OpenContext { name, reply }).await);
        match self.agent.recv().await {
            Some(ToAgent::OpenContext { context }) => (context, opened),
            other => panic!("no context is opened: {other:?}"),
        }
    }

    async fn open(&mut self, name: &str) -> u32 {
        let (context, opened) = self.opening(name).await;
        self.agent.context_ready(context, 1).await;
        assert_eq!(opened.await.unwrap().unwrap().id, name);
        context
    }

    async fn names(&self) -> Vec<String> {
        let contexts = self.session.ask(Command::Contexts).await.unwrap();
        contexts.into_iter().map(|context| context.id).collect()
    }
}

#[tokio::test]
async fn contexts_run_code_at_the_same_time_each_with_a_queue_of_its_own() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    bench.open("other").await;
    assert_eq!(bench.names().await, ["main", "other"]);
    let (main, main_reply) = bench.running(NEVER).await;
    let first_reply = bench.submit_spec(in_context("other")).await;
    let first = bench.agent.begin().await;
    let second_reply = bench.submit_spec(in_context("other")).await;
    bench.agent.done(main, Completion::Ok).await;
    let outcome_of_main = outcome(main_reply).await;
    assert_eq!(outcome_of_main.kernel.as_ref().unwrap().context, "main");
    assert_eq!(bench.session.info().state, SessionState::Running, "the other still runs");
    bench.agent.done(first, Completion::Ok).await;
    assert_eq!(outcome(first_reply).await.kernel.as_ref().unwrap().context, "other");
    let second = bench.agent.begin().await;
    bench.agent.done(second, Completion::Ok).await;
    assert_eq!(outcome(second_reply).await.status, Status::Ok);
    assert_eq!(bench.session.info().state, SessionState::Idle);
    bench.works().await;
}

#[tokio::test]
async fn a_context_that_there_is_not_runs_nothing() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit_spec(in_context("none")).await;
    assert_eq!(refusal(reply).await, Refusal::UnknownContext);
    let (_, opening) = bench.opening("new").await;
    let reply = bench.submit_spec(in_context("new")).await;
    assert_eq!(refusal(reply).await, Refusal::UnknownContext, "its kernel is not ready");
    let (reply, again) = oneshot::channel();
    bench.session.send(Command::OpenContext { name: "new".into(), reply }).await;
    assert_eq!(again.await.unwrap().unwrap_err(), ContextRefusal::Exists);
    drop(opening);
    bench.works().await;
}

#[tokio::test]
async fn there_are_only_so_many_contexts() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    for number in 1..MAX_CONTEXTS {
        bench.open(&number.to_string()).await;
    }
    let (reply, refused) = oneshot::channel();
    bench.session.send(Command::OpenContext { name: "more".into(), reply }).await;
    assert_eq!(refused.await.unwrap().unwrap_err(), ContextRefusal::TooMany);
    bench.works().await;
}

#[tokio::test]
async fn closing_a_context_ends_what_it_runs_and_rejects_what_waits_there() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let context = bench.open("other").await;
    let running = bench.submit_spec(in_context("other")).await;
    let execution = bench.agent.begin().await;
    let waiting = bench.submit_spec(in_context("other")).await;
    let (reply, closed) = oneshot::channel();
    bench.session.send(Command::CloseContext { name: "other".into(), reply }).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::CloseContext { context }));
    let rejected = outcome(waiting).await;
    assert_eq!(verdict(&rejected), (Status::Rejected, Some(Cause::Deleted), State::Lost));
    assert_eq!(bench.names().await, ["main"]);
    bench.agent.context_exited(context, 1, Some(execution), KILLED_BY_AGENT).await;
    let ended = outcome(running).await;
    assert_eq!(verdict(&ended), (Status::Killed, Some(Cause::Deleted), State::Lost));
    bench.agent.send(FromAgent::ContextClosed { context }).await;
    assert!(closed.await.unwrap());
    assert_ne!(bench.open("other").await, context, "a number is never used again");
    bench.works().await;
}

#[tokio::test]
async fn closing_a_context_is_nothing_to_commands() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let context = bench.open("other").await;
    let (command, command_reply) = bench.commanding(NEVER).await;
    let running = bench.submit_spec(in_context("other")).await;
    let execution = bench.agent.begin().await;
    let (reply, closed) = oneshot::channel();
    bench.session.send(Command::CloseContext { name: "other".into(), reply }).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::CloseContext { context }));
    bench.agent.context_exited(context, 1, Some(execution), KILLED_BY_AGENT).await;
    bench.agent.send(FromAgent::ContextClosed { context }).await;
    assert!(closed.await.unwrap());
    drop(running);
    bench.agent.done(command, Completion::Exited(0)).await;
    let outcome = outcome(command_reply).await;
    assert_eq!((outcome.detail.as_str(), outcome.state), ("", State::Preserved));
}

#[tokio::test]
async fn the_first_context_is_not_closed() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    for name in ["main", "none"] {
        let close = |reply| Command::CloseContext { name: name.to_owned(), reply };
        assert_eq!(bench.session.ask(close).await, Some(false));
    }
    bench.works().await;
}

#[tokio::test]
async fn a_reset_without_cgroups_ends_what_others_run_and_says_so() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let context = bench.open("other").await;
    let (main, main_reply) = bench.running(NEVER).await;
    let (sender, answer) = oneshot::channel();
    let other = Some("other".to_owned());
    bench.session.send(Command::Reset { context: other, reply: sender }).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Replace { context }));
    bench.agent.context_exited(context, 1, None, KILLED_BY_AGENT).await;
    bench.agent.exited(1, Some(main), KILLED_BY_AGENT).await;
    let ended = outcome(main_reply).await;
    assert_eq!(verdict(&ended), (Status::Killed, Some(Cause::Reset), State::Lost));
    assert!(ended.detail.contains("ended with a kernel of its session"), "{}", ended.detail);
    bench.agent.ready(2).await;
    bench.agent.context_ready(context, 2).await;
    assert_eq!(answer.await.unwrap(), Some(of_session(None)));
    bench.works().await;
}

#[tokio::test]
async fn a_context_whose_kernel_does_not_start_is_closed_and_its_session_goes_on() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (context, opened) = bench.opening("other").await;
    let not_started = || KernelEnd::NotStarted("no memory".into());
    bench.agent.context_exited(context, 1, None, not_started()).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Replace { context }), "once more");
    bench.agent.context_exited(context, 2, None, not_started()).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::CloseContext { context }));
    let refusal = opened.await.unwrap().unwrap_err();
    assert!(matches!(&refusal, ContextRefusal::NotStarted(why) if why.contains("no memory")));
    bench.agent.send(FromAgent::ContextClosed { context }).await;
    bench.works().await;
}

#[tokio::test]
async fn an_interrupt_of_a_context_is_for_what_it_runs() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    bench.open("other").await;
    let (main, main_reply) = bench.running(NEVER).await;
    let reply = bench.submit_spec(in_context("other")).await;
    let other = bench.agent.begin().await;
    let interrupt =
        |reply| Command::Interrupt { execution: None, context: Some("other".to_owned()), reply };
    let interrupted = bench.session.ask(interrupt).await.unwrap().unwrap();
    assert_eq!(interrupted.execution, other);
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution: other }));
    bench.agent.done(other, Completion::Interrupted).await;
    assert_eq!(outcome(reply).await.status, Status::Interrupted);
    bench.agent.done(main, Completion::Ok).await;
    assert_eq!(outcome(main_reply).await.status, Status::Ok);
}

#[tokio::test]
async fn what_is_to_survive_a_reset_is_refused_where_nothing_does() {
    let bench = Bench::started(LONG_TIMEOUTS).await;
    let spec = WorkSpec { survives_reset: true, ..spec(Work::code(String::new()), NEVER, false) };
    assert_eq!(refusal(bench.submit_spec(spec).await).await, Refusal::NotSurvivable);
}
