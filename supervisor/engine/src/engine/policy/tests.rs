//! What is shown of a session's policy, and that it is what holds.

use std::sync::Arc;

use vivarium_api_types::{Change, ExecuteRequest, SessionPatch, SessionQuery, SessionSpec};

use super::*;
use crate::engine::testing::{echoing, settings, tenant};
use crate::engine::tests::{code, named};
use crate::engine::{DEFAULT_TENANT, Engine, EngineError};

fn at(limit: u64) -> Limit {
    Limit::new(limit).unwrap()
}

fn overrides(change: impl FnOnce(&mut Overrides)) -> Tenant {
    let Settings { sandbox, session, .. } = settings();
    let mut own = Overrides {
        sandbox,
        session,
        sandbox_keys: [].into(),
        session_keys: [].into(),
        approval: Default::default(),
        approval_keys: [].into(),
    };
    change(&mut own);
    Tenant { overrides: Some(Box::new(own)), ..tenant("t") }
}

fn own_values() -> Tenant {
    overrides(|own| {
        own.sandbox.limits.max_procs = at(8);
        own.sandbox.limits.max_memory_mb = at(4096);
        own.sandbox.network = Network::None;
        own.sandbox_keys.extend(["max_procs", "max_memory_mb", "network"]);
        own.session.exec_timeout = Duration::from_secs(5);
        own.session.max_exec_timeout = Duration::from_secs(10);
        own.session_keys.extend(["exec_timeout", "max_exec_timeout"]);
    })
}

async fn policy(engine: &Engine, tenant: &str, id: &str) -> Vec<(String, String, PolicySource)> {
    let entries = engine.get(tenant, id).await.unwrap().policy;
    entries.into_iter().map(|it| (it.key, it.value.to_string(), it.source)).collect()
}

#[track_caller]
fn has(policy: &[(String, String, PolicySource)], key: &str, value: &str, source: PolicySource) {
    let found = policy.iter().find(|(found, ..)| found == key);
    let found = found.map(|(_, value, source)| (value.as_str(), *source));
    assert_eq!(found, Some((value, source)), "{key}");
}

