//! The events of an execution or process, taken up again where its stream broke off.

use std::collections::VecDeque;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use vivarium_api_types::OutputEvent;
use vivarium_client::{Decoder, path};

use crate::dialects::lines::{Lines, Printed, cut, reached};
use crate::dialects::native::{self, Call, Native, Refusal};

/// The largest event: all that code may display, in base64, and the rest.
const MAX_EVENT_BYTES: usize = 256 << 20;

/// How often in a row a stream may break off without an event.
const MAX_BREAKS: u32 = 3;

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) data: Vec<u8>,
}

impl Event {
    fn printed(printed: Printed) -> Self {
        let output = OutputEvent { text: printed.text.into() };
        // A string is always JSON.
        Self { kind: printed.stream, data: serde_json::to_vec(&output).unwrap_or_default() }
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.data).map_err(|error| unreadable(&error))
    }
}

/// What names an execution.
#[derive(Deserialize)]
struct Named {
    execution_id: String,
}

/// The events of one execution.
pub(super) struct Events<N: Native> {
    native: N,
    session: String,
    execution: Option<String>,
    body: Body,
    decoder: Decoder,
    last: Option<u64>,
    breaks: u32,
    lines: Lines,
    /// What [`Self::next_line`] gives next.
    told: VecDeque<Event>,
}

impl<N: Native> Events<N> {
    /// Sends a request that starts something.
    pub(super) async fn start(native: N, session: &str, call: Call) -> Result<Self, Refusal> {
        let body = native::streamed(&native, call).await?;
        Ok(Self::of(native, session, None, body))
    }

    /// Follows what runs, from the first event that is kept.
    pub(super) async fn follow(native: N, session: &str, id: &str) -> Result<Self, Refusal> {
        let call = Call::new(Method::GET, path::execution(session, id));
        let body = native::streamed(&native, call).await?;
        Ok(Self::of(native, session, Some(id.to_owned()), body))
    }

    fn of(native: N, session: &str, execution: Option<String>, body: Body) -> Self {
        let decoder = Decoder::new(MAX_EVENT_BYTES);
        let session = session.to_owned();
        let (lines, told) = (Lines::default(), VecDeque::new());
        Self { native, session, execution, body, decoder, last: None, breaks: 0, lines, told }
    }

    /// The id, once an event has told it.
    pub(super) fn execution(&self) -> Option<&str> {
        self.execution.as_deref()
    }

    /// The next event. There is one until `done`.
    pub(super) async fn next(&mut self) -> Result<Event, Refusal> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                self.last = event.id.parse().ok().or(self.last);
                self.breaks = 0;
                let event = Event { kind: event.event.to_string(), data: event.data.to_vec() };
                if matches!(event.kind.as_str(), "started" | "awaiting_approval") {
                    self.execution = Some(event.read::<Named>()?.execution_id);
                }
                return Ok(event);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.feed(&data).map_err(|error| unreadable(&error))?;
                    }
                }
                Some(Err(error)) => self.again(&unreadable(&error)).await?,
                None => self.again(&unreadable(&"they broke off")).await?,
            }
        }
    }

    /// The next event, with what is printed in whole lines.
    pub(super) async fn next_line(&mut self) -> Result<Event, Refusal> {
        loop {
            if let Some(event) = self.told.pop_front() {
                return Ok(event);
            }
            let due = self.lines.due();
            let event = tokio::select! {
                biased;
                event = self.next() => event,
                () = reached(due) => {
                    self.told.extend(self.lines.take().map(Event::printed));
                    continue;
                }
            };
            match event {
                Ok(event) if matches!(event.kind.as_str(), "stdout" | "stderr") => {
                    let output: OutputEvent<'_> = event.read()?;
                    let printed = self.lines.add(&event.kind, &output.text);
                    self.told.extend(printed.into_iter().map(Event::printed));
                }
                Ok(event) => {
                    self.told.extend(self.lines.take().map(Event::printed));
                    if event.kind == "done" {
                        self.told.extend(cut(&event.read()?).map(Event::printed));
                    }
                    self.told.push_back(event);
                }
                // What was printed before is told first; asked again, the events are as broken.
                Err(refusal) => match self.lines.take() {
                    Some(printed) => return Ok(Event::printed(printed)),
                    None => return Err(refusal),
                },
            }
        }
    }

    /// Room for what is made of an event, until it is sent.
    pub(super) async fn room(&mut self, event: &Event) -> Result<N::Room, Refusal> {
        // It is there parsed, and as a message.
        self.native.room(2 * event.data.len()).await
    }

    /// The events after the last one; if they are gone, from the first that is kept.
    async fn again(&mut self, why: &Refusal) -> Result<(), Refusal> {
        self.breaks += 1;
        let id = self.execution.as_deref().filter(|_| self.breaks <= MAX_BREAKS);
        let Some(id) = id else { return Err(why.clone()) };
        let call = Call::new(Method::GET, path::execution(&self.session, id));
        let after = Call { last_event_id: self.last, ..call.clone() };
        self.body = match native::streamed(&self.native, after).await {
            Err(refusal) if refusal.code == "events_gone" => {
                native::streamed(&self.native, call).await?
            }
            body => body?,
        };
        self.decoder = Decoder::new(MAX_EVENT_BYTES);
        Ok(())
    }
}

pub(super) fn unreadable(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::unreachable(format!("the events: {why}"))
}
