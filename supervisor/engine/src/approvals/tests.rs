//! Asking, deciding, and what comes between.

use vivarium_api_types::ApprovalDecision::{Allow, Deny};
use vivarium_protocol::message::{ReprLimits, Work};
use vivarium_protocol::policy::Network;

use super::*;
use crate::engine::testing::{settings, tenant};
use crate::session::question::of_execution;
use crate::session::{Identity, WorkSpec};

fn approvals(change: impl FnOnce(&mut Approval)) -> Arc<Approvals> {
    let approvals = Approvals::new(Arc::new(Metrics::new().unwrap()), AuditLog::default());
    let mut settings = settings();
    settings.approval.executions = ApprovalRule::Ask;
    settings.approval.remember = Remember::Tenant;
    change(&mut settings.approval);
    settings.tenants.insert("a".into(), tenant("1"));
    approvals.set(&settings);
    Arc::new(approvals)
}

fn question(session: &str, code: &str) -> Question {
    let who = Identity {
        id: session.to_owned(),
        tenant: "a".to_owned(),
        environment: "default".to_owned(),
        network: Network::Loopback,
        approval: Default::default(),
    };
    let spec = WorkSpec {
        work: Work::Code {
            code: code.to_owned(),
            filename: String::new(),
            cwd: None,
            env: vec![],
            repr: ReprLimits::IPYTHON,
            tools: false,
            policy: Box::default(),
        },
        files: vec![],
        outputs: vec![],
        timeout: Duration::from_secs(1),
        cancel_on_disconnect: false,
        queued: true,
        descriptor: None,
        survives_reset: false,
        context: None,
        asked_tools: Default::default(),
        tools: None,
        asked_policy: Default::default(),
        approval: None,
    };
    of_execution(&who, 1, &spec)
}

fn ask(approvals: &Arc<Approvals>, session: &str, code: &str) -> Asked {
    approvals.ask(|| question(session, code), "a", ApprovalRule::Allow)
}

