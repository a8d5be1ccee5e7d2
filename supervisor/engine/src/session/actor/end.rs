//! The end of a session, whatever caused it. What end of file on the control socket means is
//! decided in one place: the actor's loop breaks, and this runs.

use tokio::sync::mpsc;
use tokio::time::Instant;
use vivarium_api_types::SessionState;
use vivarium_protocol::message::{Failure, Transient};
use vivarium_protocol::outcome::{Cause, State};

use super::{Actor, End};
use crate::observe::{Observer, Refusal as Refused};
use crate::session::audited;
use crate::session::launch::LaunchContext;
use crate::session::processes::SessionProcesses;
use crate::session::state::{self, Event};
use crate::session::{Command, Refusal, Session};

impl Actor {
    /// Kills the session, answers everybody, and returns when nothing of it is left.
    pub(super) async fn end(mut self, end: End, mut commands: mpsc::Receiver<Command>) {
        let id = self.session.identity.id.clone();
        let unborn = self.session.started.lock().is_none();
        if !unborn {
            // Before it can be seen to be closed.
            self.session.ended.get_or_init(Instant::now);
        }
        commands.close();
        let first = self.contexts.first_mut();
        first.state = state::next(first.state, Event::Closed).unwrap_or(SessionState::Closed);
        self.session.status().state = SessionState::Closed;
        // First of all: whatever it is doing, it is not to go on.
        self.resources.kill();
        if end.failure.is_some() || !wanted(&end) {
            tracing::warn!(session = id, cause = ?end.cause, detail = end.detail, "session ended");
        } else {
            tracing::debug!(session = id, cause = ?end.cause, "session ended");
        }
        let failure = end.failure.clone().unwrap_or_else(|| Failure {
            transient: end.is_silent.then_some(Transient::Killed),
            ..Failure::new("start a session", end.detail.as_str())
        });
        if unborn {
            self.session.started.set(Some(Err(failure.clone())));
        }
        match unborn {
            true if wanted(&end) => {}
            true => tell_not_started(&self.launch.observer, &failure),
            false => self.launch.observer.session_ended(end.cause),
        }
        // What the scope has counted goes with it.
        for number in self.contexts.numbers() {
            self.count(number);
        }
        self.finish_ended(end.cause, &end.detail);
        // Before the scope is removed, below which they are made.
        let mut waiting = self.unmade().await;
        for (_, context) in self.contexts.iter_mut() {
            waiting.extend(std::mem::take(&mut context.queue).into_iter().map(|queued| *queued));
        }
        for queued in waiting {
            if unborn && !wanted(&end) {
                queued.writer.refuse(Refusal::NotStarted(failure.clone()));
            } else {
                self.never_ran(queued, end.cause, &end.detail, State::Lost);
            }
        }
        let who = &self.session.identity;
        self.launch.approvals.forget_session(&who.tenant, &who.id);
        audited::ended(&self.session, &self.launch.observer, end.cause, !unborn);
        let Self { channel, resources, sequence, mut contexts, launch, .. } = self;
        let accounting = std::mem::take(&mut contexts.first_mut().accounting);
        // Who waits for them hears that the session is over.
        drop(contexts);
        // Commands that were on their way are dropped, which tells their senders. One who has a
        // place in the channel and has not sent yet would be dropped with the last sender only,
        // and so never: tokio's `Receiver::close` says to receive until there is nothing more.
        while commands.recv().await.is_some() {}
        SessionProcesses { channel, resources, sequence, accounting }.end(&*launch.backend).await;
    }
}

/// Whether somebody asked for this end.
const fn wanted(end: &End) -> bool {
    use vivarium_protocol::outcome::Cause;
    matches!(end.cause, Cause::Deleted | Cause::Expired | Cause::Suspended | Cause::Draining)
}

/// Counts a session that was not started: as refused, where others may give back what it lacked.
fn tell_not_started(observer: &Observer, failure: &Failure) {
    match failure.transient {
        Some(Transient::Descriptors) => observer.refused(Refused::NoDescriptors),
        Some(Transient::Memory | Transient::Processes) => observer.refused(Refused::NoCapacity),
        Some(Transient::Killed) | None => observer.session_not_started(failure.layer),
    }
}

/// A session whose launcher did not even start.
pub(super) async fn stillborn(
    session: &Session,
    failure: Failure,
    mut commands: mpsc::Receiver<Command>,
    launch: LaunchContext,
) {
    commands.close();
    tracing::warn!(%failure, "a session was not started");
    tell_not_started(&launch.observer, &failure);
    audited::ended(session, &launch.observer, Cause::KernelStart, false);
    session.status().state = SessionState::Closed;
    session.started.set(Some(Err(failure.clone())));
    while let Some(command) = commands.recv().await {
        if let Command::Execute(execution) = command {
            execution.writer.refuse(Refusal::NotStarted(failure.clone()));
        }
    }
}
