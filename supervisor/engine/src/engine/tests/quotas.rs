//! Quotas of tenants, at the limit and from many sides at once.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::{advance, pause};
use vivarium_api_types::CommandRequest;
use vivarium_protocol::units::Limit;

use super::*;
use crate::engine::testing::Fake;
use crate::engine::{ExecutionOptions, IdempotencyKey, ResponseMode};
use crate::quotas::{Exceeded, Quota};
use crate::settings::{Quotas, Rate, Settings};

const T: &str = "t";
const HOUR: Duration = Duration::from_hours(1);

fn at(limit: u64) -> Limit {
    Limit::new(limit).unwrap()
}

fn rate(count: u64) -> Option<Rate> {
    Some(Rate { count, per: HOUR })
}

fn with(quotas: Quotas) -> Settings {
    let mut settings = settings();
    settings.session.max_sessions = Limit::Unlimited;
    settings.session.queue_depth = 5000;
    for name in [T, "other"] {
        let quotas = if name == T { quotas.clone() } else { Quotas::default() };
        settings.tenants.insert(name.into(), Tenant { quotas, ..tenant(name) });
    }
    settings
}

fn run(text: &str) -> RunRequest {
    RunRequest { code: Some(text.into()), ..RunRequest::default() }
}

#[track_caller]
fn exceeded<A: std::fmt::Debug>(answer: Result<A, EngineError>, quota: Quota) -> Duration {
    let error = answer.unwrap_err();
    assert_eq!(error.code(), "quota_exceeded");
    let EngineError::QuotaExceeded(Exceeded { quota: which, retry_after }) = error else {
        panic!("{error}");
    };
    assert_eq!(which, quota);
    retry_after
}

