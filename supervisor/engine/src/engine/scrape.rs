//! What the metrics show of the present: read when Prometheus asks.
//!
//! It holds no lock for longer than it takes to copy a few words, so that no execution waits for
//! a scrape.

use std::collections::BTreeMap;
use std::sync::Arc;

use strum::VariantNames;
use vivarium_api_types::{SessionState, TenantInfo, TenantList};
use vivarium_metrics::{Families, Metrics, MetricsError};

use super::{Engine, admission, pools, trial};
use crate::cgroup::{Support, TenantUsage};
use crate::settings::Settings;

#[derive(Default)]
struct Population {
    states: BTreeMap<&'static str, u64>,
    queued: u64,
}

impl Engine {
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.inner.host.metrics)
    }

    /// All metrics as text. The caller counts the dropped log lines, since it owns the log. Reads
    /// files: not for a thread that others wait for.
    pub fn scrape(&self, dropped_log_lines: u64) -> Result<String, MetricsError> {
        self.inner.host.metrics.scrape(|to| {
            self.inner.host.audit.scrape();
            self.show_sessions(to);
            self.show_pools(to);
            self.show_memory(to);
            self.show_buffers(to);
            self.show_quotas(to);
            self.show_layers(to);
            self.show_administration(to);
            self.show_homes(to);
            self.show_images(to);
            let (artefacts, bytes) = self.environment_totals();
            to.environments.are(artefacts, bytes);
            self.tenant_usage().iter().for_each(|usage| show_usage(to, usage));
            to.build.is_version(env!("CARGO_PKG_VERSION"));
            to.process.read();
            to.process.has_dropped_lines(dropped_log_lines);
        })
    }

    /// What all tenants use, as in the metrics. Reads files: not for a thread that others wait for.
    #[must_use]
    pub fn tenants(&self) -> TenantList {
        let mut tenants: BTreeMap<_, _> = self
            .populations(&self.settings())
            .into_iter()
            .map(|(name, Population { states, queued })| {
                let sessions = states.values().sum();
                let running = <&str>::from(SessionState::Running);
                let running = states.get(running).copied().unwrap_or(0);
                let tenant = TenantInfo { sessions, running, queued, ..TenantInfo::default() };
                (name, tenant)
            })
            .collect();
        for TenantUsage { tenant, cpu, memory_bytes, processes, .. } in self.tenant_usage() {
            let of = tenants.entry(tenant).or_default();
            of.cpu_seconds = cpu.map(|time| time.as_secs_f64());
            of.memory_bytes = memory_bytes;
            of.processes = processes;
        }
        let tenants = tenants.into_iter().map(|(name, tenant)| TenantInfo { name, ..tenant });
        TenantList { tenants: tenants.collect() }
    }

    fn tenant_usage(&self) -> Vec<TenantUsage> {
        let Support::Available(tree) = &self.inner.host.cgroups else { return Vec::new() };
        let mut tenants = tree.tenants();
        tenants.retain(|usage| usage.tenant != trial::TENANT);
        tenants
    }

    fn populations(&self, settings: &Settings) -> BTreeMap<String, Population> {
        let named = settings.ceilings().into_keys();
        let mut tenants: BTreeMap<_, _> =
            named.map(|tenant| (tenant, Population::default())).collect();
        for session in self.inner.registry.all() {
            let (state, queued) = {
                let status = session.status();
                (status.state(), status.usage.queued)
            };
            let population = tenants.entry(session.identity.tenant.clone()).or_default();
            *population.states.entry(state.into()).or_default() += 1;
            population.queued += queued;
        }
        tenants
    }

    fn show_sessions(&self, to: &Families) {
        let settings = self.settings();
        if let Some(max) = settings.session.max_sessions.get() {
            to.sessions.may_be(max);
        }
        for (tenant, Population { states, queued }) in &self.populations(&settings) {
            // A state that no session is in is shown as 0.
            for state in SessionState::VARIANTS {
                to.sessions.in_state(tenant, state, states.get(state).copied().unwrap_or(0));
            }
            to.queue.waiting(tenant, *queued);
        }
    }

    fn show_pools(&self, to: &Families) {
        let settings = self.settings();
        for environment in self.inner.environments.keys() {
            if pools::watermarks(&settings, environment).is_some() {
                to.pool.has_ready(environment, self.inner.pools.ready_in(environment) as u64);
            }
        }
        to.pool.is_paused(self.inner.pools.is_paused());
    }

    fn show_memory(&self, to: &Families) {
        let policy = admission::memory_policy(&self.settings());
        for environment in self.inner.environments.keys() {
            let memory = self.inner.memory.status(environment, policy);
            if let Some(bytes) = memory.available_bytes {
                to.memory.is_available(bytes);
            }
            if let Some(percent) = memory.pressure_percent {
                to.memory.is_waited_for(percent / 100.0);
            }
            to.memory.is_expected_to_take(environment, memory.estimate_bytes);
            to.memory.refuses(environment, memory.refuses);
        }
    }

    fn show_buffers(&self, to: &Families) {
        let (tenants, max_bytes) = self.inner.host.budget.used();
        to.buffers.may_be(max_bytes as u64);
        for (tenant, bytes) in tenants.iter().filter(|(tenant, _)| tenant != trial::TENANT) {
            to.buffers.are_used(tenant, *bytes as u64);
        }
    }

    fn show_quotas(&self, to: &Families) {
        let pending = self.inner.host.approvals.pending();
        let in_flight = self.inner.host.quotas.in_flight();
        for (tenant, executions) in in_flight.iter().filter(|(tenant, _)| tenant != trial::TENANT) {
            to.quotas.in_flight(tenant, *executions);
            to.approvals.pending(tenant, pending.get(tenant).copied().unwrap_or(0));
        }
    }

    fn show_layers(&self, to: &Families) {
        to.layers.in_mode(self.settings().sandbox.mode.name());
        for (environment, state) in self.built_template_states() {
            to.templates.is_in_state(&environment, state);
        }
        for (environment, prepared) in &self.inner.environments {
            to.templates.is_in_state(environment, prepared.template.state().name());
            to.environments.has_runtime(environment, prepared.interpreter.runtime().into());
            for report in prepared.protection.iter() {
                to.layers.has_status(environment, report.layer.name(), report.status.into());
            }
        }
    }
}

