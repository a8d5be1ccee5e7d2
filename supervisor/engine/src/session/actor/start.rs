//! How a session begins: by a launch of its own, or with processes that waited in a pool.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use vivarium_api_types::SessionState;
use vivarium_protocol::leaf::FIRST_CONTEXT;

use super::{Actor, end};
use crate::session::deadlines::Awaited;
use crate::session::launch::{LaunchContext, LaunchPlan, NewSession};
use crate::session::pooled::PooledSession;
use crate::session::processes::SessionProcesses;
use crate::session::{Adjustable, Command, Identity, Session, Timing, audited};

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
        match Box::pin(SessionProcesses::launch(new, policy, &context)).await {
            Ok(processes) => {
                own.set_scope(&processes);
                let starting = |actor: &mut Actor| {
                    actor.wait_for(FIRST_CONTEXT, Awaited::Kernel);
                };
                running(Arc::clone(&own), processes, context, commands, starting).await;
            }
            Err(why) => Box::pin(end::stillborn(&own, why, commands, context)).await,
        }
        on_gone(&own);
        own.gone.set(true);
    });
    session
}

/// The rest of a session's life, of which the task that awaits it holds no part itself.
fn running(
    session: Arc<Session>,
    processes: SessionProcesses,
    context: LaunchContext,
    commands: mpsc::Receiver<Command>,
    begin: impl FnOnce(&mut Actor),
) -> Pin<Box<impl Future<Output = ()> + Send>> {
    let mut actor = Actor::new(session, processes, context);
    begin(&mut actor);
    Box::pin(actor.run(commands))
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
    session.started.set(Some(Ok(())));
    audited::created(&session, &context.observer);
    context.observer.session_started(session.created.elapsed());
    context.observer.kernel_started(origin);
    let own = Arc::clone(&session);
    tokio::spawn(async move {
        let idle = |actor: &mut Actor| {
            let first = actor.contexts.first_mut();
            first.state = SessionState::Idle;
            first.origin = Some(origin);
            first.kernels.ready();
        };
        running(Arc::clone(&own), processes, context, commands, idle).await;
        on_gone(&own);
        own.gone.set(true);
    });
    session
}
