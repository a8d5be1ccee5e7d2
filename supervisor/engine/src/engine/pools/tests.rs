//! Requests that can have a session from a pool, and those that can not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vivarium_api_types::{RunRequest, SessionQuery, SessionSpec};
use vivarium_protocol::outcome::Status;
use vivarium_protocol::policy::Network;
use vivarium_protocol::units::Limit;

use super::*;
use crate::engine::EngineError;
use crate::engine::testing::{echoing, settings, tenant};
use crate::engine::tests::{code, named, shows};

fn pooled(size: usize) -> Settings {
    let mut settings = settings();
    settings.environments.get_mut("default").unwrap().pool_size = size;
    settings
}

async fn until_ready(engine: &Engine, tenant: &str, count: usize) {
    while engine.inner.pools.ready(tenant, "default") != count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sessions_with_nothing_special_come_from_the_pool_and_others_do_not() {
    let (engine, _) = echoing(pooled(3));
    until_ready(&engine, DEFAULT_TENANT, 3).await;
    assert!(engine.list(DEFAULT_TENANT, &SessionQuery::default()).unwrap().sessions.is_empty());
    let host = engine.host(DEFAULT_TENANT);
    assert_eq!(host.environments[0].pool, Some(PoolInfo { ready: 3, low: 2, high: 3 }));
    assert_eq!(host.capacity.sessions, 0);
    let special = [
        SessionSpec { env: BTreeMap::from([("A".into(), "1".into())]), ..named("env") },
        SessionSpec { network: Some(Network::None), ..named("network") },
        SessionSpec {
            limits: Some(serde_json::from_str(r#"{"max_procs": 1}"#).unwrap()),
            ..named("limits")
        },
    ];
    for spec in special {
        engine.create(DEFAULT_TENANT, spec).await.unwrap();
    }
    assert_eq!(engine.inner.pools.ready(DEFAULT_TENANT, "default"), 3);
    // What is only ours to know is the session's own.
    let spec = SessionSpec { idle_timeout_ms: Some(60_000), ..named("plain") };
    let info = engine.create(DEFAULT_TENANT, spec).await.unwrap();
    assert_eq!(engine.inner.pools.ready(DEFAULT_TENANT, "default"), 2);
    assert!(info.expires_at.duration_since(info.created_at).as_secs() <= 60);
    let request = RunRequest { code: Some("x".into()), ..RunRequest::default() };
    let outcome = engine.run(DEFAULT_TENANT, request).await.unwrap();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Ok, "x"));
    engine.execute(DEFAULT_TENANT, "made", code("y"), true).await.unwrap();
    shows(
        &engine,
        &[
            r#"vivarium_pool_takes_total{environment="default",outcome="hit"} 3"#,
            r#"vivarium_pool_takes_total{environment="default",outcome="miss"} 3"#,
            r#"vivarium_session_start_seconds_count{tenant="default"} 6"#,
            r#"vivarium_pool_paused{reason="memory_pressure"} 0"#,
        ],
    );
}

#[tokio::test]
async fn a_request_that_is_refused_takes_nothing() {
    let mut settings = pooled(1);
    settings.session.max_sessions = Limit::new(1).unwrap();
    let (engine, _) = echoing(settings);
    until_ready(&engine, DEFAULT_TENANT, 1).await;
    engine.create(DEFAULT_TENANT, named("a")).await.unwrap();
    until_ready(&engine, DEFAULT_TENANT, 1).await;
    let refused = engine.create(DEFAULT_TENANT, named("a")).await.unwrap_err();
    assert_eq!(refused, EngineError::Conflict("a".into()));
    let refused = engine.create(DEFAULT_TENANT, named("b")).await.unwrap_err();
    assert_eq!(refused, EngineError::TooManySessions { max: 1 });
    assert_eq!(engine.inner.pools.ready(DEFAULT_TENANT, "default"), 1);
}

#[tokio::test]
async fn a_tenants_pool_begins_with_its_first_session() {
    let mut settings = pooled(1);
    settings.tenants.insert("a".to_owned(), tenant("1"));
    settings.tenants.insert("b".to_owned(), tenant("2"));
    let (engine, _) = echoing(settings.clone());
    engine.create("a", named("one")).await.unwrap();
    until_ready(&engine, "a", 1).await;
    for tenant in ["b", DEFAULT_TENANT] {
        assert_eq!(engine.inner.pools.ready(tenant, "default"), 0, "{tenant}");
    }
    // A tenant that is gone has none any more.
    settings.tenants.remove("a");
    engine.reload(Arc::new(settings)).await;
    assert_eq!(engine.inner.pools.ready("a", "default"), 0);
}

#[tokio::test]
async fn a_reload_replaces_what_does_not_fit_any_more() {
    let (engine, backend) = echoing(pooled(2));
    until_ready(&engine, DEFAULT_TENANT, 2).await;
    let mut settings = pooled(2);
    settings.session.idle_timeout = Duration::from_secs(60);
    engine.reload(Arc::new(settings.clone())).await;
    assert_eq!(engine.inner.pools.ready(DEFAULT_TENANT, "default"), 2, "they still fit");
    settings.sandbox.limits.max_procs = Limit::new(3).unwrap();
    engine.reload(Arc::new(settings)).await;
    while backend.killed.load(Ordering::SeqCst) != 2 {
        tokio::task::yield_now().await;
    }
    until_ready(&engine, DEFAULT_TENANT, 2).await;
    let info = engine.create(DEFAULT_TENANT, named("a")).await.unwrap();
    assert_eq!(info.limits.max_procs, Limit::new(3).unwrap());
    assert_eq!(engine.inner.pools.ready(DEFAULT_TENANT, "default"), 1);
    engine.reload(Arc::new(pooled(0))).await;
    assert_eq!(engine.host(DEFAULT_TENANT).environments[0].pool, None);
    assert!(!engine.scrape(0).unwrap().contains("vivarium_pool_sessions{"));
}

#[tokio::test]
async fn a_shutdown_ends_those_that_wait() {
    let (engine, backend) = echoing(pooled(2));
    until_ready(&engine, DEFAULT_TENANT, 2).await;
    engine.shutdown(Duration::ZERO).await;
    assert_eq!(backend.killed.load(Ordering::SeqCst), 2);
}