/// As many of a thousand calls as are let through; the others are over this quota.
async fn let_through<F>(engine: &Engine, quota: Quota, call: fn(Engine, usize) -> F) -> usize
where
    F: Future<Output = Result<(), EngineError>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for number in 0..1000 {
        calls.spawn(call(engine.clone(), number));
    }
    let mut through = 0;
    while let Some(answer) = calls.join_next().await {
        match answer.unwrap() {
            Ok(()) => through += 1,
            refused => drop(exceeded(refused, quota)),
        }
    }
    through
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_sessions_at_once_are_within_the_rate() {
    let (engine, _) = echoing(with(Quotas { session_rate: rate(20), ..Quotas::default() }));
    let create = |engine: Engine, number: usize| async move {
        engine.create(T, named(&format!("s{number}"))).await.map(drop)
    };
    assert_eq!(let_through(&engine, Quota::SessionRate, create).await, 20);
    assert_eq!(engine.list(T, &SessionQuery::default()).unwrap().sessions.len(), 20);
    // Nobody else's, and no session that is there.
    engine.create("other", named("a")).await.unwrap();
    let id = engine.list(T, &SessionQuery::default()).unwrap().sessions[0].id.clone();
    engine.execute(T, &id, code("1"), true).await.unwrap();
    let conflict = engine.create(T, named(&id)).await.unwrap_err();
    assert_eq!(conflict, EngineError::Conflict(id), "told before the quota");
    exceeded(engine.execute(T, "new", code("1"), true).await, Quota::SessionRate);
    let wait = exceeded(engine.run(T, run("1")).await, Quota::SessionRate);
    assert!(wait > Duration::from_secs(100) && wait <= HOUR / 20, "{wait:?}");
    shows(
        &engine,
        &[
            r#"vivarium_quota_refusals_total{quota="session_rate",tenant="t"} 982"#,
            r#"vivarium_refusals_total{reason="quota_exceeded",tenant="t"} 982"#,
        ],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_executions_at_once_are_within_the_rate() {
    let (engine, _) = echoing(with(Quotas { execution_rate: rate(50), ..Quotas::default() }));
    for id in ["0", "1", "2"] {
        engine.create(T, named(id)).await.unwrap();
    }
    let execute = |engine: Engine, number: usize| async move {
        let id = (number % 3).to_string();
        match number % 3 {
            0 => engine.run(T, run("1")).await.map(drop),
            _ => engine.execute(T, &id, code("1"), false).await.map(drop),
        }
    };
    assert_eq!(let_through(&engine, Quota::ExecutionRate, execute).await, 50);
    engine.execute("other", "a", code("1"), true).await.unwrap();
    shows(&engine, &[r#"vivarium_quota_refusals_total{quota="execution_rate",tenant="t"} 950"#]);
}

/// A run that is refused makes no session, and costs none.
#[tokio::test]
async fn runs_that_are_refused_start_nothing() {
    let quotas = Quotas { execution_rate: rate(1), session_rate: rate(2), ..Quotas::default() };
    let (engine, _) = echoing(with(quotas));
    engine.run(T, run("1")).await.unwrap();
    exceeded(engine.run(T, run("1")).await, Quota::ExecutionRate);
    exceeded(engine.execute(T, "a", code("1"), true).await, Quota::ExecutionRate);
    assert!(engine.list(T, &SessionQuery::default()).unwrap().sessions.is_empty());
    engine.create(T, named("a")).await.unwrap();
    exceeded(engine.create(T, named("b")).await, Quota::SessionRate);
}

/// What is refused for another reason is not counted.
#[tokio::test]
async fn refused_executions_cost_nothing() {
    let quotas = Quotas { execution_rate: rate(1), max_executions: at(1), ..Quotas::default() };
    let (engine, _) = echoing(with(quotas));
    for _ in 0..5 {
        let unknown = engine.execute(T, "a", code("1"), false).await.unwrap_err();
        assert_eq!(unknown.code(), "unknown_session");
        let bad = ExecuteRequest { timeout_ms: Some(u64::MAX), ..code("1") };
        let bad = engine.execute(T, "a", bad, true).await.unwrap_err();
        assert!(bad.to_string().contains("300000 allowed (session.max_exec_timeout)"), "{bad}");
    }
    engine.create(T, named("a")).await.unwrap();
    engine.execute(T, "a", code("1"), false).await.unwrap();
    assert_eq!(engine.quotas(T).in_flight(), 0);
}

#[tokio::test]
async fn the_rate_comes_back_with_time_and_another_at_a_reload() {
    pause();
    let quotas = Quotas { execution_rate: rate(2), ..Quotas::default() };
    let (engine, _) = echoing(with(quotas.clone()));
    engine.create(T, named("a")).await.unwrap();
    for _ in 0..2 {
        engine.execute(T, "a", code("1"), false).await.unwrap();
    }
    let wait = exceeded(engine.execute(T, "a", code("1"), false).await, Quota::ExecutionRate);
    advance(wait).await;
    engine.execute(T, "a", code("1"), false).await.unwrap();
    exceeded(engine.execute(T, "a", code("1"), false).await, Quota::ExecutionRate);
    let more = Quotas { execution_rate: rate(5), ..quotas };
    engine.reload(Arc::new(with(more))).await;
    for _ in 0..3 {
        engine.execute(T, "a", code("1"), false).await.unwrap();
    }
    exceeded(engine.execute(T, "a", code("1"), false).await, Quota::ExecutionRate);
}

/// Agents that do not answer keep what they are given in flight.
async fn silent(
    quotas: Quotas,
    sessions: &[&str],
) -> (Engine, Vec<crate::engine::testing::FakeAgent>) {
    let (engine, _, mut launched): (_, Arc<Fake>, _) = engine(with(quotas));
    let mut agents = Vec::new();
    for id in sessions {
        let create = engine.create(T, named(id));
        let start = async {
            let mut agent = launched.recv().await.unwrap();
            agent.start().await;
            agent
        };
        let (created, agent) = tokio::join!(create, start);
        created.unwrap();
        agents.push(agent);
    }
    (engine, agents)
}

fn events() -> ExecutionOptions {
    ExecutionOptions { response: ResponseMode::Events(None), ..ExecutionOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_executions_at_once_are_within_those_in_flight() {
    let quotas = Quotas { max_executions: at(7), ..Quotas::default() };
    let (engine, _agents) = silent(quotas, &["a", "b"]).await;
    let start = |engine: Engine, number: usize| async move {
        let id = ["a", "b"][number % 2];
        let command = CommandRequest {
            shell: Some("sleep 1".into()),
            background: true,
            ..CommandRequest::default()
        };
        match number % 3 {
            0 => engine.start_command(T, id, command, events()).await.map(drop),
            _ => engine.start_code(T, id, code("1"), false, events()).await.map(drop),
        }
    };
    assert_eq!(let_through(&engine, Quota::MaxExecutions, start).await, 7);
    shows(
        &engine,
        &[
            r#"vivarium_executions_in_flight{tenant="t"} 7"#,
            r#"vivarium_quota_refusals_total{quota="max_executions",tenant="t"} 993"#,
        ],
    );
    // However they end.
    engine.delete(T, "a").await.unwrap();
    engine.delete(T, "b").await.unwrap();
    assert_eq!(engine.quotas(T).in_flight(), 0);
}

#[tokio::test]
async fn what_is_in_flight_is_given_back_before_its_end_is_told() {
    let quotas = Quotas { max_executions: at(1), ..Quotas::default() };
    let (engine, _) = echoing(with(quotas));
    engine.create(T, named("a")).await.unwrap();
    for _ in 0..200 {
        engine.execute(T, "a", code("1"), false).await.unwrap();
    }
    for _ in 0..20 {
        engine.run(T, run("1")).await.unwrap();
    }
}

#[tokio::test]
async fn executions_whose_clients_go_away_are_given_back() {
    let quotas = Quotas { max_executions: at(2), ..Quotas::default() };
    let (engine, mut agents) = silent(quotas, &["a"]).await;
    let request = || ExecuteRequest { cancel_on_disconnect: true, ..code("1") };
    let first = engine.start_code(T, "a", request(), false, events()).await.unwrap();
    let second = engine.start_code(T, "a", request(), false, events()).await.unwrap();
    exceeded(engine.start_code(T, "a", request(), false, events()).await, Quota::MaxExecutions);
    let execution = agents[0].begin().await;
    // One that waits, and the one that runs.
    drop(second);
    drop(first);
    agents[0].done(execution, vivarium_protocol::message::Completion::Ok).await;
    while engine.quotas(T).in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    engine.start_code(T, "a", request(), false, events()).await.unwrap();
}

#[tokio::test]
async fn a_session_whose_agent_dies_gives_everything_back() {
    let quotas = Quotas { max_executions: at(3), max_queued: at(2), ..Quotas::default() };
    let (engine, agents) = silent(quotas, &["a"]).await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(engine.start_code(T, "a", code("1"), false, events()).await.unwrap());
    }
    exceeded(engine.start_code(T, "a", code("1"), false, events()).await, Quota::MaxExecutions);
    drop(agents);
    for handle in handles {
        handle.outcome().await.unwrap();
    }
    assert_eq!(engine.quotas(T).in_flight(), 0);
    assert!(engine.quotas(T).queued().is_some());
}

#[tokio::test]
async fn executions_that_wait_are_counted_over_all_sessions() {
    let quotas = Quotas { max_queued: at(2), ..Quotas::default() };
    let (engine, mut agents) = silent(quotas, &["a", "b"]).await;
    let start = |id: &'static str| engine.start_code(T, id, code("1"), false, events());
    // Those that run do not wait.
    let _running = (start("a").await.unwrap(), start("b").await.unwrap());
    let first = agents[0].begin().await;
    let waiting = (start("a").await.unwrap(), start("b").await.unwrap());
    exceeded(start("a").await, Quota::MaxQueued);
    exceeded(start("b").await, Quota::MaxQueued);
    agents[0].done(first, vivarium_protocol::message::Completion::Ok).await;
    agents[0].begin().await;
    start("a").await.unwrap();
    exceeded(start("b").await, Quota::MaxQueued);
    engine.delete(T, "b").await.unwrap();
    start("a").await.unwrap();
    drop(waiting);
}

#[tokio::test]
async fn a_request_with_the_same_key_is_counted_once() {
    let quotas = Quotas { execution_rate: rate(1), session_rate: rate(1), ..Quotas::default() };
    let (engine, _) = echoing(with(quotas));
    let key = |key: &str| Some(IdempotencyKey::new(key, [1; 32]).unwrap());
    for number in 0..10 {
        let created = engine.create_once(T, named("a"), key("create")).await.unwrap();
        assert_eq!(created.is_replay, number > 0);
        let options = ExecutionOptions { idempotency_key: key("code"), ..Default::default() };
        let handle = engine.start_code(T, "a", code("1"), false, options).await.unwrap();
        assert_eq!(handle.is_replay, number > 0);
        handle.outcome().await.unwrap();
    }
    let other = ExecutionOptions { idempotency_key: key("other"), ..Default::default() };
    let refused = engine.start_code(T, "a", code("1"), false, other).await;
    exceeded(refused.map(drop), Quota::ExecutionRate);
    exceeded(engine.create(T, named("b")).await, Quota::SessionRate);
}

#[tokio::test]
async fn environments_that_are_not_allowed_are_refused_and_not_shown() {
    let mut settings = with(Quotas::default());
    let of_t = settings.tenants.get_mut(T).unwrap();
    of_t.allowed_environments = Some(vec!["elsewhere".into()]);
    let (engine, _) = echoing(settings);
    let refused = engine.create(T, named("a")).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_field");
    assert!(refused.to_string().contains("environment: the operator does not allow"), "{refused}");
    assert!(engine.host(T).environments.is_empty());
    engine.create("other", named("a")).await.unwrap();
    assert_eq!(engine.host("other").environments.len(), 1);
}

/// A thousand clients at once, each on a thread of its own.
fn a_thousand_at_once(client: impl Fn(usize) + Sync) {
    let barrier = std::sync::Barrier::new(1000);
    std::thread::scope(|scope| {
        for number in 0..1000 {
            let (client, barrier) = (&client, &barrier);
            let all = move || {
                barrier.wait();
                client(number);
            };
            std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, all).unwrap();
        }
    });
}

#[tokio::test]
async fn a_thousand_clients_never_move_one_more_byte_than_the_rate_allows() {
    // One byte comes back in 24 s.
    let rate = Rate { count: 3601, per: Duration::from_hours(24) };
    let (engine, _) = echoing(with(Quotas { transfer_rate: Some(rate), ..Quotas::default() }));
    let (quotas, since) = (engine.quotas(T), std::time::Instant::now());
    let moved = AtomicU64::new(0);
    a_thousand_at_once(|number| {
        for _ in 0..3 {
            let bytes = quotas.transfer(number as u64 % 7 + 1).unwrap_or(0);
            moved.fetch_add(bytes, Ordering::Relaxed);
        }
    });
    let back = since.elapsed().as_secs() / 24 + 1;
    let moved = moved.into_inner();
    assert!((3601..=3601 + back).contains(&moved), "{moved}");
}

#[tokio::test]
async fn results_of_a_tenant_are_kept_within_its_own_maximum() {
    let quotas = Quotas { max_results_mb: 1, ..Quotas::default() };
    let (engine, _) = echoing(with(quotas));
    let long = "x".repeat(150 << 10);
    for tenant in [T, "other"] {
        for _ in 0..3 {
            engine.execute(tenant, "a", code(&long), true).await.unwrap();
        }
        let kept = (1..=3).filter(|id| engine.execution(tenant, "a", &id.to_string()).is_ok());
        assert_eq!(kept.count(), if tenant == T { 1 } else { 3 }, "{tenant}");
    }
}
