//! Requests on a host that is short of memory.

use vivarium_api_types::RunRequest;

use super::*;
use crate::engine::testing::{echoing_with, settings};
use crate::engine::tests::{code, named, shows};
use crate::memory::{Available, Memory, MemoryReading, Sources};

const MIB: u64 = 1 << 20;

/// A host that has so much more than the reserve of the tests' settings.
fn left(mib: u64) -> MemoryReading {
    let available_bytes = (mib + 1) * MIB;
    let memory = Some(Available { available_bytes, total_bytes: 64 * 1024 * MIB });
    MemoryReading { memory, pressure_percent: Some(3.0) }
}

#[tokio::test]
async fn memory_shortage_refuses_new_sessions_and_keeps_existing_ones() {
    let (engine, _) = echoing_with(settings(), Memory::fixed(left(1000)));
    engine.create("t", named("a")).await.unwrap();
    engine.inner.memory.note(left(10));
    let run = RunRequest { code: Some("1".into()), ..RunRequest::default() };
    let refusals = [
        engine.create("t", named("b")).await.unwrap_err(),
        engine.execute("t", "b", code("1"), true).await.unwrap_err(),
        engine.run("t", run).await.unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(refused.code(), "no_capacity");
        assert!(refused.retry_after().is_some());
        assert!(refused.to_string().contains("available 10 MiB"), "{refused}");
    }
    engine.execute("t", "a", code("1"), true).await.unwrap();
    engine.reset("t", "a", None).await.unwrap();
    let conflict = engine.create("t", named("a")).await.unwrap_err();
    assert_eq!(conflict, EngineError::Conflict("a".into()), "whatever there is");
    let memory = engine.host("t").capacity.memory;
    assert_eq!(memory.available_bytes, Some(10 * MIB));
    assert_eq!(memory.session_estimate_bytes, 32 * MIB);
    shows(
        &engine,
        &[
            r#"vivarium_refusals_total{reason="no_capacity",tenant="t"} 3"#,
            r#"vivarium_creates_refused{environment="default"} 1"#,
            r#"vivarium_session_estimate_bytes{environment="default"} 33554432"#,
            "vivarium_memory_available_bytes 10485760",
            "vivarium_memory_pressure_ratio 0.03",
        ],
    );
    engine.inner.memory.note(left(1000));
    engine.create("t", named("b")).await.unwrap();
    let text = engine.scrape(0).unwrap();
    assert!(text.contains(r#"vivarium_creates_refused{environment="default"} 0"#), "{text}");
}

fn has_available(file: &tempfile::NamedTempFile, mib: u64) {
    let text = format!("MemTotal: 9999999 kB\nMemAvailable: {} kB\n", mib * 1024);
    std::fs::write(file, text).unwrap();
}

#[tokio::test]
async fn stale_memory_reading_refuses_nobody() {
    let file = tempfile::NamedTempFile::new().unwrap();
    has_available(&file, 10);
    let memory = Memory::watch(Sources::of_file(file.path().to_owned()));
    let (engine, _) = echoing_with(settings(), memory);
    let refused = engine.create("t", named("a")).await.unwrap_err();
    assert_eq!(refused.code(), "no_capacity");
    has_available(&file, 1000);
    engine.create("t", named("a")).await.unwrap();
    shows(&engine, &[r#"vivarium_refusals_total{reason="no_capacity",tenant="t"} 1"#]);
}

#[tokio::test]
async fn a_create_that_was_refused_at_first_is_one_miss_of_the_pool() {
    let file = tempfile::NamedTempFile::new().unwrap();
    has_available(&file, 10);
    let mut settings = settings();
    settings.environments.get_mut("default").unwrap().pool_size = 1;
    let memory = Memory::watch(Sources::of_file(file.path().to_owned()));
    let (engine, _) = echoing_with(settings, memory);
    let misses = |count: u64| {
        let line =
            format!(r#"vivarium_pool_takes_total{{environment="default",outcome="miss"}} {count}"#);
        shows(&engine, &[&line]);
    };
    // Of a kind that no pool has.
    let env = std::collections::BTreeMap::from([("A".to_owned(), "1".to_owned())]);
    let spec = SessionSpec { env, ..named("a") };
    let refused = engine.create("t", spec.clone()).await.unwrap_err();
    assert_eq!(refused.code(), "no_capacity");
    misses(0);
    has_available(&file, 1000);
    engine.create("t", spec).await.unwrap();
    misses(1);
}

#[tokio::test]
async fn a_thousand_creates_at_once_get_what_there_is() {
    let mut settings = settings();
    settings.session.max_sessions = vivarium_protocol::units::Limit::Unlimited;
    let (engine, _) = echoing_with(settings, Memory::fixed(left(20 * 32)));
    let mut creates = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let engine = engine.clone();
        creates.spawn(async move { engine.create("t", named(&format!("s{number}"))).await });
    }
    let mut made = 0;
    while let Some(created) = creates.join_next().await {
        match created.unwrap() {
            Ok(_) => made += 1,
            Err(refused) => assert_eq!(refused.code(), "no_capacity"),
        }
    }
    assert_eq!(made, 20);
}

#[tokio::test]
async fn memory_shortage_does_not_refuse_pooled_sessions() {
    let mut settings = settings();
    settings.environments.get_mut("default").unwrap().pool_size = 1;
    let (engine, _) = echoing_with(settings, Memory::fixed(left(1000)));
    while engine.inner.pools.ready(crate::engine::DEFAULT_TENANT, DEFAULT_ENVIRONMENT) != 1 {
        tokio::task::yield_now().await;
    }
    let name = || DEFAULT_ENVIRONMENT.to_owned();
    let chosen = Chosen { name: name(), base: name(), built: None, hidden: None };
    // The keeper has no say before this one is taken: nothing is awaited in between.
    engine.inner.memory.note(left(1));
    let taken = engine
        .try_add(crate::engine::DEFAULT_TENANT, named("a"), &chosen, None, (false, None))
        .unwrap();
    assert!(taken.is_ok());
    let refused = engine
        .try_add(crate::engine::DEFAULT_TENANT, named("b"), &chosen, None, (false, None))
        .unwrap_err();
    assert_eq!(refused.code(), "no_capacity");
}
