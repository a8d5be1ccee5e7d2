//! A session's processes, and what is followed of them: a session without its identity.
//!
//! There is one way to start one, whether a client waits for it or it is to wait in a pool for a
//! client ([`super::pooled`]). What ends it is with whoever has it.

use vivarium_protocol::layer::Report;
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{Failure, FromAgent, Origin};
use vivarium_protocol::policy::{Limits, Policy};
use vivarium_protocol::sequence::Sequence;

use super::actor::Accounting;
use super::cause::{self, Evidence};
use super::channel::Channel;
use super::launch::{self, LaunchContext, NewSession, Resources};
use crate::backend::Backend;

#[derive(Debug)]
pub(super) struct SessionProcesses {
    pub(super) channel: Channel,
    pub(super) resources: Resources,
    /// What its agent may say next.
    pub(super) sequence: Sequence,
    /// What is counted and measured of its first context.
    pub(super) accounting: Accounting,
}

impl SessionProcesses {
    /// Starts the processes, without waiting for a kernel.
    pub(super) async fn launch(
        new: NewSession<'_>,
        policy: Policy,
        context: &LaunchContext,
    ) -> Result<Self, Failure> {
        let (channel, resources) = launch::launch(new, policy, context).await?;
        // Only now, when the launcher has its policy: nobody waits for this.
        let scope = resources.scope.as_deref();
        let accounting = scope.map(|scope| Accounting::of(scope, Leaf::FIRST)).unwrap_or_default();
        Ok(Self { channel, resources, sequence: Sequence::default(), accounting })
    }

    /// Waits for the first kernel, where nobody asks for anything meanwhile: whatever else comes
    /// first is a failure.
    pub(super) async fn first_kernel(
        &mut self,
        limits: &Limits,
    ) -> Result<(Origin, Vec<Report>), Failure> {
        let message =
            self.channel.next().await.map_err(|error| launch::internal(&error.to_string()))?;
        self.sequence.accept(&message).map_err(|error| launch::internal(&error.to_string()))?;
        match message {
            FromAgent::KernelReady { origin, protection, .. } => Ok((origin, protection)),
            FromAgent::Failed(failure) => Err(failure),
            FromAgent::KernelExited { end, .. } => {
                let (_, detail) = cause::explain(&end, limits, Evidence::default());
                Err(launch::internal(&format!("its first kernel ended: {detail}")))
            }
            _ => Err(launch::internal("its agent spoke of something else than its first kernel")),
        }
    }

    /// Ends it, and returns when nothing of it is left.
    pub(super) async fn end(self, backend: &dyn Backend) {
        let Self { channel, resources, accounting, .. } = self;
        resources.kill();
        // It holds files of the scope, which is to be removed.
        drop(accounting);
        drop(channel);
        resources.tear_down(backend).await;
    }
}
