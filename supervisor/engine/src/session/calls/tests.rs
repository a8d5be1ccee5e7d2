use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use vivarium_api_types::{CallAnswer, CallOutcome, ToolSpec};

use super::answer::{AnswerRefusal, ClientAnswer};
use super::channel::{Calls, Happened};
use super::table::CallTable;
use super::tool::ToolSet;
use super::{MAX_CALL_BYTES, MAX_OPEN_CALLS};
use crate::budget::Budget;
use crate::session::Results;
use crate::settings::CallBounds;

const MINUTE: Duration = Duration::from_secs(60);

const BOUNDS: CallBounds = CallBounds {
    timeout: MINUTE,
    max_timeout: MINUTE,
    max_wait: Duration::from_secs(90),
    max_calls: 500,
};

struct Bench {
    calls: Calls,
    table: Arc<CallTable>,
    kernel: File,
    answers: File,
    budget: Budget,
}

fn specs(specs: &Value) -> Vec<ToolSpec> {
    serde_json::from_value(specs.clone()).unwrap()
}

fn answer(json: &Value) -> CallAnswer {
    serde_json::from_value(json.clone()).unwrap()
}

impl CallTable {
    pub(crate) fn answer_one(&self, call: u64, answer: &CallAnswer) -> Result<(), AnswerRefusal> {
        let answer = ClientAnswer::new(call, answer, None)?;
        self.answer(vec![answer], false).map_err(|(_, refusal)| refusal)
    }
}

impl Bench {
    async fn with(bounds: CallBounds, room: usize) -> Self {
        let tools = specs(&json!([
            {"name": "look", "parameters": {"properties": {"n": {"type": "integer"}}}},
            {"name": "rare", "max_calls": 1, "timeout_ms": 5000},
        ]));
        let tools = Arc::new(ToolSet::new(&tools, &[], false, bounds).unwrap());
        let table: Arc<CallTable> = Arc::default();
        let results: Arc<Results> = Arc::default();
        let budget = Budget::new(room, room, results as _);
        let (calls, [kernel, answers]) =
            Calls::new(tools, Arc::clone(&table), budget.of("t")).unwrap();
        let file = |end: OwnedFd| File::from(end);
        let mut bench = Self { calls, table, kernel: file(kernel), answers: file(answers), budget };
        // The runtime finds out that it can be written to.
        bench.calls.next_event(false).await;
        assert!(bench.calls.step(false).is_empty());
        assert_eq!(bench.read_frame()[0], 1, "the declaration comes first");
        bench
    }

    async fn new() -> Self {
        Self::with(BOUNDS, 64 << 20).await
    }

    fn write(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        self.kernel.write_all(&[&length, body].concat()).unwrap();
    }

    fn call(&mut self, number: u32, tool: &str, arguments: &str) {
        let name = [&[u8::try_from(tool.len()).unwrap()], tool.as_bytes()].concat();
        self.write(&[&[1][..], &number.to_le_bytes(), &name, arguments.as_bytes()].concat());
    }

