//! The events of a process, as they are told to a client.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, header};
use serde_json::{Value, json};
use tokio::time::sleep;
use vivarium_api_types::{DoneEvent, OutputEvent};
use vivarium_protocol::outcome::{Cause, Status};

use super::super::connect::{self, Failure, STREAM_TYPE, envelope};
use super::super::events::{Event, Events};
use super::super::sandboxes::Sandbox;
use super::processes::Kept;
use crate::dialects::native::Native;

/// A process whose events are told to a client.
pub(super) struct Running<N: Native> {
    pub(super) events: Events<N>,
    pub(super) sandbox: Arc<Sandbox>,
    /// Once it was told; of a process that runs already, from the beginning.
    pub(super) pid: Option<u32>,
    pub(super) has_terminal: bool,
    /// What is kept of it, of a process that is new.
    pub(super) kept: Option<Kept>,
}

type Next<N> = Pin<Box<dyn Future<Output = (Bytes, Option<Running<N>>)> + Send>>;

/// The events of a process, until its end. Dropped, they leave it as it is.
pub(super) fn streamed<N: Native>(running: Running<N>, alive: Duration) -> Response {
    let start = running.pid.map(started);
    let next: Next<N> = Box::pin(running.next());
    let messages = stream::unfold(Some(next), move |state| async move {
        let mut next = state?;
        tokio::select! {
            biased;
            (message, running) = &mut next => {
                let next = running.map(|running| Box::pin(running.next()) as Next<N>);
                Some((message, next))
            }
            () = sleep(alive) => {
                Some((envelope(&json!({"event": {"keepalive": {}}})), Some(next)))
            }
        }
    });
    let kind = HeaderValue::from_static(STREAM_TYPE);
    let messages = stream::iter(start).chain(messages);
    let body = Body::from_stream(messages.map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The message that names a process.
fn started(pid: u32) -> Bytes {
    envelope(&json!({"event": {"start": {"pid": pid}}}))
}

impl<N: Native> Running<N> {
    async fn next(mut self) -> (Bytes, Option<Self>) {
        loop {
            // What a terminal shows is no lines.
            let event = match self.has_terminal {
                true => self.events.next().await,
                false => self.events.next_line().await,
            };
            let told = match event {
                Ok(event) => self.told(&event),
                Err(refusal) => Err(refusal.into()),
            };
            match told {
                Ok(None) => {}
                Ok(Some(Told::Event(event))) => {
                    return (envelope(&json!({"event": event})), Some(self));
                }
                Ok(Some(Told::End(event))) => {
                    let last = envelope(&json!({"event": {"end": event}}));
                    return ([last, connect::end(None)].concat().into(), None);
                }
                Err(failure) => return (connect::end(Some(&failure)), None),
            }
        }
    }

    fn told(&mut self, event: &Event) -> Result<Option<Told>, Failure> {
        let data =
            |name: &str, text: &str| Told::Event(json!({"data": {name: STANDARD.encode(text)}}));
        Ok(match event.kind.as_str() {
            "started" | "awaiting_approval" => self.begun()?,
            "stdout" if self.has_terminal => {
                Some(data("pty", &event.read::<OutputEvent<'_>>()?.text))
            }
            name @ ("stdout" | "stderr") => {
                Some(data(name, &event.read::<OutputEvent<'_>>()?.text))
            }
            "done" => {
                if let Some(pid) = self.pid {
                    self.sandbox.processes.ended(pid);
                }
                Some(Told::End(ended(&event.read()?)?))
            }
            _ => None,
        })
    }

    fn begun(&mut self) -> Result<Option<Told>, Failure> {
        if self.pid.is_some() {
            return Ok(None);
        }
        let pid = self.events.execution().and_then(|id| id.parse::<u32>().ok());
        let pid = pid.ok_or_else(|| Failure::new("internal", "a process without a number"))?;
        self.pid = Some(pid);
        if let Some(kept) = self.kept.take() {
            self.sandbox.processes.started(pid, kept);
        }
        Ok(Some(Told::Event(json!({"start": {"pid": pid}}))))
    }
}

enum Told {
    Event(Value),
    End(Value),
}

/// How a process ended, in the words of E2B's server.
fn ended(done: &DoneEvent<'_>) -> Result<Value, Failure> {
    if let Some(code) = done.exit_code {
        let status = format!("exit status {code}");
        let mut end = json!({"exitCode": code, "exited": true, "status": status});
        if let (true, Some(members)) = (code != 0, end.as_object_mut()) {
            drop(members.insert("error".to_owned(), json!(status)));
        }
        return Ok(end);
    }
    match (done.status, done.cause) {
        (Status::TimedOut, _) => Err(Failure::new("deadline_exceeded", done.detail.as_ref())),
        (_, Some(Cause::Signal)) => {
            let status = format!("signal: {}", signal_in(&done.detail));
            Ok(json!({"exitCode": -1, "exited": false, "status": status, "error": status}))
        }
        (_, Some(Cause::Deleted | Cause::Expired)) => {
            // SDKs then ask whether the sandbox is there, and say that it was killed.
            Err(Failure::new("unavailable", "the sandbox ended before the process did"))
        }
        (Status::Rejected, _) => Err(Failure::new("permission_denied", done.detail.as_ref())),
        _ => {
            let status = done.detail.as_ref();
            Ok(json!({"exitCode": -1, "exited": false, "status": status, "error": status}))
        }
    }
}

/// The signal that a detail names, as Go's programs call it.
fn signal_in(detail: &str) -> &str {
    let known = [("SIGKILL", "killed"), ("SIGTERM", "terminated"), ("SIGINT", "interrupt")];
    known.iter().find(|(name, _)| detail.contains(name)).map_or(detail, |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_words_of_go() {
        assert_eq!(signal_in("died by SIGKILL (9)"), "killed");
        assert_eq!(signal_in("died by SIGUSR1 (10)"), "died by SIGUSR1 (10)");
    }
}
