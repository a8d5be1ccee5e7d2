//! Sessions against an agent played by the test.
//!
//! Durations here are either so long that they never pass, or so short that waiting for them
//! is waiting for the event they cause; nothing is asserted about how long anything took.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use vivarium_api_types::{Outcome, SessionState};
use vivarium_protocol::clock::monotonic_us;
use vivarium_protocol::layer::{Intent, Layer, Plan};
use vivarium_protocol::leaf::FIRST_CONTEXT;
use vivarium_protocol::message::{Completion, Failure, FromAgent, ToAgent, Work};
use vivarium_protocol::outcome::{Cause, KernelEnd, State, Status};
use vivarium_protocol::policy::{Interpreter, Limits, Network, Policy};
use vivarium_protocol::units::Limit;

use vivarium_audit::AuditLog;
use vivarium_metrics::Metrics;

use super::calls::tool::AskedTools;
use super::execution_log::{Attached, ExecutionLog};
use super::output::tests::limits;
use super::{
    Adjustable, Command, Identity, Interrupted, LaunchContext, LaunchPlan, QueuedExecution,
    Refusal, ResetDone, Results, Session, Timing, WorkSpec, spawn,
};
use crate::approvals::Approvals;
use crate::backend::fake::{Fake, FakeAgent};
use crate::backend::program::ProgramFile;
use crate::budget::{Account, Budget};
use crate::observe::Observer;
use crate::template::Template;

mod backpressure;
mod calls;
mod clients;
mod commands;
mod contexts;
mod death;
mod from_pooled;
mod queue;
mod starts;
mod stopping;

const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(20);

/// What becomes of an execution, for as long as its client wants it.
pub(super) struct Reply {
    pub(super) log: Arc<ExecutionLog>,
    _attached: Attached,
}

/// A session and its agent, which has not started yet.
pub(super) struct Bench {
    pub(super) session: Arc<Session>,
    pub(super) agent: FakeAgent,
    backend: Arc<Fake>,
    results: Arc<Results>,
    pub(super) account: Account,
}

pub(super) const LONG_TIMEOUTS: Timing =
    Timing { interrupt_grace: NEVER, start_timeout: NEVER, queue_depth: 2, results_kept: NEVER };

const REPLACE: ToAgent = ToAgent::Replace { context: FIRST_CONTEXT };

fn reset(reply: oneshot::Sender<Option<ResetDone>>) -> Command {
    Command::Reset { context: None, reply }
}

/// What a reset says where there are no leaves.
fn of_session(ended: Option<u64>) -> ResetDone {
    ResetDone { ended, is_of_session: true }
}

fn interrupt(reply: oneshot::Sender<Option<Interrupted>>) -> Command {
    Command::Interrupt { execution: None, context: None, reply }
}

pub(crate) fn policy() -> Policy {
    let mut plan = Plan::full();
    plan.set(Layer::Cgroup, &Intent::Off);
    Policy {
        plan,
        limits: limits(),
        network: Network::None,
        interpreter: Interpreter {
            path: "/usr/bin/python3".into(),
            prefixes: vec![],
            isolate: vec![],
            program: Arc::default(),
            version: "3".into(),
            wasm: None,
        },
        ca_certificate: None,
        env: vec![],
        read_paths: vec![],
        workdir: "/workspace".into(),
        host_workdir: None,
        cgroup: None,
        ids: None,
        passt: None,
        stores: Vec::new(),
        hidden_paths: Vec::new(),
    }
}

/// That let everything run, until they are told otherwise.
fn approvals() -> Arc<Approvals> {
    Arc::new(Approvals::new(Arc::new(Metrics::new().unwrap()), AuditLog::default()))
}

/// How a session of this backend is started.
pub(crate) fn launch_plan(backend: &Arc<Fake>) -> LaunchPlan {
    let results: Arc<Results> = Arc::default();
    let context = LaunchContext {
        backend: Arc::clone(backend) as _,
        tree: None,
        ids: None,
        stores: None,
        environment: None,
        workdirs: None,
        program: ProgramFile::new(b"").unwrap(),
        turns: Arc::default(),
        protection: Arc::new([]),
        template: Arc::new(Template::new("default")),
        account: Budget::new(64 << 20, 32 << 20, Arc::clone(&results) as _).of("t"),
        quotas: Arc::default(),
        approvals: approvals(),
        results,
        observer: Observer::default(),
    };
    LaunchPlan { policy: policy(), context }
}

