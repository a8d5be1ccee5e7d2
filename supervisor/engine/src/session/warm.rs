//! A started, confined, empty session that nobody has yet.
//!
//! It has no task: it is its processes and their socket, held until somebody takes it
//! ([`super::adopt`]) or it is of no use any more. It must never be handed out after its agent has
//! said anything: whatever that is, the kernel is not the one that was ready.

use std::sync::Arc;
use std::task::{Context, Poll};

use vivarium_protocol::layer::Report;
use vivarium_protocol::message::{Failure, Origin};

use super::body::Body;
use super::launch::{self, Means, Place, Recipe};

/// Begins the names of such sessions' scopes. No session's id has a full stop in it, so that no
/// client can choose one that is taken.
const NAME_PREFIX: &str = "pool.";

/// See the module.
#[derive(Debug)]
pub struct Warm {
    pub(super) body: Body,
    pub(super) means: Means,
    pub(super) origin: Origin,
    pub(super) protection: Arc<[Report]>,
}

impl Warm {
    /// Starts one, and returns when its kernel is ready. It is given up when `until` resolves, for
    /// the reason that this gives.
    ///
    /// # Errors
    /// The [`Failure`]; nothing is left of it then.
    pub async fn start(
        tenant: &str,
        recipe: Recipe,
        until: impl Future<Output = &'static str>,
    ) -> Result<Self, Failure> {
        let Recipe { policy, means } = recipe;
        let name = format!("{NAME_PREFIX}{}", uuid::Uuid::new_v4().simple());
        let mut body = Body::launch(Place { tenant, name: &name }, policy, &means).await?;
        let ready = tokio::select! {
            ready = body.first_kernel() => ready,
            why = until => Err(launch::internal(why)),
        };
        match ready {
            Ok((origin, protection)) => {
                body.resources.kernel_came(origin);
                let protection = means.usual(protection);
                Ok(Self { body, means, origin, protection })
            }
            Err(failure) => {
                body.end(&*means.backend).await;
                Err(failure)
            }
        }
    }

    /// The name of its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.body.resources.name
    }

    /// Whether it can be taken now.
    pub fn is_alive(&mut self) -> bool {
        self.body.channel.is_quiet()
    }

    /// Resolves when it can not be taken any more.
    pub fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.channel.poll_disquiet(cx)
    }

    /// Ends it, and returns when nothing of it is left.
    pub async fn discard(self) {
        let Self { body, means, .. } = self;
        body.end(&*means.backend).await;
    }
}