#[tokio::test]
async fn each_value_is_shown_with_its_source() {
    use PolicySource::{CommandLine, Default, File, Request, Tenant as Own};
    let mut settings = settings();
    settings.tenants.insert("t".into(), own_values());
    let sources = [
        ("sandbox.max_open_fds", File),
        ("sandbox.max_procs", File),
        ("session.idle_timeout", CommandLine),
        ("tenant.t.max_sessions", File),
    ];
    let sources = sources.map(|(key, source)| (key.to_owned(), source));
    settings.sources = Arc::new(sources.into());
    let (engine, _) = echoing(settings);
    let spec = SessionSpec {
        limits: Some(serde_json::from_str(r#"{"max_inodes": 99, "cpu_cores": 0.5}"#).unwrap()),
        ..named("a")
    };
    engine.create("t", spec).await.unwrap();
    let shown = policy(&engine, "t", "a").await;
    for (key, value, source) in [
        ("sandbox.max_procs", "8", Own),
        ("sandbox.max_memory_mb", "4096", Own),
        ("sandbox.max_open_fds", "1024", File),
        ("sandbox.max_inodes", "99", Request),
        ("sandbox.cpu_cores", "0.5", Request),
        ("sandbox.max_disk_mb", "512", Default),
        ("sandbox.network", "none", Own),
        ("sandbox.allowed_networks", "none, loopback", Default),
        ("session.idle_timeout", "1h", CommandLine),
        ("session.max_lifetime", "unlimited", Default),
        ("session.exec_timeout", "5s", Own),
        ("session.max_exec_timeout", "10s", Own),
        ("session.queue_depth", "4", Default),
        ("tenant.max_sessions", "unlimited", Own),
        ("tenant.execution_rate", "unlimited", Default),
        ("tenant.allowed_environments", "default", Default),
        ("tenant.cpu_cores", "unlimited", Default),
    ] {
        has(&shown, key, value, source);
    }
    let keys: std::collections::BTreeSet<_> = shown.iter().map(|(key, ..)| key).collect();
    assert_eq!(keys.len(), shown.len(), "each once");
    assert!(engine.list("t", &SessionQuery::default()).unwrap().sessions[0].policy.is_empty());
}

#[tokio::test]
async fn changes_of_a_session_are_requests_too_and_reloads_do_not_reach_it() {
    use PolicySource::{Default, Request};
    let (engine, _) = echoing(settings());
    engine.create(DEFAULT_TENANT, named("a")).await.unwrap();
    let patch = SessionPatch { idle_timeout_ms: Change::Set(60_000), ..SessionPatch::default() };
    engine.adjust(DEFAULT_TENANT, "a", patch).await.unwrap();
    let shown = policy(&engine, DEFAULT_TENANT, "a").await;
    has(&shown, "session.idle_timeout", "1m", Request);
    let mut new = settings();
    new.sandbox.limits.max_procs = at(3);
    new.session.exec_timeout = Duration::from_secs(7);
    engine.reload(Arc::new(new)).await;
    engine.create(DEFAULT_TENANT, named("b")).await.unwrap();
    for (id, procs) in [("a", "64"), ("b", "3")] {
        let shown = policy(&engine, DEFAULT_TENANT, id).await;
        has(&shown, "sandbox.max_procs", procs, Default);
        has(&shown, "session.exec_timeout", "7s", Default);
    }
}

#[tokio::test]
async fn rules_that_a_request_tightened_are_shown_as_its_own() {
    use PolicySource::{Default, File, Request};
    let mut settings = settings();
    settings.sources = Arc::new([("approval.executions".to_owned(), File)].into());
    let (engine, _) = echoing(settings.clone());
    let spec = |approval: &str, id| SessionSpec {
        approval: Some(serde_json::from_str(approval).unwrap()),
        ..named(id)
    };
    engine.create(DEFAULT_TENANT, spec(r#"{"executions": "ask"}"#, "a")).await.unwrap();
    engine.create(DEFAULT_TENANT, spec(r#"{"executions": "allow"}"#, "same")).await.unwrap();
    has(&policy(&engine, DEFAULT_TENANT, "a").await, "approval.executions", "ask", Request);
    has(&policy(&engine, DEFAULT_TENANT, "a").await, "approval.egress", "deny", Default);
    has(&policy(&engine, DEFAULT_TENANT, "same").await, "approval.executions", "allow", File);
    // The tenant's rule is now as tight, and is what holds.
    settings.approval.executions = crate::settings::ApprovalRule::Ask;
    engine.reload(Arc::new(settings)).await;
    has(&policy(&engine, DEFAULT_TENANT, "a").await, "approval.executions", "ask", File);
    for (approval, field) in [
        (r#"{"executions": "allow"}"#, "approval.executions: \"allow\": the rule is \"ask\""),
        (r#"{"egress": "deny"}"#, "approval.egress: it goes with the network"),
    ] {
        let refused = engine.create(DEFAULT_TENANT, spec(approval, "b")).await.unwrap_err();
        assert!(refused.to_string().contains(field), "{refused}");
    }
}

#[tokio::test]
async fn files_that_may_take_half_of_the_memory_are_bounded_by_its_source() {
    use PolicySource::{Request, Tenant as Own};
    let mut settings = settings();
    let tenant = overrides(|own| {
        own.sandbox.limits.max_memory_mb = at(512);
        own.sandbox_keys.insert("max_memory_mb");
    });
    settings.tenants.insert("t".into(), tenant);
    let (engine, _) = echoing(settings);
    engine.create("t", named("a")).await.unwrap();
    has(&policy(&engine, "t", "a").await, "sandbox.max_disk_mb", "256", Own);
    let limits = Some(serde_json::from_str(r#"{"max_memory_mb": 128}"#).unwrap());
    engine.create("t", SessionSpec { limits, ..named("b") }).await.unwrap();
    has(&policy(&engine, "t", "b").await, "sandbox.max_disk_mb", "64", Request);
}

/// A tenant's own values are what its requests may tighten, limit by limit.
#[tokio::test]
async fn no_request_widens_any_limit() {
    let mut settings = settings();
    settings.tenants.insert("t".into(), own_values());
    settings.tenants.insert("other".into(), tenant("other"));
    let (engine, _) = echoing(settings);
    let own = engine.settings_of("t").sandbox.limits.clone();
    let limits = serde_json::to_value(LimitsInfo::from(own)).unwrap();
    for (name, value) in limits.as_object().unwrap() {
        let more = serde_json::json!(value.as_f64().unwrap() + 1.0);
        let more = value.as_u64().map_or(more, |value| serde_json::json!(value + 1));
        for asked in [more, serde_json::json!("unlimited")] {
            let limits = serde_json::json!({ name.as_str(): asked });
            let limits = Some(serde_json::from_value(limits).unwrap());
            let refused = engine.create("t", SessionSpec { limits, ..named("a") }).await;
            let Err(EngineError::Invalid { field, .. }) = refused else { panic!("{name}") };
            assert_eq!(field, format!("limits.{name}"));
        }
        let same = serde_json::json!({ name.as_str(): value });
        let limits = Some(serde_json::from_value(same).unwrap());
        engine.create("t", SessionSpec { limits, ..named(name) }).await.unwrap();
    }
    let ask = |timeout_ms| ExecuteRequest { timeout_ms: Some(timeout_ms), ..code("1") };
    let refused = engine.execute("t", "max_procs", ask(10_001), false).await.unwrap_err();
    let said = "timeout_ms: 10001 is more than the 10000 allowed (session.max_exec_timeout)";
    assert_eq!(refused.to_string(), said);
    engine.execute("t", "max_procs", ask(10_000), false).await.unwrap();
    engine.execute("other", "a", ask(10_001), true).await.unwrap();
    for (spec, field) in [
        (SessionSpec { network: Some(Network::Full), ..named("a") }, "network"),
        (SessionSpec { idle_timeout_ms: Some(3_600_001), ..named("a") }, "idle_timeout_ms"),
    ] {
        let Err(EngineError::Invalid { field: named, .. }) = engine.create("t", spec).await else {
            panic!("{field}");
        };
        assert_eq!(named, field);
    }
}

#[tokio::test]
async fn pools_have_what_their_tenants_policy_says() {
    let mut settings = settings();
    settings.environments.get_mut("default").unwrap().pool_size = 2;
    settings.tenants.insert("t".into(), own_values());
    settings.tenants.insert("other".into(), tenant("other"));
    let (engine, _) = echoing(settings);
    for tenant in ["t", "other"] {
        engine.create(tenant, named("first")).await.unwrap();
        while engine.inner.pools.ready(tenant, "default") != 2 {
            tokio::task::yield_now().await;
        }
        let info = engine.create(tenant, named("pooled")).await.unwrap();
        assert_eq!(engine.inner.pools.ready(tenant, "default"), 1, "{tenant}");
        let procs = if tenant == "t" { at(8) } else { at(64) };
        assert_eq!(info.limits.max_procs, procs);
    }
}