fn identity() -> Identity {
    Identity {
        id: "s".into(),
        tenant: "t".into(),
        environment: "default".into(),
        network: Network::None,
        approval: Default::default(),
    }
}

fn adjustable(limits: Limits) -> Adjustable {
    let (limits, metadata) = (Arc::new(limits), BTreeMap::new());
    Adjustable { limits, metadata, idle_timeout: NEVER, deadline: None }
}

impl Bench {
    async fn unstarted(timing: Timing) -> Self {
        Self::with(timing, limits()).await
    }

    /// One whose executions may print without limit.
    async fn unlimited() -> Self {
        let limits = Limits { max_output_bytes: Limit::Unlimited, ..limits() };
        let mut bench = Self::with(LONG_TIMEOUTS, limits).await;
        bench.agent.start().await;
        bench
    }

    async fn with(timing: Timing, limits: Limits) -> Self {
        let (backend, mut launched): (_, mpsc::UnboundedReceiver<FakeAgent>) = Fake::new();
        let plan = launch_plan(&backend);
        let results = Arc::clone(&plan.context.results);
        let account = plan.context.account.clone();
        let session = spawn(identity(), adjustable(limits), timing, plan, |_| ());
        let agent = launched.recv().await.unwrap();
        Self { session, agent, backend, results, account }
    }

    pub(super) async fn started(timing: Timing) -> Self {
        let mut bench = Self::unstarted(timing).await;
        bench.agent.start().await;
        bench.session.started().await.unwrap();
        bench
    }

    async fn submit(&self, code: &str, timeout: Duration) -> Reply {
        self.submit_work(Work::code(code.to_owned()), timeout, false).await
    }

    async fn submit_work(&self, work: Work, timeout: Duration, cancel: bool) -> Reply {
        self.submit_spec(spec(work, timeout, cancel)).await
    }

    /// Has a command wait for its turn.
    async fn submit_queued(&self, work: Work) -> Reply {
        self.submit_spec(WorkSpec { queued: true, ..spec(work, NEVER, false) }).await
    }

    async fn submit_spec(&self, spec: WorkSpec) -> Reply {
        let (log, writer) = ExecutionLog::new(1 << 20, spec.cancel_on_disconnect);
        if spec.tools.is_some() {
            log.make_callable();
        }
        let attached = log.attach();
        let execution = QueuedExecution::new(spec, false, false, writer, self.account.hold(0));
        assert!(self.session.send(Command::Execute(Box::new(execution))).await);
        Reply { log, _attached: attached }
    }

    pub(super) async fn running(&mut self, timeout: Duration) -> (u64, Reply) {
        let reply = self.submit("x", timeout).await;
        (self.agent.begin().await, reply)
    }

    /// Runs code to its end.
    async fn completes(&mut self) -> Arc<Outcome> {
        let (execution, reply) = self.running(NEVER).await;
        self.agent.done(execution, Completion::Ok).await;
        outcome(reply).await
    }

    /// Runs code to its end: the session works.
    pub(super) async fn works(&mut self) {
        assert_eq!(self.completes().await.status, Status::Ok);
    }

    pub(super) async fn is_gone(&self) {
        self.session.gone().await;
        assert!(self.session.is_closed());
        assert_eq!(self.backend.killed.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
}

fn spec(work: Work, timeout: Duration, cancel_on_disconnect: bool) -> WorkSpec {
    let (files, outputs) = (vec![], vec![]);
    WorkSpec {
        work,
        files,
        outputs,
        timeout,
        cancel_on_disconnect,
        queued: false,
        descriptor: None,
        survives_reset: false,
        context: None,
        asked_tools: AskedTools::default(),
        tools: None,
        asked_policy: Default::default(),
        approval: None,
    }
}

/// The end of a kernel that the agent was told to kill.
const KILLED_BY_AGENT: KernelEnd = KernelEnd::Signaled { signal: 9, by_agent: true };

async fn outcome(reply: Reply) -> Arc<Outcome> {
    reply.log.finished().await.unwrap()
}

async fn refusal(reply: Reply) -> Refusal {
    reply.log.finished().await.unwrap_err()
}

fn verdict(outcome: &Outcome) -> (Status, Option<Cause>, State) {
    (outcome.status, outcome.cause, outcome.state)
}

#[tokio::test]
async fn an_execution_is_answered_with_all_that_was_said() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.print(execution, "hi").await;
    bench.agent.value(execution, "2").await;
    bench.agent.done(execution, Completion::Ok).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Ok, None, State::Preserved));
    assert_eq!((outcome.stdout.as_str(), outcome.detail.as_str()), ("hi", ""));
    assert_eq!(outcome.result.as_ref().unwrap().repr, "2");
    assert_eq!((outcome.execution_id.as_str(), outcome.session_id.as_str()), ("1", "s"));
    assert!((outcome.usage.cpu_ms - 1.5).abs() < 1e-9);
    let usage = bench.session.info().usage;
    assert_eq!((usage.executions, usage.memory_peak_bytes), (1, 7));
    assert_eq!(bench.session.info().state, SessionState::Idle);
}

