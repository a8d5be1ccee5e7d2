//! The engine on a backend of the test's own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vivarium_api_types::{
    Change, ExecuteRequest, Page, RunRequest, SessionPatch, SessionQuery, SessionSpec,
};
use vivarium_protocol::outcome::{Cause, Status};
use vivarium_protocol::units::Limit;

use super::testing::{echoing, engine, settings, tenant};
use super::{DEFAULT_TENANT, Engine, EngineError};
use crate::settings::Tenant;

mod quotas;

pub(super) fn code(code: &str) -> ExecuteRequest {
    ExecuteRequest { code: code.to_owned(), ..ExecuteRequest::default() }
}

pub(super) fn named(id: &str) -> SessionSpec {
    SessionSpec { id: Some(id.to_owned()), ..SessionSpec::default() }
}

fn of_page(page: &Page) -> SessionQuery {
    SessionQuery { page: page.clone(), ..SessionQuery::default() }
}

/// Each of these lines is in the metrics.
#[track_caller]
pub(super) fn shows(engine: &Engine, lines: &[&str]) {
    let text = engine.scrape(0).unwrap();
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn sessions_are_made_used_listed_and_ended() {
    let (engine, _) = echoing(settings());
    for id in ["b", "a", "c"] {
        assert_eq!(engine.create(DEFAULT_TENANT, named(id)).await.unwrap().id, id);
    }
    let outcome = engine.execute(DEFAULT_TENANT, "a", code("1"), false).await.unwrap();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Ok, "1"));
    let mut page = Page { limit: 2, after: None };
    let part = engine.list(DEFAULT_TENANT, &of_page(&page)).unwrap();
    let ids: Vec<_> = part.sessions.iter().map(|session| session.id.as_str()).collect();
    assert_eq!((ids, part.next.as_deref()), (vec!["a", "b"], Some("b")));
    page.after = part.next;
    let part = engine.list(DEFAULT_TENANT, &of_page(&page)).unwrap();
    assert_eq!((part.sessions.len(), part.next), (1, None));
    engine.delete(DEFAULT_TENANT, "a").await.unwrap();
    let unknown = EngineError::UnknownSession("a".into());
    assert_eq!(engine.delete(DEFAULT_TENANT, "a").await.unwrap_err(), unknown);
    let answer = engine.execute(DEFAULT_TENANT, "a", code("1"), false).await;
    assert_eq!(answer.unwrap_err(), unknown);
    engine.create(DEFAULT_TENANT, named("a")).await.unwrap();
}

#[tokio::test]
async fn another_tenants_session_is_as_unknown_as_one_that_is_not() {
    let (engine, _) = echoing(settings());
    engine.create("one", named("a")).await.unwrap();
    for answer in [
        engine.get("two", "a").await.map(drop),
        engine.execute("two", "a", code("1"), false).await.map(drop),
        engine.interrupt("two", "a", None).await.map(drop),
        engine.reset("two", "a", None).await.map(drop),
        engine.keepalive("two", "a").map(drop),
        engine.delete("two", "a").await,
    ] {
        assert_eq!(answer.unwrap_err(), EngineError::UnknownSession("a".into()));
    }
    assert!(engine.list("two", &SessionQuery::default()).unwrap().sessions.is_empty());
    engine.create("two", named("a")).await.unwrap();
}

#[tokio::test]
async fn an_id_is_taken_once() {
    let (engine, _) = echoing(settings());
    let (one, two) = tokio::join!(
        engine.create(DEFAULT_TENANT, named("a")),
        engine.create(DEFAULT_TENANT, named("a"))
    );
    assert_eq!([&one, &two].into_iter().filter(|made| made.is_ok()).count(), 1);
    let conflict = EngineError::Conflict("a".into());
    assert!([one, two].into_iter().any(|made| made.err() == Some(conflict.clone())));
}

#[tokio::test]
async fn executions_that_race_to_create_make_one_session() {
    let (engine, _, mut launched) = engine(settings());
    let race = async {
        tokio::join!(
            engine.execute(DEFAULT_TENANT, "a", code("1"), true),
            engine.execute(DEFAULT_TENANT, "a", code("2"), true),
            engine.execute(DEFAULT_TENANT, "a", code("3"), true)
        )
    };
    let agents = async {
        launched.recv().await.unwrap().echo().await;
    };
    let (one, two, three) = tokio::select! {
        outcomes = race => outcomes,
        () = agents => unreachable!("the session ended"),
    };
    for outcome in [one, two, three] {
        assert_eq!(outcome.unwrap().status, Status::Ok);
    }
    assert!(launched.try_recv().is_err(), "a second session was launched");
}

