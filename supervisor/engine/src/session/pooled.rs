//! A started, confined, empty session that nobody has yet.
//!
//! It has no task: it is its processes and their socket, held until somebody takes it
//! ([`super::from_pooled`]) or it is of no use any more. It must never be handed out after its agent has
//! said anything: whatever that is, the kernel is not the one that was ready.

use std::sync::Arc;
use std::task::{Context, Poll};

use vivarium_protocol::layer::Report;
use vivarium_protocol::message::{Failure, Origin};

use super::launch::{self, LaunchContext, LaunchPlan, NewSession};
use super::processes::SessionProcesses;

/// Begins the names of such sessions' scopes. No session's id has a full stop in it, so that no
/// client can choose one that is taken.
const NAME_PREFIX: &str = "pool.";

#[derive(Debug)]
pub struct PooledSession {
    pub(super) processes: SessionProcesses,
    pub(super) context: LaunchContext,
    pub(super) origin: Origin,
    pub(super) protection: Arc<[Report]>,
}

impl PooledSession {
    /// Starts one, and returns when its kernel is ready. It is given up when `until` resolves, for
    /// the reason that this gives.
    /// On a failure nothing of it is left.
    pub async fn start(
        tenant: &str,
        plan: LaunchPlan,
        until: impl Future<Output = &'static str>,
    ) -> Result<Self, Failure> {
        let LaunchPlan { policy, context } = plan;
        let limits = policy.limits.clone();
        let name = format!("{NAME_PREFIX}{}", uuid::Uuid::new_v4().simple());
        let new = NewSession { tenant, name: &name, is_ahead: true };
        let mut processes = SessionProcesses::launch(new, policy, &context).await?;
        let ready = tokio::select! {
            ready = processes.first_kernel(&limits) => ready,
            why = until => Err(launch::internal(why)),
        };
        match ready {
            Ok((origin, protection)) => {
                processes.resources.kernel_came(origin);
                let protection = context.usual(protection);
                Ok(Self { processes, context, origin, protection })
            }
            Err(failure) => {
                processes.end(&*context.backend).await;
                Err(failure)
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.processes.resources.name
    }

    /// Whether it can be taken now.
    pub fn is_alive(&mut self) -> bool {
        self.processes.channel.is_quiet()
    }

    /// Resolves when it can not be taken any more.
    pub fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.processes.channel.poll_disquiet(cx)
    }

    /// Ends it, and returns when nothing of it is left.
    pub async fn discard(self) {
        let Self { processes, context, .. } = self;
        processes.end(&*context.backend).await;
    }
}
