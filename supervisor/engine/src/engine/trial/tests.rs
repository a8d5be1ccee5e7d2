use std::sync::Arc;
use std::time::Duration;

use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Failure, FromAgent, Transient};
use vivarium_protocol::policy::Interpreter;

use super::*;
use crate::engine::testing;
use crate::passt::{NoPasta, Pasta};

fn failure(layer: Option<Layer>, transient: Option<Transient>) -> Failure {
    Failure { layer, transient, ..Failure::new("try something", "EAGAIN") }
}

/// What is concluded where the first trials fail like this, and how many were made.
async fn prepared_after(failures: &[Failure]) -> (Result<Prepared, StartError>, u32) {
    let no_passt = Err(NoPasta::new("a test", ""));
    prepared_with(&testing::settings(), &no_passt, failures.iter().cloned().map(Some)).await
}

/// The same with these settings; `None` is a trial that succeeds.
async fn prepared_with(
    settings: &Settings,
    passt: &Result<Pasta, NoPasta>,
    trials: impl Iterator<Item = Option<Failure>>,
) -> (Result<Prepared, StartError>, u32) {
    let (engine, backend, mut launched) = testing::engine(settings.clone());
    let failures: Vec<_> = trials.collect();
    let agents = tokio::spawn(async move {
        let mut failures = failures.into_iter();
        let mut count = 0_u32;
        while let Some(mut agent) = launched.recv().await {
            count += 1;
            agent.launched().await;
            match failures.next().flatten() {
                Some(failure) => agent.send(FromAgent::Failed(failure)).await,
                None => agent.ready(1).await,
            }
            while agent.recv().await.is_some() {}
        }
        count
    });
    let interpreter = Interpreter {
        path: "/usr/bin/python3".into(),
        prefixes: vec![],
        isolate: vec![],
        program: Arc::default(),
        version: "3.0".into(),
        wasm: None,
    };
    let inspected = Inspected { interpreter, hidden: vec![], missing: vec![] };
    let host = &engine.inner.host;
    let preparing = prepare(settings, host, "default", inspected, None, passt);
    let result = tokio::time::timeout(Duration::from_secs(60), preparing).await.unwrap();
    drop((engine, backend));
    (result, agents.await.unwrap())
}

#[tokio::test]
async fn a_layer_that_fails_once_is_there() {
    let once = failure(Some(Layer::Seccomp), None);
    let (prepared, trials) = prepared_after(&[once]).await;
    assert!(prepared.unwrap().plan.applies(Layer::Seccomp));
    assert_eq!(trials, 2);
}

#[tokio::test]
async fn a_layer_that_fails_twice_is_missing() {
    let twice = failure(Some(Layer::Seccomp), None);
    let (prepared, trials) = prepared_after(&[twice.clone(), twice]).await;
    assert!(!prepared.unwrap().plan.applies(Layer::Seccomp));
    assert_eq!(trials, 3, "one without it");
}

#[tokio::test]
async fn what_may_pass_says_nothing_of_a_layer() {
    let busy = failure(Some(Layer::Seccomp), Some(Transient::Processes));
    let (prepared, trials) = prepared_after(&[busy.clone(), busy.clone(), busy.clone()]).await;
    assert!(prepared.unwrap().plan.applies(Layer::Seccomp));
    assert_eq!(trials, MAX_TRIALS);
    let (prepared, _) = prepared_after(&vec![busy; MAX_TRIALS as usize]).await;
    assert!(matches!(prepared, Err(StartError::Trial { .. })));
}

#[tokio::test]
async fn a_busy_host_gives_no_session_the_hosts_network() {
    let mut settings = testing::settings();
    settings.sandbox.allowed_networks.push(Network::Full);
    let passt = Ok(Pasta { path: "/usr/bin/pasta".into() });
    let after = async |failure: Failure| {
        let trials = std::iter::once(None).chain((0..MAX_TRIALS).map(|_| Some(failure.clone())));
        prepared_with(&settings, &passt, trials).await.0
    };
    let busy = after(failure(None, Some(Transient::Processes))).await;
    assert!(matches!(busy, Err(StartError::Trial { .. })));
    let without = after(failure(None, None)).await.unwrap();
    assert!(!without.isolates_full(), "the control: none can be had here");
}
