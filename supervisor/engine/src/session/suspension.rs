//! What a session knows of being suspended and resumed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedRwLockReadGuard;
use tokio::time::Instant;
use vivarium_api_types::{LimitsSpec, SessionSpec, SessionState};

use super::{Adjustable, Session};
use crate::settings::Settings;
use crate::template::memory::TemplateMemory;

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

    /// What another session has to be asked for to be as this one is now.
    pub(crate) fn spec(&self, settings: &Settings) -> SessionSpec {
        let Adjustable { limits, metadata, idle_timeout, deadline } = self.adjustable();
        let idle_timeout = idle_timeout.min(settings.session.idle_timeout);
        let millis = u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX);
        SessionSpec {
            id: Some(self.identity.id.clone()),
            limits: Some(LimitsSpec::of(&limits, &settings.sandbox.limits)),
            metadata,
            idle_timeout_ms: Some(millis),
            deadline: deadline.map(|deadline| deadline.timestamp),
            ..self.spec.get().cloned().unwrap_or_default()
        }
    }

    /// Whether it is being suspended or resumed.
    pub(crate) fn is_suspended(&self) -> bool {
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
