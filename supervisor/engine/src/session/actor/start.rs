//! How a session begins: by a launch of its own, or with processes that waited in a pool.

use std::sync::Arc;

use vivarium_api_types::SessionState;
use vivarium_protocol::leaf::FIRST_CONTEXT;

use super::{Actor, end};
use crate::session::deadlines::Awaited;
use crate::session::launch::{LaunchPlan, NewSession};
use crate::session::pooled::PooledSession;
use crate::session::processes::SessionProcesses;
use crate::session::{Adjustable, Identity, Session, Timing, audited};

/// Starts a session. `on_gone` is called when nothing of it is left.
pub fn spawn(
    identity: Identity,
    adjustable: Adjustable,
    timing: Timing,
    plan: LaunchPlan,
    on_gone: impl FnOnce(&Session) + Send + 'static,
) -> Arc<Session> {
    let (session, commands) = Session::new(identity, adjustable, timing);
    let session = Arc::new(session);
    let own = Arc::clone(&session);
    tokio::spawn(async move {
        let LaunchPlan { policy, context } = plan;
        own.set_stores(context.stores.as_ref());
        audited::created(&own, &context.observer);
        let Identity { tenant, id, .. } = &own.identity;
        let turn = context.turns.wait(tenant).await;
        tokio::spawn(turn.keep_until_started(Arc::clone(&own)));
        let new = NewSession { tenant, name: id, is_ahead: false };
        match SessionProcesses::launch(new, policy, &context).await {
            Ok(processes) => {
                own.set_scope(&processes);
                let mut actor = Actor::new(Arc::clone(&own), processes, context);
                actor.wait_for(FIRST_CONTEXT, Awaited::Kernel);
                // Boxed: the future would otherwise be part of this one twice.
                Box::pin(actor.run(commands)).await;
            }
            Err(why) => end::stillborn(&own, why, commands, context).await,
        }
        on_gone(&own);
        own.gone.send_replace(true);
    });
    session
}

/// Makes one that was started before somebody's session: idle from the beginning. `on_gone` is
/// called when nothing of it is left.
pub fn from_pooled(
    identity: Identity,
    adjustable: Adjustable,
    timing: Timing,
    pooled: PooledSession,
    on_gone: impl FnOnce(&Session) + Send + 'static,
) -> Arc<Session> {
    let PooledSession { mut processes, context, origin, protection } = pooled;
    let (session, commands) = Session::new(identity, adjustable, timing);
    let session = Arc::new(session);
    tracing::debug!(
        session = session.identity.id,
        was = processes.resources.name,
        "taken from a pool"
    );
    processes.resources.name.clone_from(&session.identity.id);
    session.set_scope(&processes);
    {
        let mut status = session.status();
        status.state = SessionState::Idle;
        status.protection = protection;
        status.origin = Some(origin);
    }
    session.started.send_replace(Some(Ok(())));
    audited::created(&session, &context.observer);
    context.observer.session_started(session.created.elapsed());
    context.observer.kernel_started(origin);
    let own = Arc::clone(&session);
    tokio::spawn(async move {
        let mut actor = Actor::new(Arc::clone(&own), processes, context);
        let first = actor.contexts.first_mut();
        first.state = SessionState::Idle;
        first.origin = Some(origin);
        first.kernels.ready();
        Box::pin(actor.run(commands)).await;
        on_gone(&own);
        own.gone.send_replace(true);
    });
    session
}
