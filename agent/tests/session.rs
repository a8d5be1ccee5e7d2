//! The agent alone, driven as the supervisor drives it: launch, execute, replace, end.
//!
//! What tenants can and can not do is tested end to end in the workspace's `tests` package;
//! here it is that the programs of this package keep their side of the protocol.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use std::path::PathBuf;

use harness::{Session, policy};
use vivarium_protocol::layer::{Layer, Status};
use vivarium_protocol::leaf::FIRST_CONTEXT;
use vivarium_protocol::message::{Assist, Completion, InputFile, ToAgent, Work};
use vivarium_protocol::outcome::KernelEnd;

#[test]
fn every_layer_but_the_missing_ones_is_enforced() {
    let session = Session::launch(policy()).unwrap();
    let order: Vec<_> = session.protection.iter().map(|report| report.layer).collect();
    assert_eq!(order, Layer::ALL);
    for report in &session.protection {
        let expected = match report.layer {
            Layer::Cgroup => Status::Unavailable,
            Layer::Credentials => Status::Partial, // one id for agent and kernel
            _ => Status::Enforced,
        };
        assert_eq!(report.status, expected, "{report:?}");
    }
}

#[test]
fn values_output_and_exceptions_come_in_turn() {
    let mut session = Session::launch(policy()).unwrap();
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
    let printed = session.execute("import os\nprint('a')\nos.system('echo b')\nx = 3");
    assert_eq!((printed.stdout.as_slice(), printed.repr), (b"a\nb\n".as_slice(), None));
    assert_eq!(session.execute("x").repr.as_deref(), Some("3"));
    assert_eq!(session.execute("1/0").exception.as_deref(), Some("ZeroDivisionError"));
    let flood = session.execute("print('x' * (3 << 20))");
    assert_eq!(flood.stdout.len(), 1 << 20);
    assert_eq!(flood.stdout_dropped, (2 << 20) + 1);
}

#[test]
fn questions_about_code_are_answered_in_json_and_change_nothing() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("unmistakable = 5");
    for (kind, code, word) in [
        (Assist::Complete, "unmista", "unmistakable"),
        (Assist::Inspect, "unmistakable", "int"),
        (Assist::IsComplete, "if unmistakable:", "incomplete"),
    ] {
        session.start_work(Work::Assist { kind, code: code.to_owned(), cursor: 7 }, vec![], &[]);
        let outcome = session.finish();
        let [part] = outcome.mime.as_slice() else { panic!("{outcome:?}") };
        assert_eq!(part.mime_type, "application/json");
        assert!(String::from_utf8_lossy(&part.data).contains(word), "{part:?}");
        assert_eq!(outcome.completion, Some(Completion::Ok));
    }
    assert_eq!(session.execute("unmistakable").repr.as_deref(), Some("5"));
}

#[test]
fn displays_come_in_order_and_within_the_limit_of_results() {
    let mut session = Session::launch(policy()).unwrap(); // max_result_bytes is 1 MiB
    let shown = session.execute("display(1); print('between'); display(2); None");
    let texts: Vec<_> = shown.displays.iter().map(|display| &display.mime[0].data[..]).collect();
    assert!(texts == [b"1", b"2"]);
    // A kernel that does not keep to the limit itself: the wire's DISPLAY, written by hand.
    let forged = "import os, struct\n\
        def show(size):\n\
        \x20   string = lambda data: struct.pack('<I', len(data)) + data\n\
        \x20   body = struct.pack('<BQB', 6, 3, 0) + string(b'') + struct.pack('<I', 1)\n\
        \x20   body += string(b'text/plain') + string(b'y' * size)\n\
        \x20   frame = memoryview(string(body))\n\
        \x20   while frame: frame = frame[os.write(3, frame):]\n\
        for size in (600 << 10, 600 << 10, 100 << 10): show(size)";
    session.execute("None");
    let shown = session.execute(forged);
    let sizes: Vec<_> = shown.displays.iter().map(|display| display.mime[0].data.len()).collect();
    assert_eq!((sizes, shown.completion), (vec![600 << 10, 100 << 10], Some(Completion::Ok)));
}

#[test]
fn a_kernels_death_is_reported_with_its_cause_and_it_is_replaced() {
    let mut session = Session::launch(policy()).unwrap();
    let end = session.execute("import os; print('last words', flush=True); os._exit(7)");
    assert_eq!(end.end, Some(KernelEnd::Exited(7)));
    assert_eq!(end.stdout, b"last words\n");
    let end = session.execute("import os; os.kill(os.getpid(), 11)").end;
    assert_eq!(end, Some(KernelEnd::Signaled { signal: 11, by_agent: false }));
    // A real-time signal has no name in most libraries.
    let end = session.execute("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN)").end;
    assert_eq!(end, Some(KernelEnd::Signaled { signal: 34, by_agent: false }));
    let end = session.execute("import os; os.write(3, b'nonsense' * 9)\nwhile 1: pass").end;
    assert!(matches!(end, Some(KernelEnd::Protocol(_))), "{end:?}");
    let end = session.execute("import os; os.close(3)\nwhile 1: pass").end;
    assert!(matches!(end, Some(KernelEnd::Protocol(_))), "{end:?}");
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
}

#[test]
fn interrupting_keeps_the_state_and_replacing_does_not() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("x = 5");
    let execution = session.start("print('go', flush=True)\nwhile True: pass", vec![]);
    session.wait_for_output(); // it is known to run once it has printed
    session.send(&ToAgent::Interrupt { execution });
    assert_eq!(session.finish().completion, Some(Completion::Interrupted));
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));
    session.execute("open('kept', 'w').close()");
    session.send(&ToAgent::Replace { context: FIRST_CONTEXT });
    session.wait_until_ready().unwrap();
    assert_eq!(session.execute("x").exception.as_deref(), Some("NameError"));
    assert_eq!(session.execute("import os; os.path.exists('kept')").repr.as_deref(), Some("True"));
}

#[test]
fn files_go_beneath_the_workdir_or_nowhere() {
    let mut session = Session::launch(policy()).unwrap();
    let file = |name: &str| InputFile { name: name.to_owned(), data: b"abc".to_vec() };
    session.start("open('in/a.txt').read()", vec![file("in/a.txt")]);
    assert_eq!(session.finish().repr.as_deref(), Some("'abc'"));
    session.execute("import os; os.symlink('/etc', 'link')");
    session.start("1", vec![file("link/passwd")]);
    assert!(session.finish().refused.unwrap().contains("symbolic link"));
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
}

#[test]
fn a_policy_the_agent_can_not_accept_is_refused_by_name() {
    let mut refused = policy();
    refused.workdir = PathBuf::from("relative");
    let error = Session::launch(refused).err().unwrap();
    assert!(error.contains("workdir"), "{error}");
}