#[tokio::test]
async fn refused_files_reject_the_execution_and_keep_the_session() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let reply = bench.submit("x", NEVER).await;
    let (execution, ..) = bench.agent.accept().await;
    let (name, reason) = ("a".to_owned(), "a link is in the way".to_owned());
    bench.agent.send(FromAgent::FilesRefused { execution, name, reason }).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Rejected, None, State::Preserved));
    assert!(outcome.detail.contains("a link is in the way"));
    bench.works().await;
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_its_execution() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    drop(reply);
    bench.agent.done(execution, Completion::Ok).await;
    bench.works().await;
    assert_eq!(bench.session.info().usage.executions, 2);
}

#[tokio::test]
async fn a_session_that_fails_says_why_to_everybody_who_waits() {
    let mut bench = Bench::unstarted(LONG_TIMEOUTS).await;
    let reply = bench.submit("x", NEVER).await;
    bench.agent.launched().await;
    let failure = Failure {
        layer: Some(Layer::Mounts),
        fix: "allow it".into(),
        ..Failure::new("mount /proc", "EPERM")
    };
    bench.agent.send(FromAgent::Failed(failure.clone())).await;
    assert_eq!(bench.session.started().await, Err(failure.clone()));
    assert_eq!(refusal(reply).await, Refusal::NotStarted(failure));
    bench.is_gone().await;
}

#[tokio::test]
async fn an_agent_that_never_starts_is_given_up() {
    let impatient = Timing { start_timeout: SOON, interrupt_grace: SOON, ..LONG_TIMEOUTS };
    let bench = Bench::unstarted(impatient).await;
    let failure = bench.session.started().await.unwrap_err();
    assert!(failure.reason.contains("no kernel became ready"), "{failure}");
    bench.is_gone().await;
}

#[tokio::test]
async fn messages_out_of_turn_end_the_session() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.done(execution + 1, Completion::Ok).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Protocol), State::Lost));
    assert!(
        outcome.detail.contains("the agent said done while execution 1 runs"),
        "{}",
        outcome.detail
    );
    bench.is_gone().await;
}

/// The agent sits beside tenant code, and its own check may have been overcome.
#[tokio::test]
async fn ends_that_no_policy_asks_for_end_the_session() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (execution, reply) = bench.running(NEVER).await;
    bench.agent.done(execution, Completion::WorkLimit).await;
    let outcome = outcome(reply).await;
    assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Protocol), State::Lost));
    bench.is_gone().await;
}

#[tokio::test]
async fn malformed_frames_end_the_session() {
    for bytes in [&u32::MAX.to_le_bytes()[..], &[2, 0, 0, 0, 0xff, 0xff]] {
        let mut bench = Bench::started(LONG_TIMEOUTS).await;
        let (_, reply) = bench.running(NEVER).await;
        bench.agent.send_bytes(bytes).await;
        let outcome = outcome(reply).await;
        assert_eq!(verdict(&outcome), (Status::Killed, Some(Cause::Protocol), State::Lost));
        bench.is_gone().await;
    }
}

#[tokio::test]
async fn a_description_answers_all_who_ask() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let (first, one) = oneshot::channel();
    let (second, two) = oneshot::channel();
    bench.session.send(Command::Describe(first)).await;
    bench.session.send(Command::Describe(second)).await;
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Describe));
    let description = vivarium_protocol::message::Description {
        generation: Some(1),
        execution: None,
        processes: 1,
        agent_pss_bytes: 2,
        kernel_pss_bytes: 3,
        disk_bytes: 4,
    };
    bench.agent.send(FromAgent::Described(description.clone())).await;
    assert_eq!(one.await.unwrap(), description);
    let answer = tokio::select! {
        answer = two => answer.unwrap(),
        heard = bench.agent.recv() => panic!("asked twice: {heard:?}"),
    };
    assert_eq!(answer, description);
}
