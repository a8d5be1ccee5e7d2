//! Which sessions are asked, and what is learnt.

use vivarium_protocol::message::{FromAgent, ToAgent};

use super::*;
use crate::engine::DEFAULT_ENVIRONMENT;
use crate::engine::admission::memory_policy;
use crate::engine::testing::{echoing, engine, settings};
use crate::engine::tests::named;

#[tokio::test]
async fn sampler_asks_each_idle_agent_once() {
    let (engine, _) = echoing(settings());
    for id in ["a", "b"] {
        engine.create("t", named(id)).await.unwrap();
    }
    let mut sampler = Sampler::default();
    let mut next = || {
        let next = sampler.next(&engine.inner.registry.all());
        next.map(|session| session.identity.id.clone())
    };
    let first = [next(), next()];
    assert!(first.contains(&Some("a".to_owned())) && first.contains(&Some("b".to_owned())));
    assert_eq!(next(), None);
    engine.find("t", "b").unwrap().touch();
    assert_eq!(next().as_deref(), Some("b"));
    assert_eq!(next(), None);
    engine.delete("t", "a").await.unwrap();
    assert_eq!(next(), None);
    engine.create("t", named("a")).await.unwrap();
    assert_eq!(next().as_deref(), Some("a"), "another of this name");
}

#[tokio::test]
async fn sampler_records_agent_memory() {
    let (engine, _, mut launched) = engine(settings());
    let make = tokio::spawn({
        let engine = engine.clone();
        async move { engine.create("t", named("a")).await }
    });
    let mut agent = launched.recv().await.unwrap();
    agent.start().await;
    make.await.unwrap().unwrap();
    let session = engine.find("t", "a").unwrap();
    for (kernel_pss_bytes, expected) in [(0, 32 << 20), (4 << 20, 5 << 20)] {
        let answer = async {
            assert_eq!(agent.recv().await, Some(ToAgent::Describe));
            let description = Description {
                generation: Some(1),
                execution: None,
                processes: 1,
                agent_pss_bytes: 1 << 20,
                kernel_pss_bytes,
                disk_bytes: 0,
            };
            agent.send(FromAgent::Described(description)).await;
        };
        tokio::join!(sample(&session, &engine.inner.memory), answer);
        let policy = memory_policy(&settings());
        let memory = engine.inner.memory.status(DEFAULT_ENVIRONMENT, policy);
        assert_eq!(memory.estimate_bytes, expected);
    }
}
