//! An execution that is followed by its events, over broken connections.
//!
//! Must never run anything twice: until the execution's id is known a request is only repeated
//! with its idempotency key, and afterwards never.

use std::time::Duration;

use hyper::header::{ACCEPT, HeaderName};
use hyper::{Method, StatusCode};
use uuid::Uuid;
use vivarium_api_types::StartedEvent;

use super::event;
use super::sse::{Decoder, SseError};
use super::{Answer, Ask, Client, ClientError, Event};

/// The largest event: a display of `max_result_bytes` in base64, with some room.
const MAX_EVENT_BYTES: usize = 96 << 20;

/// How often a connection is made again without anything new having come.
const ATTEMPTS: u32 = 6;

/// The wait before the first new connection; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);

const EVENT_STREAM: &str = "text/event-stream";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An execution under way.
#[derive(Debug)]
pub struct Execution {
    client: Client,
    path: String,
    body: Vec<u8>,
    key: String,
    /// Where it can be found again, once it has begun.
    place: Option<String>,
    last_id: String,
    stream: Option<(Answer, Decoder)>,
    attempts: u32,
    is_over: bool,
}

impl Execution {
    /// Sends the request that starts an execution: `body` is JSON. `path` is that of an
    /// execute, a command or a run.
    ///
    /// # Errors
    /// Any [`ClientError`], such as the refusal of the request.
    pub async fn start(client: Client, path: String, body: Vec<u8>) -> Result<Self, ClientError> {
        let mut execution = Self {
            client,
            path,
            body,
            key: Uuid::new_v4().to_string(),
            place: None,
            last_id: String::new(),
            stream: None,
            attempts: 0,
            is_over: false,
        };
        execution.connect().await?;
        Ok(execution)
    }

    /// The next event; none after [`Event::Done`].
    ///
    /// # Errors
    /// Any [`ClientError`], when the execution cannot be followed any further. It may go on.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while !self.is_over {
            let Some((answer, decoder)) = &mut self.stream else {
                if let Some(event) = self.reconnect().await? {
                    return Ok(Some(event));
                }
                continue;
            };
            if let Some(event) = decoder.next_event() {
                self.attempts = 0;
                self.last_id.clone_from(&event.id);
                let Some(event) = event::read(&event).map_err(|e| self.unreadable(e))? else {
                    continue;
                };
                self.note(&event);
                return Ok(Some(event));
            }
            match answer.chunk().await {
                Ok(Some(chunk)) => {
                    if let Err(error) = decoder.feed(&chunk) {
                        return Err(self.unreadable(error));
                    }
                }
                // An end without `done` is a broken connection, too.
                Ok(None) => self.stream = None,
                Err(error) => {
                    tracing::debug!(%error, "the stream of events broke");
                    self.stream = None;
                }
            }
        }
        Ok(None)
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Started(StartedEvent { execution_id, session_id }) => {
                self.place = Some(format!("/v1/sessions/{session_id}/executions/{execution_id}"));
                // Never sent again from now on.
                self.body = Vec::new();
            }
            Event::Done(_) => {
                self.is_over = true;
                self.stream = None;
            }
            _ => {}
        }
    }

    /// Asks for the events: those of a new execution, or the rest of those of the one that is
    /// under way.
    async fn connect(&mut self) -> Result<(), ClientError> {
        let ask = match &self.place {
            None => Ask::new(Method::POST, &self.path)
                .header(IDEMPOTENCY_KEY, &self.key)
                .json_bytes(self.body.clone()),
            Some(place) if self.last_id.is_empty() => Ask::new(Method::GET, place),
            Some(place) => Ask::new(Method::GET, place).header(LAST_EVENT_ID, &self.last_id),
        };
        let answer = self.client.open(ask.header(ACCEPT, EVENT_STREAM)).await?;
        self.stream = Some((answer, Decoder::new(MAX_EVENT_BYTES)));
        Ok(())
    }

    /// Connects again. Gives an event where others are missing from now on.
    async fn reconnect(&mut self) -> Result<Option<Event>, ClientError> {
        if self.attempts >= ATTEMPTS {
            let url = self.client.url().clone();
            return Err(ClientError::Broken { url, attempts: self.attempts });
        }
        tokio::time::sleep(FIRST_WAIT * 2_u32.pow(self.attempts)).await;
        self.attempts += 1;
        match self.connect().await {
            Ok(()) => Ok(None),
            Err(ClientError::Problem { status: StatusCode::GONE, .. }) => {
                // Without an id: from the first that is still kept.
                self.last_id.clear();
                Ok(Some(Event::Gap))
            }
            Err(error) if error.is_of_the_connection() && self.attempts < ATTEMPTS => {
                tracing::debug!(%error, "not connected again yet");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn unreadable(&self, source: SseError) -> ClientError {
        ClientError::Events { url: self.client.url().clone(), source }
    }
}

#[cfg(test)]
mod tests;
