//! Running things: in a session, in one of its own, and once for all who ask with the same key.
//!
//! What a request leads to is an execution's [`ExecutionLog`]; who asked holds a [`ExecutionHandle`] for it, and
//! waits for its end or follows its events. Once it is queued it runs, whether or not anybody still does.

use std::sync::Arc;

use tokio::task::JoinHandle;
use vivarium_api_types::{
    ApprovalSpec, CommandRequest, ExecuteRequest, ExecutionKind, Outcome, RunRequest,
};
use vivarium_protocol::message::Work;
use vivarium_protocol::outcome::Cause;

mod refusal;

use refusal::{no_pipe, refused};

use super::idempotency::{Claim, IdempotencyKey, Product, Slot};
use super::{Engine, EngineError, request};
use crate::budget::Reservation;
use crate::observe;
use crate::quotas::{Admission, Grant};
use crate::session::execution_log::{
    Attached, EventNumber, EventSubscription, ExecutionLog, NoSuchEvent, Stage,
};
use crate::session::{self, Command, QueuedExecution, Refusal, Session, StdinPipe, WorkSpec};
use crate::settings::ApprovalRule;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResponseMode {
    /// With the outcome, when the execution has ended.
    #[default]
    Outcome,
    /// With the events after this one as they happen.
    Events(Option<EventNumber>),
}

/// What a request says besides the work to do.
#[derive(Debug, Default)]
pub struct ExecutionOptions {
    pub response: ResponseMode,
    pub idempotency_key: Option<IdempotencyKey>,
    /// The part of the daemon's memory that the request takes; reserved if there is none.
    pub reservation: Option<Reservation>,
}

/// What is to be done about a request that may have come before.
#[derive(Debug)]
pub(super) enum Claimed {
    /// To carry it out; where it has a key, what comes of it goes into the slot.
    First(Option<Slot>),
    /// To answer with what the first has led to.
    Again(Product),
}

/// An accepted execution. Whoever holds the handle wants the execution to run.
#[derive(Debug)]
pub struct ExecutionHandle {
    session_id: String,
    record: Arc<ExecutionLog>,
    /// Whether an earlier request led to it.
    pub is_replay: bool,
    /// Resolves when nothing of a run's session is left.
    gone: Option<JoinHandle<()>>,
    _attached: Attached,
}

impl ExecutionHandle {
    /// For an execution that an earlier request led to.
    fn again(record: Arc<ExecutionLog>) -> Self {
        let _attached = record.attach();
        Self { session_id: String::new(), record, is_replay: true, gone: None, _attached }
    }

    /// For an execution that is known by its id.
    pub(super) fn of(session_id: &str, record: Arc<ExecutionLog>) -> Self {
        let _attached = record.attach();
        let session_id = session_id.to_owned();
        Self { session_id, record, is_replay: false, gone: None, _attached }
    }

    /// Its id in its session.
    pub fn execution_id(&self) -> Option<String> {
        match self.record.stage() {
            Stage::Queued(number) | Stage::AwaitingApproval(number) | Stage::Running(number) => {
                Some(number.to_string())
            }
            Stage::Done(outcome) => Some(outcome.execution_id.clone()),
            Stage::Submitted | Stage::Refused(_) => None,
        }
    }

    /// What it prints and comes to, for others to follow.
    pub(super) fn log(&self) -> Arc<ExecutionLog> {
        Arc::clone(&self.record)
    }

    /// Waits for its end, and for that of a session of its own.
    pub async fn outcome(mut self) -> Result<Arc<Outcome>, EngineError> {
        let result = self.record.finished().await;
        wait_for(self.gone.take()).await;
        result.map_err(|refusal| refused(refusal, &self.session_id, 0))
    }

    /// Follows its events from after this one on, or from the first that is kept; and what to
    /// wait for after the last.
    pub fn follow(
        self,
        after: Option<EventNumber>,
    ) -> Result<(EventSubscription, impl Future<Output = ()> + Send + use<>), EngineError> {
        let reader = follow(&self.record, after)?;
        Ok((reader, wait_for(self.gone)))
    }
}

async fn wait_for(gone: Option<JoinHandle<()>>) {
    if let Some(gone) = gone
        && let Err(error) = gone.await
    {
        tracing::error!(%error, "ending the session of a run");
    }
}

pub(super) fn follow(
    record: &Arc<ExecutionLog>,
    after: Option<EventNumber>,
) -> Result<EventSubscription, EngineError> {
    record.subscribe(after).map_err(|error| match error {
        NoSuchEvent::Gone { first } => EngineError::EventsGone { first },
        NoSuchEvent::NotYet { last } => {
            EngineError::invalid("Last-Event-ID", format!("the last event so far is {last}"))
        }
    })
}

