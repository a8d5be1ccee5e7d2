//! The events of an execution, the same on every target.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use vivarium_api_types::{DisplayEvent, DoneEvent, StartedEvent};
use vivarium_client::{Event, Execution};
use vivarium_engine::session::execution_log::{Batch, EventKind, EventNumber, EventSubscription};
use vivarium_engine::session::{mime_bundle, mime_sizes};
use vivarium_engine::{DEFAULT_TENANT, Engine, EngineError, ExecutionHandle};
use vivarium_protocol::message::Stream;

use crate::exit::{Exit, Failure};

#[derive(Debug)]
pub(crate) enum EventStream {
    Daemon(Box<Execution>),
    Embedded(Box<EmbeddedEvents>),
}

impl EventStream {
    /// The next event; none after the last. May be dropped without losing any.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        match self {
            Self::Daemon(execution) => Ok(execution.next().await?),
            Self::Embedded(events) => events.next().await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct EmbeddedEvents {
    engine: Engine,
    reader: EventSubscription,
    /// The ids of the session and the execution, once it has begun.
    ids: Option<(String, String)>,
    last: Option<EventNumber>,
    ready: VecDeque<Event>,
    is_over: bool,
}

impl EmbeddedEvents {
    pub(super) fn new(engine: &Engine, handle: ExecutionHandle) -> Result<Self, Failure> {
        // The session outlives the execution: there is nothing to wait for after the last event.
        let (reader, _) = handle.follow(None)?;
        Ok(Self {
            engine: engine.clone(),
            reader,
            ids: None,
            last: None,
            ready: VecDeque::new(),
            is_over: false,
        })
    }

    /// The next event; none after the last. May be dropped without losing any.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.reader.next().await {
                Batch::Events(events) => {
                    for event in events {
                        self.last = Some(event.number);
                        let event = self.api_event(&event.kind);
                        self.ready.push_back(event);
                    }
                }
                Batch::End => self.is_over = true,
                // The reader of our output was away for too long.
                Batch::CutOff => self.resume()?,
            }
        }
    }

    /// Reads on after the last event, or from the first that is still kept.
    fn resume(&mut self) -> Result<(), Failure> {
        let Some((session, execution)) = &self.ids else {
            return Err(Failure::says(Exit::Error, "the execution can not be followed"));
        };
        let follow = |after| self.engine.follow(DEFAULT_TENANT, session, execution, after);
        let again = match follow(self.last) {
            Err(EngineError::EventsGone { .. }) => {
                self.ready.push_back(Event::Gap);
                follow(None)
            }
            again => again,
        };
        self.reader = again?;
        Ok(())
    }

    fn api_event(&mut self, what: &EventKind) -> Event {
        match what {
            EventKind::Started { execution_id, session_id } => {
                self.ids = Some((session_id.clone(), execution_id.clone()));
                Event::Started(StartedEvent {
                    execution_id: Cow::Owned(execution_id.clone()),
                    session_id: Cow::Owned(session_id.clone()),
                })
            }
            EventKind::AwaitingApproval(awaiting) => Event::AwaitingApproval(awaiting.clone()),
            EventKind::Call(call) => Event::Call(Arc::unwrap_or_clone(Arc::clone(call))),
            EventKind::CallEnded(ended) => {
                Event::CallEnded(Arc::unwrap_or_clone(Arc::clone(ended)))
            }
            EventKind::Output(Stream::Stdout, text) => Event::Stdout(text.clone()),
            EventKind::Output(Stream::Stderr, text) => Event::Stderr(text.clone()),
            EventKind::Display(display) => Event::Display(DisplayEvent {
                kind: display.kind,
                id: display.id.clone().map(Cow::Owned),
                sizes: mime_sizes(&display.mime),
                mime: mime_bundle(&display.mime),
            }),
            EventKind::Value(value) => Event::Result(Arc::unwrap_or_clone(Arc::clone(value))),
            EventKind::Exception(error) => Event::Error(Arc::unwrap_or_clone(Arc::clone(error))),
            EventKind::Done { outcome, stdout_truncated, stderr_truncated } => {
                let done = DoneEvent::new(outcome, *stdout_truncated, *stderr_truncated);
                Event::Done(Box::new(owned(done)))
            }
        }
    }
}

fn owned(done: DoneEvent<'_>) -> DoneEvent<'static> {
    DoneEvent {
        execution_id: Cow::Owned(done.execution_id.into_owned()),
        session_id: Cow::Owned(done.session_id.into_owned()),
        detail: Cow::Owned(done.detail.into_owned()),
        kernel: done.kernel.map(|kernel| Cow::Owned(kernel.into_owned())),
        files: Cow::Owned(done.files.into_owned()),
        files_changed: Cow::Owned(done.files_changed.into_owned()),
        ..done
    }
}
