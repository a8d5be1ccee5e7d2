//! The events of an execution in this process.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use vivarium_api_types::{DisplayEvent, DoneEvent, StartedEvent};
use vivarium_client::Event;
use vivarium_engine::session::mime_bundle;
use vivarium_engine::session::record::{Batch, EventNumber, Happened, Reader};
use vivarium_engine::{DEFAULT_TENANT, Delivery, Engine, EngineError, Ticket};
use vivarium_protocol::message::Stream;

use super::refused;
use crate::exit::{Exit, Failure};
use crate::work::Work;

/// An execution that is followed.
#[derive(Debug)]
pub(crate) struct Followed {
    engine: Engine,
    reader: Reader,
    /// Where it can be found again: the session and the execution.
    place: Option<(String, String)>,
    last: Option<EventNumber>,
    ready: VecDeque<Event>,
    is_over: bool,
}

/// Has something run in a session, which is made first if `create` says so and there is none.
pub(super) async fn start(
    engine: &Engine,
    session: &str,
    work: Work,
    create: bool,
    streamed: bool,
) -> Result<Ticket, Failure> {
    let delivery = Delivery { streamed, ..Delivery::default() };
    let ticket = match work {
        Work::Code(code) => {
            engine.start_code(DEFAULT_TENANT, session, code, create, delivery).await
        }
        Work::Command(command) => {
            engine.start_command(DEFAULT_TENANT, session, command, delivery).await
        }
    };
    ticket.map_err(|error| refused(&error))
}

impl Followed {
    pub(super) fn new(engine: &Engine, ticket: Ticket) -> Result<Self, Failure> {
        // Its session is not the execution's own: there is nothing to wait for after the last.
        let (reader, _) = ticket.follow(None).map_err(|error| refused(&error))?;
        Ok(Self {
            engine: engine.clone(),
            reader,
            place: None,
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
                        let event = self.describe(&event.what);
                        self.ready.push_back(event);
                    }
                }
                Batch::End => self.is_over = true,
                // Whoever reads our output was away for so long.
                Batch::CutOff => self.come_back()?,
            }
        }
    }

    fn come_back(&mut self) -> Result<(), Failure> {
        let Some((session, execution)) = &self.place else {
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
        self.reader = again.map_err(|error| refused(&error))?;
        Ok(())
    }

    fn describe(&mut self, what: &Happened) -> Event {
        match what {
            Happened::Started { execution_id, session_id } => {
                self.place = Some((session_id.clone(), execution_id.clone()));
                Event::Started(StartedEvent {
                    execution_id: Cow::Owned(execution_id.clone()),
                    session_id: Cow::Owned(session_id.clone()),
                })
            }
            Happened::Output(Stream::Stdout, text) => Event::Stdout(text.clone()),
            Happened::Output(Stream::Stderr, text) => Event::Stderr(text.clone()),
            Happened::Display(display) => Event::Display(DisplayEvent {
                kind: display.kind,
                id: display.id.clone().map(Cow::Owned),
                mime: mime_bundle(&display.mime),
            }),
            Happened::Value(value) => Event::Result(Arc::unwrap_or_clone(Arc::clone(value))),
            Happened::Exception(error) => Event::Error(Arc::unwrap_or_clone(Arc::clone(error))),
            Happened::Done { outcome, stdout_truncated, stderr_truncated } => {
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