impl Engine {
    /// Runs code in a session, which is made first if `create` says so and there is none.
    /// What the code does wrong is an outcome and no error.
    pub async fn execute(
        &self,
        tenant: &str,
        id: &str,
        request: ExecuteRequest,
        create: bool,
    ) -> Result<Arc<Outcome>, EngineError> {
        let options = ExecutionOptions::default();
        self.start_code(tenant, id, request, create, options).await?.outcome().await
    }

    /// Runs code or a command in a session of its own, and returns when nothing of that is left.
    pub async fn run(
        &self,
        tenant: &str,
        request: RunRequest,
    ) -> Result<Arc<Outcome>, EngineError> {
        self.start_run(tenant, request, ExecutionOptions::default()).await?.outcome().await
    }

    /// Has code run in a session, which is made first if `create` says so and there is none.
    pub async fn start_code(
        &self,
        tenant: &str,
        id: &str,
        request: ExecuteRequest,
        create: bool,
        mut options: ExecutionOptions,
    ) -> Result<ExecutionHandle, EngineError> {
        let settings = self.settings_of(tenant);
        let spec = request::considered(settings, request, &mut options, request::code).await?;
        self.start_in(tenant, id, spec, create, options).await
    }

    pub async fn start_command(
        &self,
        tenant: &str,
        id: &str,
        request: CommandRequest,
        mut options: ExecutionOptions,
    ) -> Result<ExecutionHandle, EngineError> {
        let settings = self.settings_of(tenant);
        let spec = request::considered(settings, request, &mut options, request::command).await?;
        self.start_in(tenant, id, spec, false, options).await
    }

    /// Has code or a command run in a session of its own.
    pub async fn start_run(
        &self,
        tenant: &str,
        request: RunRequest,
        mut options: ExecutionOptions,
    ) -> Result<ExecutionHandle, EngineError> {
        let settings = self.settings_of(tenant);
        let considered = request::considered(settings, request, &mut options, request::run);
        let (spec, session) = considered.await?;
        let (engine, owner) = (self.clone(), tenant.to_owned());
        let ExecutionOptions { response, idempotency_key, reservation } = options;
        self.once(tenant, idempotency_key, async move {
            // Before a session is made for it.
            let approval = session.approval.and_then(|approval| approval.executions);
            let admission = engine.admit(&owner, approval)?;
            let session = engine
                .add(&owner, session)
                .await?
                .map_err(|existing| EngineError::Conflict(existing.identity.id.clone()))?;
            let work = (spec, Some(admission));
            match engine.hand_over(&session, work, response, true, reservation).await {
                Ok(mut handle) => {
                    handle.gone = Some(tokio::spawn(end_with(session, Arc::clone(&handle.record))));
                    Ok(handle)
                }
                Err(error) => {
                    session.close(Cause::Deleted).await;
                    Err(error)
                }
            }
        })
        .await
    }

