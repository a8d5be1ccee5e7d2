//! What an execution's policy says reaches the kernel, and what it noted comes back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use harness::{Outcome, Session, policy};
use vivarium_protocol::message::{AuditEvents, CodePolicy, Completion, ImportRule, Work};
use vivarium_protocol::outcome::{Account, KernelEnd};

fn held(session: &mut Session, code: &str, held: CodePolicy) -> Outcome {
    let mut work = Work::code(code.to_owned());
    let Work::Code { policy, .. } = &mut work else { unreachable!() };
    **policy = held;
    session.start_work(work, vec![], &[]);
    session.finish()
}

#[test]
fn a_policy_holds_one_execution_and_its_account_comes_with_the_end() {
    let mut session = Session::launch(policy()).unwrap();
    let held_to = CodePolicy {
        imports: Some(ImportRule::Deny(vec!["socket".into()])),
        audit_events: Some(AuditEvents::default()),
        prints: true,
        ..CodePolicy::default()
    };
    let code = "import sys\nprint(1, 'a')\nsys.audit('mine')\nimport socket";
    let outcome = held(&mut session, code, held_to);
    assert_eq!(outcome.completion, Some(Completion::Error));
    assert_eq!(outcome.exception.as_deref(), Some("vivarium.ImportNotAllowed"));
    let Account { work, audit_events, prints } = outcome.account;
    assert_eq!((work, prints), (None, vec![vec!["1".to_owned(), "'a'".to_owned()]]));
    assert!(audit_events.unwrap().contains(&("mine".to_owned(), 1)));
    let outcome = session.execute("import socket; print(1)");
    assert_eq!((outcome.completion, outcome.account), (Some(Completion::Ok), Account::default()));
}

/// A tenant can say what it likes in its account, within bounds, and ends its kernel beyond them.
#[test]
fn a_forged_account_is_bounded() {
    let forge = |json: &str, completion: u8| {
        format!(
            "import os, struct\n\
             body = {json:?}.encode()\n\
             frame = struct.pack('<BQI', 7, number, len(body)) + body\n\
             done = struct.pack('<BQB', 4, number, {completion})\n\
             os.write(3, b''.join(struct.pack('<I', len(it)) + it for it in (frame, done)))\n\
             os.read(0, 1)\nwhile True: pass"
        )
    };
    for (json, completion, is_believed) in [
        (r#"{"work": 7}"#, 3, true),
        (r#"{"work": -7}"#, 3, false),
        (r#"{"other": 1}"#, 0, false),
        ("7", 0, false),
    ] {
        let mut session = Session::launch(policy()).unwrap();
        let code = format!("number = 1\n{}", forge(json, completion));
        let outcome = session.execute(&code);
        if is_believed {
            assert_eq!(outcome.completion, Some(Completion::WorkLimit));
            assert_eq!(outcome.account.work, Some(7));
        } else {
            assert!(matches!(outcome.end, Some(KernelEnd::Protocol(_))), "{json}: {outcome:?}");
        }
    }
}
