//! Running things: in a session, in one of its own, and once for all who ask with the same key.
//!
//! What a request leads to is an execution's [`ExecutionLog`]; who asked holds a [`Ticket`] for it, and
//! waits for its end or follows its events. Once it is queued it runs, whether or not anybody
//! still does.

use std::sync::Arc;

use tokio::task::JoinHandle;
use vivarium_api_types::{CommandRequest, ExecuteRequest, Outcome, RunRequest};
use vivarium_protocol::outcome::Cause;

use super::idempotency::{Claim, Once, Product, Slot};
use super::request::{self, Order};
use super::{Engine, EngineError};
use crate::budget::Reservation;
use crate::observe;
use crate::session::execution_log::{
    Attached, EventNumber, EventSubscription, ExecutionLog, NoSuchEvent,
};
use crate::session::{self, Command, NewExecution, Refusal, Session};

/// How a client wants its execution.
#[derive(Debug, Default)]
pub struct Delivery {
    /// As events, and not as an outcome.
    pub streamed: bool,
    /// Once, however often it asks.
    pub once: Option<Once>,
    /// What its request takes of the daemon's memory.
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

/// An execution that was taken. Who holds this wants it to run.
#[derive(Debug)]
pub struct Ticket {
    session_id: String,
    record: Arc<ExecutionLog>,
    /// Whether an earlier request led to it.
    pub is_replay: bool,
    /// Resolves when nothing of a run's session is left.
    gone: Option<JoinHandle<()>>,
    _attached: Attached,
}

impl Ticket {
    /// For an execution that an earlier request led to.
    fn again(record: Arc<ExecutionLog>) -> Self {
        let _attached = record.attach();
        Self { session_id: String::new(), record, is_replay: true, gone: None, _attached }
    }

    /// Waits for its end, and for that of a session of its own.
    ///
    /// # Errors
    /// [`EngineError`] if its session was over before it could take it.
    pub async fn outcome(mut self) -> Result<Arc<Outcome>, EngineError> {
        let result = self.record.finished().await;
        wait_for(self.gone.take()).await;
        result.map_err(|refusal| refused(refusal, &self.session_id, 0))
    }

    /// Follows its events from after this one on, or from the first that is kept; and what to
    /// wait for after the last.
    ///
    /// # Errors
    /// [`EngineError::EventsGone`]
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

/// Follows a record.
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
    ///
    /// # Errors
    /// [`EngineError`]. What the code does wrong is an outcome and no error.
    pub async fn execute(
        &self,
        tenant: &str,
        id: &str,
        request: ExecuteRequest,
        create: bool,
    ) -> Result<Arc<Outcome>, EngineError> {
        let delivery = Delivery::default();
        self.start_code(tenant, id, request, create, delivery).await?.outcome().await
    }

    /// Runs code or a command in a session of its own, and returns when nothing of that is left.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn run(
        &self,
        tenant: &str,
        request: RunRequest,
    ) -> Result<Arc<Outcome>, EngineError> {
        self.start_run(tenant, request, Delivery::default()).await?.outcome().await
    }

