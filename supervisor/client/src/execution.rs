//! Follows the events of an execution, across broken connections.
//!
//! Must never run anything twice: until the execution's id is known a request is only repeated
//! with its idempotency key, and afterwards never.

use std::time::Duration;

use hyper::header::{ACCEPT, HeaderName};
use hyper::{Method, StatusCode};
use uuid::Uuid;
use vivarium_api_types::{CommandRequest, ExecuteRequest, StartedEvent};

use super::event;
use super::sse::{Decoder, SseError};
use super::{ApiRequest, ApiResponse, Client, ClientError, Event, executions, path};

/// The largest event: a display of `max_result_bytes` in base64, with some room.
const MAX_EVENT_BYTES: usize = 96 << 20;

/// The attempts to connect again without a new event.
const ATTEMPTS: u32 = 6;

/// The wait before the first new connection; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);

pub(super) const EVENT_STREAM: &str = "text/event-stream";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An execution whose events are followed.
#[derive(Debug)]
pub struct Execution {
    client: Client,
    path: String,
    body: Vec<u8>,
    key: String,
    /// The path of the execution, once it has begun.
    resource: Option<String>,
    last_id: String,
    stream: Option<(ApiResponse, Decoder)>,
    attempts: u32,
    is_done: bool,
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
            resource: None,
            last_id: String::new(),
            stream: None,
            attempts: 0,
            is_done: false,
        };
        execution.connect().await?;
        Ok(execution)
    }

    /// Starts code in a session, which is created if `create` says so and it does not exist.
    ///
    /// # Errors
    /// Any [`ClientError`], such as the refusal of the request.
    pub async fn of_code(
        client: Client,
        session: &str,
        request: &ExecuteRequest,
        create: bool,
    ) -> Result<Self, ClientError> {
        let body = client.body(request)?;
        Self::start(client, executions::execute_path(session, create), body).await
    }

    /// Starts a command in a session.
    ///
    /// # Errors
    /// Any [`ClientError`], such as the refusal of the request.
    pub async fn of_command(
        client: Client,
        session: &str,
        request: &CommandRequest,
    ) -> Result<Self, ClientError> {
        let body = client.body(request)?;
        Self::start(client, executions::commands_path(session), body).await
    }

    /// Follows an execution that runs or has run: after this event, or from the first that is kept.
    ///
    /// # Errors
    /// Any [`ClientError`]; of code `events_gone` if the event after that one is no longer kept.
    pub async fn attach(
        client: Client,
        session: &str,
        id: &str,
        after: Option<&str>,
    ) -> Result<Self, ClientError> {
        let mut execution = Self {
            client,
            path: String::new(),
            body: Vec::new(),
            key: String::new(),
            resource: Some(path::execution(session, id)),
            last_id: after.unwrap_or_default().to_owned(),
            stream: None,
            attempts: 0,
            is_done: false,
        };
        execution.connect().await?;
        Ok(execution)
    }

    /// The id of the last event, to go on after; empty before the first.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// The next event; none after [`Event::Done`].
    ///
    /// # Errors
    /// Any [`ClientError`]: the execution cannot be followed any further, and may still run.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while !self.is_done {
            let Some((response, decoder)) = &mut self.stream else {
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
                self.track(&event);
                return Ok(Some(event));
            }
            match response.chunk().await {
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

    fn track(&mut self, event: &Event) {
        match event {
            Event::Started(StartedEvent { execution_id, session_id }) => {
                self.resource = Some(path::execution(session_id, execution_id));
                // Never sent again from now on.
                self.body = Vec::new();
            }
            Event::AwaitingApproval(awaiting) => {
                self.resource = Some(path::execution(&awaiting.session_id, &awaiting.execution_id));
                self.body = Vec::new();
            }
            Event::Done(_) => {
                self.is_done = true;
                self.stream = None;
            }
            _ => {}
        }
    }

    /// Requests the events of a new execution, or the rest of those of the one under way.
    async fn connect(&mut self) -> Result<(), ClientError> {
        let request = match &self.resource {
            None => ApiRequest::new(Method::POST, &self.path)
                .header(IDEMPOTENCY_KEY, &self.key)
                .json_bytes(self.body.clone()),
            Some(resource) if self.last_id.is_empty() => ApiRequest::new(Method::GET, resource),
            Some(resource) => {
                ApiRequest::new(Method::GET, resource).header(LAST_EVENT_ID, &self.last_id)
            }
        };
        let response = self.client.open(request.header(ACCEPT, EVENT_STREAM)).await?;
        self.stream = Some((response, Decoder::new(MAX_EVENT_BYTES)));
        Ok(())
    }

    /// Connects again. Returns [`Event::Gap`] if events are missing.
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
            Err(error) if error.is_connection_error() && self.attempts < ATTEMPTS => {
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
