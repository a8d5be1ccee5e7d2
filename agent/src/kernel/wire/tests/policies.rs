//! What goes to a kernel of an execution's policy, and what comes back of it.

use vivarium_protocol::message::{AuditEvents, CodePolicy, Echo, HostModule, ImportRule, NameRule};

use super::*;

/// A kernel gets the policy in the form that the table of frames has.
#[test]
fn a_policy_is_json_and_none_is_empty() {
    assert_eq!(policy_text(&CodePolicy::default()), "");
    let policy = CodePolicy {
        max_work: Some(5),
        imports: Some(ImportRule::Allow(vec!["math".into()])),
        audit_events: Some(AuditEvents { deny: vec!["open".into()] }),
        echo: Echo::All,
        prints: true,
        modules: vec![HostModule { name: "host".into(), content: "{}".into() }],
        names: Some(NameRule::Keep(vec![])),
    };
    let json = concat!(
        r#"{"max_work":5,"imports":{"allow":["math"]},"audit_events":{"deny":["open"]},"#,
        r#""echo":"all","prints":true,"modules":[{"name":"host","content":"{}"}],"names":{"keep":[]}}"#,
    );
    assert_eq!(policy_text(&policy), json);
}

#[test]
fn an_account_has_what_its_policy_asked_for() {
    let read = |json| match decode(&account(7, json)).unwrap().remove(0) {
        FromKernel::Account { execution: 7, account } => account,
        other => unreachable!("{other:?}"),
    };
    assert_eq!(read("{}"), Account::default());
    let json = r#"{"work": 12, "audit_events": {"b": 1, "a": 3}, "prints": [["1", "'a'"], []]}"#;
    let whole = Account {
        work: Some(12),
        audit_events: Some(vec![("a".into(), 3), ("b".into(), 1)]),
        prints: vec![vec!["1".into(), "'a'".into()], vec![]],
    };
    assert_eq!(read(json), whole);
}

#[test]
fn a_forged_account_is_refused_when_it_is_none_or_too_large() {
    let names: Vec<_> = (0..258).map(|number| format!("\"{number}\":1")).collect();
    let too_many_events = format!("{{\"audit_events\":{{{}}}}}", names.join(","));
    let too_many_prints = format!("{{\"prints\":[{}]}}", vec!["[]"; 1001].join(","));
    let too_many_values = format!("{{\"prints\":[[{}]]}}", vec!["\"\""; 65].join(","));
    for json in [
        "",
        "[]",
        "{\"work\": -1}",
        "{\"other\": 1}",
        &*too_many_events,
        &*too_many_prints,
        &*too_many_values,
    ] {
        let refused = decode(&account(1, json));
        assert!(matches!(refused, Err(WireError::BadAccount(_))), "{json}: {refused:?}");
    }
    let long = " ".repeat((256 << 10) + 1);
    assert!(matches!(decode(&account(1, &long)), Err(WireError::TooLarge { .. })));
}

#[test]
fn only_what_a_policy_asks_for_is_believed() {
    let all = Noted { max_work: Some(7), audit_events: true, prints: true };
    for (json, completion) in [
        (r#"{"work": 7}"#, 0),
        (r#"{"audit_events": {}}"#, 0),
        (r#"{"prints": [[]]}"#, 0),
        ("{}", 3),
    ] {
        let bytes = [started(5), account(5, json), done(5, completion)].concat();
        for (noted, is_believed) in [(all, true), (Noted::default(), false)] {
            let mut turn = Turn::default();
            turn.sent(5, noted);
            let followed = follow(&mut turn, &bytes);
            let is_refused = matches!(followed, Err(WireError::Unasked(_)));
            assert_eq!((followed.is_ok(), is_refused), (is_believed, !is_believed), "{json}");
        }
    }
}
