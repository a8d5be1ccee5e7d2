use std::time::Duration;

use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Failure, FromAgent, Transient};
use vivarium_protocol::policy::Interpreter;

use super::*;
use crate::engine::testing;
use crate::passt::NoPasta;

fn failure(layer: Option<Layer>, transient: Option<Transient>) -> Failure {
    Failure { layer, transient, ..Failure::new("try something", "EAGAIN") }
}

/// What is concluded where the first trials fail like this, and how many were made.
async fn prepared_after(failures: &[Failure]) -> (Result<Prepared, StartError>, usize) {
    let (engine, backend, mut launched) = testing::engine(testing::settings());
    let failures = failures.to_vec();
    let agents = tokio::spawn(async move {
        let mut failures = failures.into_iter();
        let mut count = 0;
        while let Some(mut agent) = launched.recv().await {
            count += 1;
            agent.launched().await;
            match failures.next() {
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
        program: vec![],
        version: "3.0".into(),
        wasm: None,
    };
    let inspected = Inspected { interpreter, hidden: vec![], missing: vec![] };
    let inner = &engine.inner;
    let no_passt = Err(NoPasta::new("a test", ""));
    let settings = testing::settings();
    let preparing = prepare(&settings, &inner.host, "default", inspected, None, &no_passt);
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
    let (prepared, _) = prepared_after(&vec![busy; MAX_TRIALS]).await;
    assert!(matches!(prepared, Err(StartError::Trial { .. })));
}
