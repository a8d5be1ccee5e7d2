//! What a session knows of being suspended and resumed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::time::Instant;
use vivarium_api_types::{LimitsSpec, SessionInfo, SessionSpec, SessionState, SessionUsage};

use super::{Adjustable, Session, whole_millis};
use crate::settings::Settings;
use crate::template::memory::TemplateMemory;

/// What a session was before it was suspended.
#[derive(Debug)]
pub(super) struct Before {
    created_at: Timestamp,
    usage: SessionUsage,
}

/// A call to a session, until what it asks for has begun.
#[derive(Debug)]
pub(crate) struct Call(#[expect(dead_code, reason = "it is held")] OwnedRwLockReadGuard<()>);

impl Session {
    /// What its kernels share with the template that they are forked from, if they can be saved.
    pub(crate) fn template_memory(&self) -> Option<&Arc<TemplateMemory>> {
        self.memory.get()
    }

    /// Notes what it was asked for.
    pub(crate) fn was_asked_for(&self, spec: SessionSpec) {
        self.spec.get_or_init(|| spec);
    }

    /// What it was asked for, once it is known.
    pub(crate) fn asked_spec(&self) -> Option<&SessionSpec> {
        self.spec.get()
    }

    /// What another session has to be asked for to be as this one is now.
    pub(crate) fn spec(&self, settings: &Settings) -> SessionSpec {
        let Adjustable { limits, metadata, idle_timeout, deadline } = self.adjustable();
        SessionSpec {
            id: Some(self.identity.id.clone()),
            limits: Some(LimitsSpec::of(&limits, &settings.sandbox.limits)),
            metadata,
            idle_timeout_ms: Some(whole_millis(idle_timeout)),
            deadline: deadline.map(|deadline| deadline.timestamp),
            ..self.spec.get().cloned().unwrap_or_default()
        }
    }

    /// Notes that it is the one that was suspended as this.
    pub(crate) fn continues(&self, before: &SessionInfo) {
        self.before.get_or_init(|| Before { created_at: before.created_at, usage: before.usage });
    }

    /// When it was made, before it was ever suspended.
    pub fn created_at(&self) -> Timestamp {
        self.before.get().map_or(self.created_at, |before| before.created_at)
    }

    /// What it has used, with what it had before it was suspended.
    pub(super) fn with_before(&self, now: SessionUsage) -> SessionUsage {
        let Some(Before { usage: before, .. }) = self.before.get() else { return now };
        let sum = |one: Option<u64>, other: Option<u64>| one.map(|one| one + other.unwrap_or(0));
        SessionUsage {
            cpu_ms: now.cpu_ms + before.cpu_ms,
            memory_peak_bytes: now.memory_peak_bytes.max(before.memory_peak_bytes),
            processes_peak: now.processes_peak.max(before.processes_peak),
            io_read_bytes: sum(now.io_read_bytes, before.io_read_bytes),
            io_write_bytes: sum(now.io_write_bytes, before.io_write_bytes),
            egress_in_bytes: sum(now.egress_in_bytes, before.egress_in_bytes),
            egress_out_bytes: sum(now.egress_out_bytes, before.egress_out_bytes),
            executions: now.executions + before.executions,
            ..now
        }
    }

    /// Whether it is being suspended or resumed, and cannot be used: one that stands still for a checkpoint of its own
    /// can.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_suspended() && !self.is_taking_checkpoint()
    }

    /// Whether nothing begins in it.
    fn is_suspended(&self) -> bool {
        self.status().suspended
    }

    /// Keeps the session from being suspended until this is dropped; `None` if it is.
    pub(crate) async fn call(&self) -> Option<Call> {
        let call = Arc::clone(&self.calls).read_owned().await;
        (!self.is_suspended()).then_some(Call(call))
    }

    /// The same as `begin_suspension`, once what calls are under way have begun has.
    pub(crate) async fn stand_still(&self) -> bool {
        let no_calls = self.calls.write().await;
        let begun = self.begin_suspension();
        drop(no_calls);
        begun
    }

    /// Lets nothing begin any more. `false` if it ends, or was told so before.
    pub(crate) fn begin_suspension(&self) -> bool {
        let mut status = self.status();
        !status.reaped && !std::mem::replace(&mut status.suspended, true)
    }

    /// What is asked of it can begin again.
    pub(crate) fn end_suspension(&self) {
        self.status().suspended = false;
    }

    pub(crate) fn last_used(&self) -> Instant {
        self.status().last_used
    }

    /// Whether nobody has used it for so long, and nothing runs. Asked again it says so only if it was used
    /// since.
    #[must_use]
    pub(crate) fn claim_unused(&self, after: Duration) -> bool {
        let mut status = self.status();
        let is_idle = status.state() == SessionState::Idle && status.usage.queued == 0;
        let last_used = status.last_used;
        is_idle
            && !status.suspended
            && last_used.elapsed() >= after
            && status.tried_to_suspend.replace(last_used) != Some(last_used)
    }
}