    /// Has code run in a session, which is made first if `create` says so and there is none.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn start_code(
        &self,
        tenant: &str,
        id: &str,
        request: ExecuteRequest,
        create: bool,
        delivery: Delivery,
    ) -> Result<Ticket, EngineError> {
        let order = request::code(&self.settings(), request)?;
        self.start_in(tenant, id, order, create, delivery).await
    }

    /// Has a command run in a session.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn start_command(
        &self,
        tenant: &str,
        id: &str,
        request: CommandRequest,
        delivery: Delivery,
    ) -> Result<Ticket, EngineError> {
        let order = request::command(&self.settings(), request)?;
        self.start_in(tenant, id, order, false, delivery).await
    }

    /// Has code or a command run in a session of its own.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn start_run(
        &self,
        tenant: &str,
        request: RunRequest,
        delivery: Delivery,
    ) -> Result<Ticket, EngineError> {
        let (order, spec) = request::run(&self.settings(), request)?;
        let (engine, owner) = (self.clone(), tenant.to_owned());
        let Delivery { streamed, once, reservation } = delivery;
        self.once(tenant, once, async move {
            let session = engine
                .add(&owner, spec)
                .await?
                .map_err(|existing| EngineError::Conflict(existing.identity.id.clone()))?;
            match engine.hand_over(&session, order, streamed, true, reservation).await {
                Ok(mut ticket) => {
                    ticket.gone = Some(tokio::spawn(end_with(session, Arc::clone(&ticket.record))));
                    Ok(ticket)
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
        order: Order,
        create: bool,
        delivery: Delivery,
    ) -> Result<Ticket, EngineError> {
        let (engine, owner, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        let Delivery { streamed, once, reservation } = delivery;
        self.once(tenant, once, async move {
            engine.check_open(&owner)?;
            let (session, is_new) = match engine.find(&owner, &id) {
                Err(EngineError::UnknownSession(_)) if create => {
                    engine.find_or_add(&owner, &id).await?
                }
                found => (found?, false),
            };
            engine.hand_over(&session, order, streamed, is_new, reservation).await
        })
        .await
    }

    /// Finds out whether an earlier request with the same key was carried out.
    pub(super) async fn claim(
        &self,
        tenant: &str,
        once: Option<Once>,
    ) -> Result<Claimed, EngineError> {
        let Some(once) = once else { return Ok(Claimed::First(None)) };
        loop {
            let kept = self.settings().session.results_kept;
            match self.inner.keys.claim(tenant, &once, kept)? {
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
        once: Option<Once>,
        start: impl Future<Output = Result<Ticket, EngineError>> + Send + 'static,
    ) -> Result<Ticket, EngineError> {
        let slot = match self.claim(tenant, once).await? {
            Claimed::First(slot) => slot,
            Claimed::Again(Product::Execution(record)) => return Ok(Ticket::again(record)),
            Claimed::Again(Product::Session(_)) => return Err(EngineError::KeyReused),
        };
        // A task: if the caller goes away, what has begun is still finished.
        let task = tokio::spawn(async move {
            let ticket = start.await?;
            if let Some(slot) = slot {
                slot.taken(&ticket.record);
            }
            Ok(ticket)
        });
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "starting an execution failed");
            Err(EngineError::NotStarted(session::internal_failure(&error.to_string())))
        })
    }

    /// Gives a session something to run, and returns when it waits for its turn there.
    pub(super) async fn hand_over(
        &self,
        session: &Arc<Session>,
        order: Order,
        streamed: bool,
        session_created: bool,
        reservation: Option<Reservation>,
    ) -> Result<Ticket, EngineError> {
        let reservation = match reservation {
            // It was for the request's body too, which is gone.
            Some(mut reservation) => {
                reservation.set(order.bytes());
                reservation
            }
            None => self.reserve(&session.identity.tenant, order.bytes())?,
        };
        let settings = self.settings();
        let Order { work, files, outputs, timeout, cancel_on_disconnect } = order;
        let (record, writer) =
            ExecutionLog::new(settings.session.event_buffer_bytes, cancel_on_disconnect);
        let attached = record.attach();
        let execution = NewExecution {
            work,
            files,
            outputs,
            timeout,
            streamed,
            session_created,
            writer,
            reservation,
        };
        let session_id = session.identity.id.clone();
        // One that is not told is dropped, which refuses it.
        session.send(Command::Execute(Box::new(execution))).await;
        let mut taken = record.queued().await;
        if taken.is_ok() && session.started().await.is_err() {
            // Whether it could not be started, or was ended before: the session says so.
            taken = record.finished().await.map(drop);
        }
        if let Err(refusal) = taken {
            if refusal == Refusal::QueueFull {
                self.observer(&session.identity.tenant).refused(observe::Refusal::QueueFull);
            }
            return Err(match (refusal, session.started().await) {
                // It may have been over before it heard of this.
                (Refusal::NotStarted(failure), _) | (Refusal::Gone, Err(failure)) => {
                    EngineError::NotStarted(failure)
                }
                (refusal, _) => refused(refusal, &session_id, settings.session.queue_depth),
            });
        }
        Ok(Ticket { session_id, record, is_replay: false, gone: None, _attached: attached })
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

/// A session's refusal in the engine's words.
fn refused(refusal: Refusal, session_id: &str, depth: usize) -> EngineError {
    match refusal {
        Refusal::QueueFull => EngineError::QueueFull { depth },
        Refusal::Busy => EngineError::Busy,
        Refusal::NotStarted(failure) => EngineError::NotStarted(failure),
        Refusal::Gone => EngineError::UnknownSession(session_id.to_owned()),
    }
}
