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

/// A tenant can say what it likes in the account that its policy asks for, within bounds, and ends its kernel beyond them.
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
    let minor = policy().interpreter.version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    let limited = CodePolicy { max_work: Some(100), ..CodePolicy::default() };
    let counted =
        CodePolicy { audit_events: Some(AuditEvents::default()), ..CodePolicy::default() };
    for (json, completion, policy_of, is_believed) in [
        (r#"{"work": 100}"#, 3, &limited, true),
        (r#"{"work": 101}"#, 3, &limited, false),
        (r#"{"work": -7}"#, 3, &limited, false),
        (r#"{"work": 7}"#, 0, &CodePolicy::default(), false),
        ("{}", 3, &CodePolicy::default(), false),
        ("{}", 3, &counted, false),
        (r#"{"audit_events": {"open": 1}}"#, 0, &counted, true),
        (r#"{"work": 7}"#, 0, &counted, false),
        (r#"{"audit_events": {"open": 1}}"#, 0, &limited, false),
        (r#"{"prints": [["1"]]}"#, 0, &counted, false),
        (r#"{"other": 1}"#, 0, &counted, false),
        ("7", 0, &counted, false),
    ] {
        if policy_of.max_work.is_some() && minor < 12 {
            continue; // It has no sys.monitoring, and refuses the policy.
        }
        let mut session = Session::launch(policy()).unwrap();
        let code = format!("number = 1\n{}", forge(json, completion));
        let outcome = held(&mut session, &code, policy_of.clone());
        if is_believed {
            let expected = if completion == 3 { Completion::WorkLimit } else { Completion::Ok };
            assert_eq!(outcome.completion, Some(expected), "{json}");
            assert_ne!(outcome.account, Account::default(), "{json}");
        } else {
            assert!(matches!(outcome.end, Some(KernelEnd::Protocol(_))), "{json}: {outcome:?}");
        }
    }
}
