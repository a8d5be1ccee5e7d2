use super::*;
use crate::message::{Origin, Stream};
use crate::outcome::{Display, DisplayKind, Exception, OutputFile, Value};

fn ready() -> FromAgent {
    of_context(FIRST_CONTEXT)
}

fn of_context(context: ContextNumber) -> FromAgent {
    let protection = Layer::ALL.map(|layer| Report::enforced(layer, "")).to_vec();
    FromAgent::KernelReady { context, generation: 1, origin: Origin::Executed, protection }
}

#[test]
fn a_kernel_is_not_ready_without_a_report_of_every_layer() {
    let FromAgent::KernelReady { context, generation, origin, mut protection } = ready() else {
        return;
    };
    let engine = Report::enforced(Layer::Wasm, "");
    let with_engine = [&protection[..], std::slice::from_ref(&engine)].concat();
    let twice = [&with_engine[..], std::slice::from_ref(&engine)].concat();
    let whole = FromAgent::KernelReady { context, generation, origin, protection: with_engine };
    assert!(Sequence::default().accept(&whole).is_ok());
    protection.swap(0, 1);
    for protection in [vec![], protection, vec![engine], twice] {
        let message = FromAgent::KernelReady { context, generation, origin, protection };
        assert!(Sequence::default().accept(&message).is_err(), "{message:?}");
    }
    assert!(Sequence::default().accept(&ready()).is_ok());
}
use crate::message::Completion;
use crate::outcome::Usage;

fn done(execution: ExecutionNumber) -> FromAgent {
    FromAgent::Done {
        execution,
        completion: Completion::Ok,
        stdout_dropped: 0,
        stderr_dropped: 0,
        usage: Usage::default(),
        changes: crate::message::Changes::default(),
        account: crate::outcome::Account::default(),
    }
}

#[test]
fn an_execution_goes_from_ready_to_ready() {
    let mut sequence = Sequence::default();
    sequence.accept(&ready()).unwrap();
    sequence.sent(FIRST_CONTEXT, 1);
    sequence.accept(&FromAgent::Started { execution: 1, at_us: 0 }).unwrap();
    sequence.accept(&done(1)).unwrap();
    assert!(sequence.is_ready(FIRST_CONTEXT));
}

#[test]
fn a_reply_for_another_execution_is_out_of_turn() {
    let mut sequence = Sequence::default();
    sequence.accept(&ready()).unwrap();
    assert!(sequence.accept(&done(1)).is_err());
    sequence.sent(FIRST_CONTEXT, 2);
    sequence.accept(&FromAgent::Started { execution: 2, at_us: 0 }).unwrap();
    let error = sequence.accept(&done(1)).unwrap_err();
    assert_eq!(error.to_string(), "the agent said done while execution 2 runs");
}

#[test]
fn commands_run_beside_code_and_one_another() {
    let mut sequence = Sequence::default();
    sequence.accept(&ready()).unwrap();
    sequence.sent(FIRST_CONTEXT, 1);
    sequence.sent_command(2);
    sequence.sent_command(3);
    for execution in [3, 1, 2] {
        sequence.accept(&FromAgent::Started { execution, at_us: 0 }).unwrap();
    }
    sequence.accept(&done(2)).unwrap();
    assert!(!sequence.is_ready(FIRST_CONTEXT), "the code goes on");
    sequence.accept(&done(1)).unwrap();
    assert!(sequence.is_ready(FIRST_CONTEXT));
    sequence.accept(&done(3)).unwrap();
    assert!(sequence.accept(&done(3)).is_err(), "it is over");
}

#[test]
fn contexts_run_beside_one_another_and_say_nothing_once_they_are_closed() {
    let mut sequence = Sequence::default();
    sequence.accept(&ready()).unwrap();
    assert!(sequence.accept(&of_context(1)).is_err(), "nobody opened it");
    sequence.open(1);
    sequence.accept(&of_context(1)).unwrap();
    sequence.sent(FIRST_CONTEXT, 1);
    sequence.sent(1, 2);
    sequence.accept(&FromAgent::Started { execution: 2, at_us: 0 }).unwrap();
    sequence.accept(&FromAgent::Started { execution: 1, at_us: 0 }).unwrap();
    assert!(sequence.accept(&FromAgent::ContextClosed { context: 1 }).is_err());
    sequence.close(1);
    sequence.accept(&done(2)).unwrap();
    sequence.accept(&FromAgent::ContextClosed { context: 1 }).unwrap();
    assert!(sequence.accept(&done(2)).is_err());
    sequence.accept(&done(1)).unwrap();
    assert!(sequence.is_ready(FIRST_CONTEXT));
}

#[test]
fn a_command_has_no_value_and_says_nothing_before_it_starts() {
    let output = || FromAgent::Output { execution: 2, stream: Stream::Stdout, data: vec![] };
    let value = Value { repr: String::new(), type_name: String::new(), mime: vec![] };
    let value = FromAgent::Value { execution: 2, value };
    let mut sequence = Sequence::default();
    sequence.sent_command(2);
    assert!(sequence.accept(&output()).is_err());
    sequence.accept(&FromAgent::Started { execution: 2, at_us: 0 }).unwrap();
    sequence.accept(&output()).unwrap();
    let error = sequence.accept(&value).unwrap_err();
    assert_eq!(error.to_string(), "the agent said value while command 2 is running");
    assert!(sequence.accept(&FromAgent::Started { execution: 2, at_us: 0 }).is_err());
}

#[test]
fn messages_of_an_execution_must_have_its_number() {
    let of = |execution| {
        let value = Value { repr: String::new(), type_name: String::new(), mime: vec![] };
        let exception = Exception {
            type_name: String::new(),
            message: String::new(),
            traceback: String::new(),
        };
        let display = Display { kind: DisplayKind::Display, id: None, mime: vec![] };
        let file = OutputFile { name: String::new(), size_bytes: 0, content: Err(String::new()) };
        [
            FromAgent::Output { execution, stream: Stream::Stdout, data: vec![] },
            FromAgent::Value { execution, value },
            FromAgent::Exception { execution, exception },
            FromAgent::Display { execution, display },
            FromAgent::File { execution, file },
            FromAgent::CpuLimitReached { execution, used_us: 0 },
        ]
    };
    for (own, other) in of(2).into_iter().zip(of(1)) {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        assert!(sequence.accept(&own).is_err(), "nothing runs: {own:?}");
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        sequence.sent(FIRST_CONTEXT, 2);
        assert!(sequence.accept(&own).is_err(), "not before it has started: {own:?}");
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        sequence.sent(FIRST_CONTEXT, 2);
        sequence.accept(&FromAgent::Started { execution: 2, at_us: 0 }).unwrap();
        sequence.accept(&own).unwrap();
        assert!(sequence.accept(&other).is_err(), "of another: {other:?}");
    }
}