fn show_usage(to: &Families, usage: &TenantUsage) {
    let TenantUsage { tenant, cpu, memory_bytes, processes, stalls } = usage;
    if let Some(time) = cpu {
        to.tenants.used_cpu(tenant, *time);
    }
    if let Some(bytes) = memory_bytes {
        to.tenants.uses_memory(tenant, *bytes);
    }
    if let Some(count) = processes {
        to.tenants.has_processes(tenant, *count);
    }
    for stall in stalls {
        to.pressure.stalled(tenant, stall.resource, stall.share, stall.time);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vivarium_protocol::layer::Layer;
    use vivarium_protocol::message::{Failure, FromAgent};
    use vivarium_protocol::units::Limit;

    use super::*;
    use crate::engine::testing::{echoing, engine, settings, tenant};
    use crate::engine::tests::{code, named, shows};
    use vivarium_api_types::SessionSpec;

    #[tokio::test]
    async fn sessions_are_shown_by_tenant_and_those_that_find_no_room_are_counted() {
        let mut settings = settings();
        settings.session.max_sessions = Limit::new(2).unwrap();
        let (engine, _) = echoing(settings);
        engine.create("one", named("a")).await.unwrap();
        engine.create("two", named("a")).await.unwrap();
        engine.create("two", named("b")).await.unwrap_err();
        shows(
            &engine,
            &[
                r#"vivarium_sessions{state="idle",tenant="default"} 0"#,
                r#"vivarium_sessions{state="idle",tenant="one"} 1"#,
                r#"vivarium_sessions{state="idle",tenant="two"} 1"#,
                "vivarium_sessions_limit 2",
                r#"vivarium_refusals_total{reason="too_many_sessions",tenant="two"} 1"#,
            ],
        );
        engine.delete("one", "a").await.unwrap();
        assert!(
            !engine.scrape(0).unwrap().contains(r#"vivarium_sessions{state="idle",tenant="one"}"#)
        );
    }

    #[tokio::test]
    async fn the_queue_is_shown_and_a_full_one_counted() {
        let mut settings = settings();
        settings.session.queue_depth = 1;
        let (engine, _, mut launched) = engine(settings);
        let run = |engine: Engine| async move { engine.execute("t", "a", code("1"), true).await };
        let first = tokio::spawn(run(engine.clone()));
        let mut agent = launched.recv().await.unwrap();
        agent.start().await;
        agent.begin().await;
        let second = tokio::spawn(run(engine.clone()));
        let session = engine.find("t", "a").unwrap();
        while session.status().usage.queued == 0 {
            tokio::task::yield_now().await;
        }
        run(engine.clone()).await.unwrap_err();
        shows(
            &engine,
            &[
                r#"vivarium_sessions{state="running",tenant="t"} 1"#,
                r#"vivarium_queue_depth{tenant="t"} 1"#,
                r#"vivarium_refusals_total{reason="queue_full",tenant="t"} 1"#,
            ],
        );
        let tenant = TenantInfo {
            name: "t".into(),
            sessions: 1,
            running: 1,
            queued: 1,
            ..Default::default()
        };
        let TenantList { tenants } = engine.tenants();
        assert_eq!(tenants, [TenantInfo { name: "default".into(), ..Default::default() }, tenant]);
        engine.delete("t", "a").await.unwrap();
        for task in [first, second] {
            task.await.unwrap().unwrap();
        }
        shows(
            &engine,
            &[
                r#"vivarium_executions_total{cause="deleted",status="killed",tenant="t"} 1"#,
                r#"vivarium_executions_total{cause="deleted",status="rejected",tenant="t"} 1"#,
                r#"vivarium_execution_duration_seconds_count{tenant="t"} 1"#,
            ],
        );
    }

    #[tokio::test]
    async fn tenants_that_are_configured_are_shown_before_anything_happens_to_them() {
        let mut settings = settings();
        settings.tenants.insert("one".to_owned(), tenant("1"));
        let (engine, _) = echoing(settings.clone());
        shows(&engine, &[r#"vivarium_sessions{state="idle",tenant="one"} 0"#]);
        assert!(!engine.scrape(0).unwrap().contains("tenant=\"default\""));
        settings.tenants.insert("two".to_owned(), tenant("2"));
        engine.reload(Arc::new(settings)).await;
        shows(
            &engine,
            &[
                r#"vivarium_sessions{state="idle",tenant="two"} 0"#,
                r#"vivarium_refusals_total{reason="too_many_sessions",tenant="two"} 0"#,
            ],
        );
    }

    #[tokio::test]
    async fn a_session_that_does_not_start_is_counted_with_the_layer_that_failed() {
        let (engine, _, mut launched) = engine(settings());
        let failing = async {
            let mut agent = launched.recv().await.unwrap();
            agent.launched().await;
            let failure =
                Failure { layer: Some(Layer::Mounts), ..Failure::new("mount /proc", "EPERM") };
            agent.send(FromAgent::Failed(failure)).await;
        };
        let (created, ()) = tokio::join!(engine.create("t", named("a")), failing);
        created.unwrap_err();
        shows(&engine, &[r#"vivarium_session_start_failures_total{layer="mounts",tenant="t"} 1"#]);
        assert!(!engine.scrape(0).unwrap().contains("vivarium_sessions_ended_total{"));
    }

    #[tokio::test]
    async fn reaped_sessions_are_counted_once() {
        let mut settings = settings();
        settings.session.reap_interval = Duration::from_millis(5);
        let (engine, _) = echoing(settings);
        let spec = SessionSpec { idle_timeout_ms: Some(20), ..named("a") };
        engine.create("t", spec).await.unwrap();
        let session = engine.find("t", "a").unwrap();
        session.gone().await;
        shows(
            &engine,
            &[
                r#"vivarium_sessions_reaped_total{tenant="t"} 1"#,
                r#"vivarium_sessions_ended_total{cause="expired",tenant="t"} 1"#,
            ],
        );
    }
}