#[tokio::test]
async fn a_run_leaves_nothing() {
    let (engine, backend) = echoing(settings());
    let request = RunRequest { code: Some("x".into()), ..RunRequest::default() };
    let outcome = engine.run(DEFAULT_TENANT, request).await.unwrap();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Ok, "x"));
    assert_eq!(backend.killed.load(Ordering::SeqCst), 1);
    assert_eq!(engine.host(DEFAULT_TENANT).capacity.sessions, 0);
}

#[tokio::test]
async fn there_are_no_more_sessions_than_there_may_be() {
    let mut settings = settings();
    settings.session.max_sessions = Limit::new(1).unwrap();
    let (engine, _) = echoing(settings);
    engine.create(DEFAULT_TENANT, named("a")).await.unwrap();
    let refused = engine.create(DEFAULT_TENANT, named("b")).await.unwrap_err();
    assert_eq!(refused, EngineError::TooManySessions { max: 1 });
    assert!(refused.retry_after().is_some());
    engine.delete(DEFAULT_TENANT, "a").await.unwrap();
    engine.create(DEFAULT_TENANT, named("b")).await.unwrap();
}

#[tokio::test]
async fn one_tenants_sessions_leave_room_for_anothers() {
    let mut settings = settings();
    settings.session.max_sessions = Limit::new(3).unwrap();
    let max_sessions = Limit::new(2).unwrap();
    settings.tenants.insert("b".to_owned(), Tenant { max_sessions, ..tenant("t") });
    settings.tenants.insert("c".to_owned(), tenant("u"));
    let (engine, _) = echoing(settings.clone());
    // Names that are neighbours in the order of the registry.
    engine.create("c", named("a")).await.unwrap();
    for id in ["a", "b"] {
        engine.create("b", named(id)).await.unwrap();
    }
    let refused = engine.create("b", named("c")).await.unwrap_err();
    assert_eq!(refused, EngineError::TooManyOfTenant { max: 2 });
    assert!(refused.retry_after().is_some());
    engine.delete("b", "a").await.unwrap();
    engine.create("b", named("c")).await.unwrap();
    let refused = engine.create("c", named("b")).await.unwrap_err();
    assert_eq!(refused, EngineError::TooManySessions { max: 3 });
    // A reload holds for the next one.
    settings.tenants.remove("b");
    settings.session.max_sessions = Limit::Unlimited;
    engine.reload(Arc::new(settings)).await;
    engine.create("b", named("d")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unused_sessions_are_reaped_and_kept_ones_are_not() {
    let mut settings = settings();
    settings.session.reap_interval = Duration::from_millis(5);
    let (engine, backend) = echoing(settings);
    let spec = SessionSpec { idle_timeout_ms: Some(20), ..named("short") };
    engine.create(DEFAULT_TENANT, spec).await.unwrap();
    engine.create(DEFAULT_TENANT, named("long")).await.unwrap();
    let session = engine.inner.registry.get(DEFAULT_TENANT, "short").unwrap();
    session.gone().await;
    assert_eq!(backend.killed.load(Ordering::SeqCst), 1);
    assert!(engine.get(DEFAULT_TENANT, "short").await.is_err());
    assert!(engine.keepalive(DEFAULT_TENANT, "long").is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_session_outlives_its_lifetime() {
    let mut settings = settings();
    settings.session.reap_interval = Duration::from_millis(5);
    settings.session.max_lifetime = Some(Duration::from_millis(20));
    let (engine, _, mut launched) = engine(settings);
    let (outcome, ()) = tokio::join!(engine.execute(DEFAULT_TENANT, "a", code("1"), true), async {
        let mut agent = launched.recv().await.unwrap();
        agent.start().await;
        agent.begin().await;
        assert_eq!(agent.recv().await, None, "end of file");
    });
    let outcome = outcome.unwrap();
    assert!(outcome.detail.contains("deadline"), "{}", outcome.detail);
    assert_eq!((outcome.status, outcome.cause), (Status::Killed, Some(Cause::Expired)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_between_two_looks_of_the_reaper_and_can_be_moved() {
    let (engine, _) = echoing(settings());
    for id in ["a", "b"] {
        engine.create(DEFAULT_TENANT, named(id)).await.unwrap();
    }
    let in_a_second = || jiff::Timestamp::now() + jiff::SignedDuration::from_secs(1);
    let patch = |deadline| SessionPatch { deadline, ..SessionPatch::default() };
    let (soon, never) = (patch(Change::Set(in_a_second())), patch(Change::Remove));
    for id in ["a", "b"] {
        let info = engine.adjust(DEFAULT_TENANT, id, soon.clone()).await.unwrap();
        assert!(info.deadline.is_some() && info.expires_at <= info.deadline.unwrap());
    }
    let info = engine.adjust(DEFAULT_TENANT, "b", never).await.unwrap();
    assert_eq!(info.deadline, None);
    let session = engine.inner.registry.get(DEFAULT_TENANT, "a").unwrap();
    let before = tokio::time::Instant::now();
    session.gone().await;
    assert!(before.elapsed() < Duration::from_secs(2), "the reaper looks every 300 s");
    assert!(engine.get(DEFAULT_TENANT, "b").await.is_ok());
}

#[tokio::test]
async fn executions_are_listed_newest_first_and_those_of_an_earlier_session_are_not() {
    let (engine, _) = echoing(settings());
    for _ in 0..3 {
        engine.execute(DEFAULT_TENANT, "a", code("1"), true).await.unwrap();
    }
    let ids = |page: &Page| {
        let list = engine.executions(DEFAULT_TENANT, "a", page).unwrap();
        let ids: Vec<_> = list.executions.iter().map(|execution| execution.id.clone()).collect();
        (ids.join(" "), list.next)
    };
    assert_eq!(ids(&Page::default()), ("3 2 1".to_owned(), None));
    assert_eq!(ids(&Page { limit: 2, after: None }), ("3 2".to_owned(), Some("2".to_owned())));
    assert_eq!(ids(&Page { limit: 2, after: Some("2".to_owned()) }), ("1".to_owned(), None));
    let bad = Page { limit: 2, after: Some("x".to_owned()) };
    assert!(engine.executions(DEFAULT_TENANT, "a", &bad).is_err());
    assert!(engine.executions("other", "a", &Page::default()).is_err());
    engine.delete(DEFAULT_TENANT, "a").await.unwrap();
    assert!(engine.executions(DEFAULT_TENANT, "a", &Page::default()).is_err());
    engine.execute(DEFAULT_TENANT, "a", code("1"), true).await.unwrap();
    assert_eq!(ids(&Page::default()), ("1".to_owned(), None));
}

#[tokio::test]
async fn a_shutdown_lets_executions_end_and_takes_no_new_ones() {
    let (engine, backend, mut launched) = engine(settings());
    let executing = engine.execute(DEFAULT_TENANT, "a", code("1"), true);
    let agent = async {
        let mut agent = launched.recv().await.unwrap();
        agent.start().await;
        let execution = agent.begin().await;
        let stopping = tokio::spawn({
            let engine = engine.clone();
            async move { engine.shutdown(Duration::from_secs(3600)).await }
        });
        while !engine.is_draining() {
            tokio::task::yield_now().await;
        }
        for refused in [
            engine.create(DEFAULT_TENANT, named("b")).await.err(),
            engine.execute(DEFAULT_TENANT, "a", code("2"), false).await.err(),
        ] {
            assert_eq!(refused, Some(EngineError::Draining));
        }
        agent.done(execution, vivarium_protocol::message::Completion::Ok).await;
        stopping.await.unwrap();
    };
    let (outcome, ()) = tokio::join!(executing, agent);
    assert_eq!(outcome.unwrap().status, Status::Ok);
    assert_eq!(backend.killed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_shutdown_without_grace_kills_what_runs() {
    let (engine, _, mut launched) = engine(settings());
    let agent = async {
        let mut agent = launched.recv().await.unwrap();
        agent.start().await;
        agent.begin().await;
        engine.shutdown(Duration::ZERO).await;
    };
    let (outcome, ()) = tokio::join!(engine.execute(DEFAULT_TENANT, "a", code("1"), true), agent);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.status, outcome.cause), (Status::Killed, Some(Cause::Draining)));
    assert_eq!(engine.host(DEFAULT_TENANT).capacity.sessions, 0);
}

#[tokio::test]
async fn an_unknown_environment_is_named() {
    let (engine, _) = echoing(settings());
    let spec = SessionSpec { environment: Some("nope".into()), ..SessionSpec::default() };
    let error = engine.create(DEFAULT_TENANT, spec).await.unwrap_err();
    assert_eq!(error.to_string(), "environment: \"nope\" is not configured; there is default");
}