    fn read_frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.answers.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_le_bytes(length) as usize];
        self.answers.read_exact(&mut body).unwrap();
        body
    }

    /// Number, kind and text of the next answer.
    fn answer(&mut self) -> (u32, u8, String) {
        let body = self.read_frame();
        assert_eq!(body[0], 2);
        let number = u32::from_le_bytes(body[1..5].try_into().unwrap());
        (number, body[5], String::from_utf8(body[6..].to_vec()).unwrap())
    }

    /// Waits for something, and takes a step.
    async fn step(&mut self) -> Vec<Happened> {
        timeout(2 * MINUTE, self.calls.next_event(true)).await.expect("nothing happens");
        self.calls.step(true)
    }

    async fn outcome(&mut self) -> CallOutcome {
        loop {
            for happened in self.step().await {
                match happened {
                    Happened::Ended { outcome, .. } => return outcome,
                    Happened::Refused { .. } => return CallOutcome::Refused,
                    Happened::Opened(_) | Happened::Nonsense(_) => {}
                }
            }
        }
    }

    async fn open(&mut self, number: u32) -> u64 {
        self.call(number, "look", r#"{"n": 1}"#);
        loop {
            for happened in self.step().await {
                if let Happened::Opened(opened) = happened {
                    return opened.info.call_id.parse().unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn a_call_is_answered_once() {
    let mut bench = Bench::new().await;
    let call = bench.open(7).await;
    assert!(bench.calls.is_waiting());
    let open = bench.table.open();
    assert_eq!((open[0].call_id.as_str(), open[0].tool.as_str()), ("1", "look"));
    assert_eq!(open[0].arguments.as_str(), r#"{"n":1}"#);
    let result = answer(&json!({"result": [1]}));
    bench.table.answer_one(call, &result).unwrap();
    assert_eq!(bench.outcome().await, CallOutcome::Result);
    assert_eq!(bench.answer(), (7, 0, "[1]".to_owned()));
    assert!(!bench.calls.is_waiting());
    // Again, otherwise, and of another number.
    bench.table.answer_one(call, &result).unwrap();
    let other = answer(&json!({"error": {"message": "no"}}));
    assert_eq!(bench.table.answer_one(call, &other), Err(AnswerRefusal::Answered));
    assert_eq!(bench.table.answer_one(2, &result), Err(AnswerRefusal::Unknown));
    assert_eq!(bench.table.answer_one(0, &result), Err(AnswerRefusal::Unknown));
    // The kernel may use its number again.
    let call = bench.open(7).await;
    bench.table.answer_one(call, &other).unwrap();
    assert_eq!(bench.outcome().await, CallOutcome::Error);
    assert_eq!(bench.answer(), (7, 1, r#"{"message":"no"}"#.to_owned()));
    bench.calls.end();
    bench.table.answer_one(call, &other).unwrap();
    assert_eq!(bench.table.answer_one(3, &other), Err(AnswerRefusal::Unknown));
}

#[tokio::test]
async fn answers_are_taken_together_or_not_at_all() {
    let mut bench = Bench::new().await;
    let (first, second) = (bench.open(1).await, bench.open(2).await);
    let give = |calls: &[u64], leaves_over| {
        let new = |call| ClientAnswer::new(call, &answer(&json!({"result": call})), None).unwrap();
        bench.table.answer(calls.iter().map(|call| new(*call)).collect(), leaves_over)
    };
    assert_eq!(give(&[first, 77, second], true), Err((77, AnswerRefusal::Unknown)));
    assert_eq!(bench.table.open().len(), 2, "none of them");
    assert_eq!(give(&[first, second], true), Ok(()));
    assert!(bench.table.open().is_empty());
    assert_eq!(give(&[first, second], false), Ok(()), "again");
}

#[tokio::test]
async fn what_can_not_be_called_is_refused_in_words() {
    let mut bench = Bench::new().await;
    let nested = |levels| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    let (deep, deeper) = (nested(70), nested(500));
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(MAX_CALL_BYTES));
    for (tool, arguments, why) in [
        ("none", "{}", "there is no tool \"none\""),
        ("look", r#"{"n": "x"}"#, "n: it is not of type \"integer\""),
        ("look", "[]", "its arguments are no object"),
        ("look", "{", "no JSON"),
        ("look", r#"{"a": "\ud800"}"#, "no JSON"),
        ("look", r#"{"a": 1e999}"#, "no JSON"),
        ("look", &deep, "nested more than 64 deep"),
        ("look", &deeper, "nested more than 64 deep"),
    ] {
        bench.call(1, tool, arguments);
        assert_eq!(bench.outcome().await, CallOutcome::Refused, "{arguments}");
        let (number, kind, text) = bench.answer();
        assert_eq!((number, kind), (1, 2));
        assert!(
            serde_json::from_str::<Value>(&text).unwrap()["message"]
                .as_str()
                .unwrap()
                .contains(why),
            "{text}"
        );
    }
    // Larger than the pipe.
    let mut kernel = bench.kernel.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let body = [&[1, 1, 0, 0, 0, 4][..], b"look", long.as_bytes()].concat();
        kernel.write_all(&u32::try_from(body.len()).unwrap().to_le_bytes()).unwrap();
        kernel.write_all(&body).unwrap();
    });
    assert_eq!(bench.outcome().await, CallOutcome::Refused);
    writer.join().unwrap();
    assert!(bench.answer().2.contains("over the maximum"));
    assert!(!bench.calls.is_waiting());
}

#[tokio::test]
async fn calls_are_bounded_in_number_by_tool_and_at_a_time() {
    let mut bench = Bench::new().await;
    bench.call(1, "rare", "{}");
    bench.step().await;
    bench.call(2, "rare", "{}");
    assert_eq!(bench.outcome().await, CallOutcome::Refused);
    assert!(bench.answer().2.contains("as often as it may be"));
    for number in 3..u32::try_from(MAX_OPEN_CALLS).unwrap() + 2 {
        bench.open(number).await;
    }
    bench.call(1000, "look", "{}");
    assert_eq!(bench.outcome().await, CallOutcome::Refused);
    assert!(bench.answer().2.contains("as many as may"));
    let mut few = Bench::with(CallBounds { max_calls: 1, ..BOUNDS }, 64 << 20).await;
    let call = few.open(1).await;
    few.table.answer_one(call, &answer(&json!({"result": null}))).unwrap();
    assert_eq!(few.outcome().await, CallOutcome::Result);
    few.answer();
    few.call(2, "look", "{}");
    assert_eq!(few.outcome().await, CallOutcome::Refused);
    assert!(few.answer().2.contains("session.max_calls"));
}

#[tokio::test(start_paused = true)]
async fn calls_end_in_their_time_and_executions_wait_no_longer_than_they_may() {
    let mut bench = Bench::new().await;
    let call = bench.open(1).await;
    assert_eq!(bench.outcome().await, CallOutcome::Timeout);
    assert_eq!(bench.answer().1, 3);
    assert_eq!(
        bench.table.answer_one(call, &answer(&json!({"result": 1}))),
        Err(AnswerRefusal::Over)
    );
    // 60 of 90 s are over.
    bench.open(1).await;
    let before = tokio::time::Instant::now();
    assert_eq!(bench.outcome().await, CallOutcome::Timeout);
    assert_eq!(before.elapsed().as_secs(), 30);
    bench.answer();
    bench.call(1, "look", "{}");
    assert_eq!(bench.outcome().await, CallOutcome::Refused);
    let (_, kind, text) = bench.answer();
    assert!(kind == 3 && text.contains("session.max_call_wait"), "{text}");
}

#[tokio::test]
async fn a_call_can_be_withdrawn_and_ends_with_its_execution() {
    let mut bench = Bench::new().await;
    let call = bench.open(9).await;
    bench.write(&[2, 9, 0, 0, 0]);
    assert_eq!(bench.outcome().await, CallOutcome::Withdrawn);
    assert!(!bench.calls.is_waiting());
    let result = answer(&json!({"result": 1}));
    assert_eq!(bench.table.answer_one(call, &result), Err(AnswerRefusal::Over));
    // Nothing comes of withdrawing what is not there.
    bench.write(&[2, 9, 0, 0, 0]);
    let call = bench.open(9).await;
    let ended = bench.calls.end();
    assert!(matches!(ended[..], [Happened::Ended { outcome: CallOutcome::Ended, .. }]));
    assert_eq!(bench.table.answer_one(call, &result), Err(AnswerRefusal::Over));
    assert_eq!(bench.read_to_end(), 0, "its pipes are closed");
}

#[tokio::test]
async fn what_was_withdrawn_just_before_the_end_is_withdrawn() {
    let mut bench = Bench::new().await;
    for number in 1..=2 {
        bench.open(number).await;
    }
    bench.write(&[2, 1, 0, 0, 0]);
    // A call, and half of a frame: nothing comes of them.
    bench.call(3, "look", "{}");
    bench.kernel.write_all(b"\x05\0\0\0\x02").unwrap();
    let of = |happened| match happened {
        Happened::Ended { call, outcome, .. } => (call, outcome),
        other => panic!("{other:?}"),
    };
    let outcomes: Vec<_> = bench.calls.end().into_iter().map(of).collect();
    assert_eq!(outcomes, [(1, CallOutcome::Withdrawn), (2, CallOutcome::Ended)]);
}

impl Bench {
    fn read_to_end(&mut self) -> usize {
        let mut rest = Vec::new();
        self.answers.read_to_end(&mut rest).unwrap()
    }
}

#[tokio::test]
async fn nonsense_closes_the_pipes_and_ends_calls() {
    let frames: [&[u8]; 5] = [
        &u32::MAX.to_le_bytes(),
        b"\0\0\0\0",
        b"\x05\0\0\0\x09\x01\0\0\0",
        b"\x0b\0\0\0\x01\x01\0\0\0\x04look{}",
        b"\x09\0\0\0\x01\x02\0\0\0\xffx{}",
    ];
    for bytes in frames {
        let mut bench = Bench::new().await;
        let call = bench.open(1).await;
        bench.kernel.write_all(bytes).unwrap();
        let happened = bench.step().await;
        assert!(matches!(happened[0], Happened::Nonsense(_)), "{bytes:?}: {happened:?}");
        assert!(matches!(happened[1], Happened::Ended { outcome: CallOutcome::Ended, .. }));
        assert!(!bench.calls.is_waiting());
        assert_eq!(bench.read_to_end(), 0);
        let result = answer(&json!({"result": 1}));
        assert_eq!(bench.table.answer_one(call, &result), Err(AnswerRefusal::Over));
    }
}

#[tokio::test]
async fn a_kernel_that_closes_its_end_or_reads_nothing_holds_nothing() {
    let mut bench = Bench::new().await;
    bench.open(1).await;
    let (kernel, _) = nix::unistd::pipe().unwrap();
    bench.kernel = File::from(kernel);
    assert_eq!(bench.outcome().await, CallOutcome::Ended);
    // Refusals that are not read: after a while no more calls are.
    let mut bench = Bench::with(CallBounds { max_calls: u64::MAX, ..BOUNDS }, 64 << 20).await;
    let mut kernel = bench.kernel.try_clone().unwrap();
    nix::fcntl::fcntl(&kernel, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))
        .unwrap();
    let frame = b"\x0a\0\0\0\x01\x01\0\0\0\x04none";
    let mut is_full = false;
    for _ in 0..1_000_000 {
        if kernel.write_all(frame).is_err() {
            let stepped = timeout(Duration::from_millis(100), bench.calls.next_event(true)).await;
            if stepped.is_err() {
                is_full = true;
                break;
            }
            bench.calls.step(true);
        }
    }
    assert!(is_full, "it is read without end");
}

#[tokio::test]
async fn arguments_that_find_no_room_are_refused_and_answers_give_it_back() {
    let mut bench = Bench::with(BOUNDS, 4096).await;
    let used = |bench: &Bench| bench.budget.used().0.iter().map(|(_, bytes)| bytes).sum::<usize>();
    assert_eq!(used(&bench), 0);
    bench.call(1, "look", &format!("{{\"a\": \"{}\"}}", "x".repeat(3000)));
    assert_eq!(bench.outcome().await, CallOutcome::Refused);
    assert!(bench.answer().2.contains("no room"));
    let call = bench.open(1).await;
    assert!(used(&bench) > 0);
    bench.table.answer_one(call, &answer(&json!({"result": 1}))).unwrap();
    assert_eq!(bench.outcome().await, CallOutcome::Result);
    assert_eq!(used(&bench), 0);
}

#[tokio::test]
async fn rounds_wait_for_calls() {
    let mut bench = Bench::new().await;
    let table = Arc::clone(&bench.table);
    let waits = tokio::spawn(async move { table.waits().await });
    bench.open(1).await;
    bench.open(2).await;
    waits.await.unwrap();
    assert_eq!(bench.table.open().len(), 2);
}

#[test]
fn declarations_are_checked() {
    let field =
        |spec: Value| ToolSet::new(&specs(&json!([spec])), &[], false, BOUNDS).unwrap_err().0;
    for name in ["", "1a", "_a", "a-b", "class", "aio", "é", &"x".repeat(65)] {
        assert_eq!(field(json!({"name": name})), "tools[0].name", "{name}");
    }
    assert_eq!(field(json!({"name": "a", "timeout_ms": 60_001})), "tools[0].timeout_ms");
    assert_eq!(field(json!({"name": "a", "max_calls": 0})), "tools[0].max_calls");
    assert_eq!(field(json!({"name": "a", "max_calls": 501})), "tools[0].max_calls");
    assert_eq!(field(json!({"name": "a", "parameters": {"type": "array"}})), "tools[0].parameters");
    let long = "x".repeat(20_000);
    assert_eq!(field(json!({"name": "a", "description": long})), "tools[0].description");
    let twice = specs(&json!([{"name": "a"}, {"name": "a"}]));
    assert_eq!(ToolSet::new(&twice, &[], false, BOUNDS).unwrap_err().0, "tools[1].name");
    let many: Vec<_> = (0..129).map(|n| json!({"name": format!("t{n}")})).collect();
    assert_eq!(ToolSet::new(&specs(&json!(many)), &[], false, BOUNDS).unwrap_err().0, "tools");
}