    async fn start_in(
        &self,
        tenant: &str,
        id: &str,
        spec: WorkSpec,
        create: bool,
        options: ExecutionOptions,
    ) -> Result<ExecutionHandle, EngineError> {
        let (engine, owner, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        let ExecutionOptions { response, idempotency_key, reservation } = options;
        self.once(tenant, idempotency_key, async move {
            engine.check_admits(&owner)?;
            let admission = engine.admit(&owner, spec.approval)?;
            let awake = match engine.awake(&owner, &id).await {
                Err(EngineError::UnknownSession(_)) if create => None,
                found => Some(found?),
            };
            let (session, is_new) = match &awake {
                Some(awake) => (Arc::clone(awake), false),
                None => engine.find_or_add(&owner, &id).await?,
            };
            engine.check_rule(&owner, session.identity.approval, spec.approval)?;
            let work = (spec, Some(admission));
            engine.hand_over(&session, work, response, is_new, reservation).await
        })
        .await
    }

    /// Finds out whether an earlier request with the same key was carried out.
    pub(super) async fn claim(
        &self,
        tenant: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<Claimed, EngineError> {
        let Some(key) = key else { return Ok(Claimed::First(None)) };
        loop {
            let kept = self.settings_of(tenant).session.results_kept;
            match self.inner.keys.claim(tenant, &key, kept)? {
                Claim::First(slot) => return Ok(Claimed::First(Some(slot))),
                Claim::Again(earlier) => {
                    if let Some(product) = earlier.product().await {
                        return Ok(Claimed::Again(product));
                    }
                }
            }
        }
    }

    /// Starts something, unless an earlier request with the same key has.
    async fn once(
        &self,
        tenant: &str,
        key: Option<IdempotencyKey>,
        start: impl Future<Output = Result<ExecutionHandle, EngineError>> + Send + 'static,
    ) -> Result<ExecutionHandle, EngineError> {
        let slot = match self.claim(tenant, key).await? {
            Claimed::First(slot) => slot,
            Claimed::Again(Product::Execution(record)) => {
                return Ok(ExecutionHandle::again(record));
            }
            Claimed::Again(Product::Session(_)) => return Err(EngineError::KeyReused),
        };
        // A task: if the caller goes away, what has begun is still finished.
        let task = tokio::spawn(async move {
            let handle = start.await?;
            if let Some(slot) = slot {
                slot.taken(&handle.record);
            }
            Ok(handle)
        });
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "starting an execution failed");
            Err(EngineError::NotStarted(session::internal_failure(&error.to_string())))
        })
    }

    /// The right to run something, which every execution needs.
    fn admit(&self, tenant: &str, rule: Option<ApprovalRule>) -> Result<Admission, EngineError> {
        self.check_rule(tenant, ApprovalSpec::default(), rule)?;
        self.quotas(tenant).execution().map_err(|exceeded| self.over_quota(tenant, exceeded))
    }

    /// Gives a session something to run, and returns when it waits for its turn there. A question
    /// about code is no execution, and needs no admission.
    pub(super) async fn hand_over(
        &self,
        session: &Arc<Session>,
        (mut spec, admission): (WorkSpec, Option<Admission>),
        response: ResponseMode,
        session_created: bool,
        reservation: Option<Reservation>,
    ) -> Result<ExecutionHandle, EngineError> {
        if let Work::Command(command) = &spec.work {
            self.check_command(&session.identity.environment, &command.argv)?;
        }
        Self::add_policy(session, &mut spec)?;
        self.add_tools(session, &mut spec).await?;
        let reservation = match reservation {
            // It was for the request's body too, which is gone.
            Some(mut reservation) => {
                reservation.set(spec.bytes());
                reservation
            }
            None => self.reserve(&session.identity.tenant, spec.bytes())?,
        };
        self.admit_audit().await?;
        self.admit_stores(session).await?;
        let settings = self.settings_of(&session.identity.tenant);
        let (record, writer) =
            ExecutionLog::new(settings.session.event_buffer_bytes, spec.cancel_on_disconnect);
        if spec.has_pipe() {
            let (pipe, read_end) = StdinPipe::new().map_err(no_pipe)?;
            record.set_stdin(pipe);
            spec.descriptor = Some(read_end);
        }
        if spec.tools.is_some() {
            record.make_callable();
        }
        record.is_of(match spec.work {
            Work::Command(_) => ExecutionKind::Command,
            _ => ExecutionKind::Code,
        });
        let begin = admission.map(|Admission { begin, in_flight }| {
            writer.hold(in_flight);
            begin
        });
        let attached = record.attach();
        let streamed = response != ResponseMode::Outcome;
        let execution = QueuedExecution::new(spec, streamed, session_created, writer, reservation);
        let session_id = session.identity.id.clone();
        let context = execution.spec.context.clone();
        // One that is not told is dropped, which refuses it.
        session.send(Command::Execute(Box::new(execution))).await;
        let mut taken = record.queued().await;
        if taken.is_ok() && session.started().await.is_err() {
            // Whether it could not be started, or was ended before: the session says so.
            taken = record.finished().await.map(drop);
        }
        if let Err(refusal) = taken {
            let observer = self.observer(&session.identity.tenant);
            match refusal {
                Refusal::QueueFull => observer.refused(observe::Refusal::QueueFull),
                Refusal::TooManyCommands => observer.refused(observe::Refusal::TooManyCommands),
                Refusal::OverQuota(exceeded) => observer.over_quota(exceeded.quota),
                _ => {}
            }
            return Err(match (refusal, session.started().await) {
                // It may have been over before it heard of this.
                (Refusal::NotStarted(failure), _) | (Refusal::Gone, Err(failure)) => {
                    EngineError::NotStarted(failure)
                }
                (Refusal::UnknownContext, _) => {
                    EngineError::UnknownContext(context.unwrap_or_default())
                }
                (refusal, _) => refused(refusal, &session_id, settings.session.queue_depth),
            });
        }
        begin.into_iter().for_each(Grant::used);
        Ok(ExecutionHandle {
            session_id,
            record,
            is_replay: false,
            gone: None,
            _attached: attached,
        })
    }
}

/// Ends the session of a run when that is over, or when nobody waits for it any more and it is to
/// end then.
async fn end_with(session: Arc<Session>, record: Arc<ExecutionLog>) {
    tokio::select! {
        _ = record.finished() => {}
        () = record.abandoned() => {}
    }
    drop(record);
    session.close(Cause::Deleted).await;
}