fn waiting(approvals: &Arc<Approvals>, session: &str, code: &str) -> Waiting {
    match ask(approvals, session, code) {
        Asked::Waiting(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

fn decision(decision: ApprovalDecision, remember: Option<Remember>) -> DecideRequest {
    DecideRequest { decision, remember, reason: Some("because".into()) }
}

#[tokio::test]
async fn decision_reaches_who_waits_once_and_only_from_who_may() {
    let approvals = approvals(|_| ());
    let (one, other) = (waiting(&approvals, "s", "1"), waiting(&approvals, "s", "2"));
    let id = one.id.clone();
    let unknown = approvals.decide(Some("b"), &id, "x", decision(Allow, None));
    assert_eq!(unknown, Err(NotDecided::Unknown));
    assert!(approvals.get(Some("b"), &id).is_none());
    let info = approvals.decide(None, &id, "uid 0", decision(Allow, Some(Remember::Nothing)));
    let info = info.unwrap();
    assert_eq!((info.state, info.by.as_deref()), (ApprovalState::Allowed, Some("uid 0")));
    assert!(one.decided().await.is_allowed());
    let again = approvals.decide(Some("a"), &id, "x", decision(Deny, None));
    assert_eq!(again, Err(NotDecided::Over(ApprovalState::Allowed)));
    let seen = approvals.get(Some("a"), &id).unwrap();
    assert_eq!(seen.by.as_deref(), Some("administrator"), "a tenant is not told who");

    approvals.decide(Some("a"), &other.id, "token t of a", decision(Deny, None)).unwrap();
    let by = approvals.get(Some("a"), &other.id).unwrap().by;
    assert_eq!(by.as_deref(), Some("token t of a"));
    let denied = other.decided().await;
    assert_eq!(denied.state, ApprovalState::Denied);
    assert_eq!(denied.reason.as_deref(), Some("because"));
}

#[tokio::test]
async fn what_a_request_tightened_holds_whatever_becomes_of_the_rule() {
    let approvals = approvals(|rule| rule.executions = ApprovalRule::Allow);
    let tightened = |at_least| {
        let asked = || Question { at_least, ..question("s", "1") };
        approvals.ask(asked, "a", at_least)
    };
    assert!(matches!(tightened(ApprovalRule::Allow), Asked::Allowed), "the control");
    assert!(matches!(tightened(ApprovalRule::Deny), Asked::Denied));
    let Asked::Waiting(waiting) = tightened(ApprovalRule::Ask) else { panic!() };
    // A reload that changes nothing for it.
    let mut settings = settings();
    settings.tenants.insert("a".into(), tenant("1"));
    approvals.set(&settings);
    assert_eq!(approvals.get(None, &waiting.id).unwrap().state, ApprovalState::Pending);
    settings.approval.executions = ApprovalRule::Deny;
    approvals.set(&settings);
    assert_eq!(waiting.decided().await.state, ApprovalState::Denied);
    assert!(matches!(tightened(ApprovalRule::Ask), Asked::Denied), "and it widens nothing");
}

#[tokio::test(start_paused = true)]
async fn nobody_who_decides_is_a_denial_and_nobody_who_waits_a_withdrawal() {
    let approvals = approvals(|_| ());
    let late = waiting(&approvals, "s", "1");
    let id = late.id.clone();
    assert_eq!(late.decided().await.state, ApprovalState::TimedOut);
    assert_eq!(approvals.get(None, &id).unwrap().state, ApprovalState::TimedOut);
    let gone = waiting(&approvals, "s", "1");
    let id = gone.id.clone();
    drop(gone);
    let over = approvals.decide(None, &id, "x", decision(Allow, None));
    assert_eq!(over, Err(NotDecided::Over(ApprovalState::Withdrawn)));
    assert!(matches!(ask(&approvals, "s", "1"), Asked::Waiting(_)), "and nothing is remembered");
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_the_same_call_for_as_long_as_the_rule_says() {
    let approvals = approvals(|rule| rule.remember_for = Duration::from_mins(60));
    let allow = |waiting: &Waiting, remember| {
        approvals.decide(None, &waiting.id, "x", decision(Allow, remember)).unwrap()
    };
    let (first, same) = (waiting(&approvals, "s", "1"), waiting(&approvals, "t", "1"));
    allow(&first, Some(Remember::Session));
    let (in_session, elsewhere) = (ask(&approvals, "s", "1"), ask(&approvals, "u", "1"));
    assert!(matches!(in_session, Asked::Allowed) && matches!(elsewhere, Asked::Waiting(_)));
    assert!(matches!(ask(&approvals, "s", "1 "), Asked::Waiting(_)), "not quite the same");
    approvals.forget_session("a", "s");
    assert!(matches!(ask(&approvals, "s", "1"), Asked::Waiting(_)), "another session of its id");

    // One that waits already, too.
    let second = waiting(&approvals, "v", "1");
    allow(&second, None);
    assert!(same.decided().await.is_allowed());
    assert!(matches!(ask(&approvals, "anywhere", "1"), Asked::Allowed));
    tokio::time::advance(Duration::from_mins(61)).await;
    assert!(matches!(ask(&approvals, "anywhere", "1"), Asked::Waiting(_)));
}

#[tokio::test]
async fn decision_remembers_no_more_than_the_rule() {
    let approvals = approvals(|rule| rule.remember = Remember::Session);
    let one = waiting(&approvals, "s", "1");
    let more = approvals.decide(None, &one.id, "x", decision(Allow, Some(Remember::Tenant)));
    assert_eq!(more, Err(NotDecided::RemembersMore(Remember::Session)));
    assert_eq!(approvals.get(None, &one.id).unwrap().state, ApprovalState::Pending);
}

#[tokio::test]
async fn no_more_wait_than_may_however_many_ask_at_once() {
    let approvals = approvals(|rule| rule.max_waiting = 7);
    let barrier = std::sync::Barrier::new(50);
    let found: Vec<_> = std::thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            (0..4).map(|number| ask(&approvals, "s", &number.to_string())).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let waiting = found.iter().filter(|asked| matches!(asked, Asked::Waiting(_))).count();
    let refused = found.iter().filter(|asked| matches!(asked, Asked::TooMany)).count();
    assert_eq!((waiting, refused), (7, 193));
    drop(found);
    assert!(approvals.pending().is_empty());
    assert!(matches!(ask(&approvals, "s", "1"), Asked::Waiting(_)));
}

#[tokio::test]
async fn lists_come_in_parts_and_have_no_code() {
    let approvals = approvals(|_| ());
    let all: Vec<_> = (0..5).map(|n| waiting(&approvals, "s", &n.to_string())).collect();
    let mut query = ApprovalQuery { limit: 3, ..ApprovalQuery::default() };
    let (page, more) = approvals.list(Some("a"), &query).unwrap();
    assert!(more && page.len() == 3 && page[0].id == all[0].id);
    assert!(page[0].execution.as_ref().unwrap().code.is_none());
    query.after = Some(page[2].id.clone());
    let (page, more) = approvals.list(None, &query).unwrap();
    assert!(!more && page.len() == 2);
    let shown = approvals.get(None, &all[4].id).unwrap().execution.unwrap();
    assert_eq!(shown.code.as_deref(), Some("4"));
    assert!(approvals.list(Some("b"), &query).is_none(), "another tenant's id");
    let own = ApprovalQuery::default();
    assert_eq!(approvals.list(Some("b"), &own), Some((vec![], false)));
}

#[tokio::test]
async fn rules_that_change_decide_what_waits() {
    let approvals = approvals(|_| ());
    let mut settings = settings();
    let denied = waiting(&approvals, "s", "1");
    settings.approval.executions = ApprovalRule::Deny;
    approvals.set(&settings);
    assert_eq!(denied.decided().await.state, ApprovalState::Denied);
    assert!(matches!(ask(&approvals, "s", "1"), Asked::Denied));
    settings.approval.executions = ApprovalRule::Ask;
    approvals.set(&settings);
    let allowed = waiting(&approvals, "s", "1");
    settings.approval.executions = ApprovalRule::Allow;
    approvals.set(&settings);
    assert!(allowed.decided().await.is_allowed());
    assert!(matches!(ask(&approvals, "s", "1"), Asked::Allowed));
}
