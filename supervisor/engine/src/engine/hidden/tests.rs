//! An agent that answers as a test says, and notes what it is asked.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use vivarium_api_types::SessionSpec;

use super::*;
use crate::engine::testing::{echoing, settings};
use crate::engine::tests::named;
use crate::settings::{AgentBinary, Quotas, Rate, Settings, Tenant};

const T: &str = "t";

/// Settings with an agent that runs these lines of a shell. Another process writes them: were the file open for writing in
/// this one while another test forks, it could not be executed (ETXTBSY).
fn with_agent(dir: &Path, lines: &str) -> Settings {
    let path = dir.join("agent");
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n{lines}\n", dir.join("asked").display());
    let mut writer = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
    Settings { agent_binary: AgentBinary { path, ..AgentBinary::default() }, ..settings() }
}

const FOUND: &str = r#"echo '{"hidden": ["/site/gone"], "missing": []}'"#;
const MISSING: &str = r#"echo '{"hidden": [], "missing": ["gone-it"]}'"#;

fn asked(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn without(id: &str, hidden: &str) -> SessionSpec {
    SessionSpec { hidden: vec![hidden.to_owned()], ..named(id) }
}

fn field(error: &EngineError) -> &str {
    match error {
        EngineError::Invalid { field, .. } => field,
        other => other.code(),
    }
}

#[tokio::test]
async fn the_same_distributions_are_asked_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _) = echoing(with_agent(dir.path(), FOUND));
    for (id, name) in [("a", "Gone.It"), ("b", "gone_it"), ("c", "gone-it")] {
        engine.create(T, without(id, name)).await.unwrap();
    }
    assert_eq!(asked(dir.path()), ["distributions /usr/bin/python3 gone-it"]);
    engine.create(T, without("d", "other")).await.unwrap();
    assert_eq!(asked(dir.path()).len(), 2);
}

#[tokio::test]
async fn nobody_asks_for_a_session_that_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = with_agent(dir.path(), FOUND);
    let quotas = Quotas {
        session_rate: Some(Rate { count: 1, per: Duration::from_hours(1) }),
        ..Quotas::default()
    };
    settings.tenants.insert("few".into(), Tenant { quotas, ..Tenant::default() });
    let (engine, _) = echoing(settings);
    engine.create(T, named("a")).await.unwrap();
    engine.create("few", named("a")).await.unwrap();
    let refused = async |tenant, spec| engine.create(tenant, spec).await.unwrap_err();
    assert_eq!(refused(T, without("a", "gone")).await.code(), "session_exists");
    assert_eq!(refused("few", without("b", "gone")).await.code(), "quota_exceeded");
    assert_eq!(field(&refused(T, without("no id", "gone")).await), "id");
    assert_eq!(field(&refused(T, without("b", "-no-name")).await), "hidden");
    engine.inner.draining.store(true, Ordering::SeqCst);
    assert_eq!(refused(T, without("b", "gone")).await.code(), "draining");
    assert!(asked(dir.path()).is_empty(), "{:?}", asked(dir.path()));
}

/// Neither what it has, nor what is missing.
#[tokio::test]
async fn a_tenant_learns_nothing_of_an_environment_that_it_may_not_use() {
    let dir = tempfile::tempdir().unwrap();
    for lines in [FOUND, MISSING] {
        let mut settings = with_agent(dir.path(), lines);
        let allowed_environments = Some(vec!["other".to_owned()]);
        settings.tenants.insert(T.into(), Tenant { allowed_environments, ..Tenant::default() });
        let (engine, _) = echoing(settings);
        let refused = engine.create(T, without("a", "gone-it")).await.unwrap_err();
        assert_eq!(field(&refused), "environment", "{refused}");
        let control = engine.create("free", without("a", "gone-it")).await;
        assert_eq!(control.is_ok(), lines == FOUND, "{control:?}");
    }
    assert_eq!(asked(dir.path()).len(), 2, "the controls alone");
}

#[tokio::test]
async fn to_ask_takes_a_token_also_for_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = with_agent(dir.path(), MISSING);
    let quotas = Quotas {
        session_rate: Some(Rate { count: 2, per: Duration::from_hours(1) }),
        ..Quotas::default()
    };
    settings.tenants.insert(T.into(), Tenant { quotas, ..Tenant::default() });
    let (engine, _) = echoing(settings);
    for _ in 0..2 {
        let refused = engine.create(T, without("a", "Gone_It")).await.unwrap_err();
        assert_eq!(field(&refused), "hidden");
        assert!(refused.to_string().contains("\"default\" has no \"Gone_It\""), "{refused}");
    }
    let refused = engine.create(T, without("a", "Gone_It")).await.unwrap_err();
    assert_eq!(refused.code(), "quota_exceeded");
    assert_eq!(asked(dir.path()).len(), 2);
}

#[tokio::test]
async fn an_admitted_session_takes_one_token() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = with_agent(dir.path(), FOUND);
    let quotas = Quotas {
        session_rate: Some(Rate { count: 2, per: Duration::from_hours(1) }),
        ..Quotas::default()
    };
    settings.tenants.insert(T.into(), Tenant { quotas, ..Tenant::default() });
    let (engine, _) = echoing(settings);
    engine.create(T, without("a", "gone")).await.unwrap();
    engine.create(T, without("b", "gone")).await.unwrap();
    let refused = engine.create(T, without("c", "gone")).await.unwrap_err();
    assert_eq!(refused.code(), "quota_exceeded");
}

/// Time is the test's: it is over as soon as nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn an_interpreter_that_does_not_answer_is_not_the_clients_mistake() {
    for lines in ["exit 1", "echo nothing", "exec sleep 60"] {
        let dir = tempfile::tempdir().unwrap();
        let (engine, _) = echoing(with_agent(dir.path(), lines));
        let refused = engine.create(T, without("a", "gone")).await.unwrap_err();
        assert_eq!(refused.code(), "environments_unavailable", "{refused}");
        assert!(refused.retry_after().is_some());
    }
}
