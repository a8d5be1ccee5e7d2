//! Code that calls functions of its client's: its clock, its events, and its end.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use tokio::time::timeout;
use vivarium_api_types::{CallAnswer, CallOutcome};

use super::*;
use crate::session::calls::answer::AnswerRefusal;
use crate::session::calls::table::CallTable;
use crate::session::calls::tool::ToolSet;
use crate::session::execution_log::{Batch, EventKind, EventSubscription};
use crate::settings::CallBounds;

const LATER: Duration = Duration::from_millis(200);

/// Code that has begun, and the kernel's end to write calls to.
struct Calling {
    execution: u64,
    reply: Reply,
    table: Arc<CallTable>,
    kernel: File,
    /// Where its answers come. Kept open: else there are no more calls.
    _answers: File,
}

async fn calling(bench: &mut Bench, limit: Duration) -> Calling {
    let bounds = CallBounds { timeout: NEVER, max_timeout: NEVER, max_wait: NEVER, max_calls: 9 };
    let specs = serde_json::from_str(r#"[{"name": "look"}]"#).unwrap();
    let specs: Vec<vivarium_api_types::ToolSpec> = specs;
    let tools = Arc::new(ToolSet::new(&specs, &[], false, bounds).unwrap());
    let work = Work::Code {
        code: "x".to_owned(),
        filename: String::new(),
        cwd: None,
        env: vec![],
        repr: vivarium_protocol::message::ReprLimits::IPYTHON,
        tools: true,
        policy: Box::default(),
    };
    let spec = WorkSpec { tools: Some(tools), ..spec(work, limit, false) };
    let reply = bench.submit_spec(spec).await;
    let execution = bench.agent.begin().await;
    let mut end = || {
        let socket = bench.agent.socket();
        File::from(socket.as_fd().try_clone_to_owned().unwrap())
    };
    let (kernel, answers) = (end(), end());
    let table = Arc::clone(reply.log.calls().unwrap());
    Calling { execution, reply, table, kernel, _answers: answers }
}

impl Calling {
    async fn call(&mut self) {
        self.kernel.write_all(b"\x0c\0\0\0\x01\x01\0\0\0\x04look{}").unwrap();
        self.table.waits().await;
    }

    fn answer(&self) -> Result<(), AnswerRefusal> {
        let answer: CallAnswer = serde_json::from_str(r#"{"result": 1}"#).unwrap();
        self.table.answer_one(1, &answer)
    }
}

/// How calls ended, by the events of an execution that is over.
async fn ends(mut reader: EventSubscription) -> Vec<CallOutcome> {
    let mut ends = Vec::new();
    while let Batch::Events(events) = reader.next().await {
        ends.extend(events.iter().filter_map(|event| match &event.kind {
            EventKind::CallEnded(ended) => Some(ended.outcome),
            _ => None,
        }));
    }
    ends
}

#[tokio::test]
async fn the_clock_stands_still_while_a_call_waits_and_goes_on_afterwards() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let mut calling = calling(&mut bench, LATER).await;
    let execution = calling.execution;
    calling.call().await;
    let interrupted = timeout(LATER * 2, bench.agent.recv()).await;
    assert!(interrupted.is_err(), "{interrupted:?}");
    calling.answer().unwrap();
    assert_eq!(bench.agent.recv().await, Some(ToAgent::Interrupt { execution }));
    let reader = calling.reply.log.subscribe(None).unwrap();
    bench.agent.done(execution, Completion::Interrupted).await;
    let outcome = outcome(calling.reply).await;
    assert_eq!(verdict(&outcome), (Status::TimedOut, Some(Cause::WallTime), State::Preserved));
    assert_eq!(ends(reader).await, [CallOutcome::Result]);
    bench.works().await;
}

#[tokio::test]
async fn a_call_ends_with_its_execution() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let mut calling = calling(&mut bench, NEVER).await;
    calling.call().await;
    assert_eq!(calling.table.open().len(), 1);
    let reader = calling.reply.log.subscribe(None).unwrap();
    bench.agent.done(calling.execution, Completion::Ok).await;
    assert_eq!(ends(reader).await, [CallOutcome::Ended]);
    assert_eq!(calling.answer(), Err(AnswerRefusal::Over));
    assert!(calling.table.open().is_empty());
    bench.works().await;
}

#[tokio::test]
async fn a_call_ends_with_its_session() {
    let mut bench = Bench::started(LONG_TIMEOUTS).await;
    let mut calling = calling(&mut bench, NEVER).await;
    calling.call().await;
    let reader = calling.reply.log.subscribe(None).unwrap();
    bench.session.close(Cause::Deleted).await;
    assert_eq!(ends(reader).await, [CallOutcome::Ended]);
    assert_eq!(calling.answer(), Err(AnswerRefusal::Over));
}
