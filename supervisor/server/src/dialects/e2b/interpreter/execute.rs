//! `POST /execute`: an execution, whose events become lines.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, Method, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use vivarium_api_types::{DisplayEvent, DoneEvent, OutputEvent, ValueInfo};
use vivarium_client::path;
use vivarium_protocol::outcome::{Cause, DisplayKind, Exception, State, Status};

use super::super::errors::bad;
use super::super::events::{Event, Events};
use super::super::sandboxes::Sandbox;
use super::super::{Client, control, paths};
use super::contexts::MAIN;
use super::results::result;
use crate::dialects::native::{Call, Native, Refusal};
use crate::dialects::{class_name, held};
use crate::off_thread;

/// What is told in place of a result for which the tenant has no memory left.
const LEFT_OUT: &str = "[a result is left out: there is no room for it]\n";

/// How often a client hears that the code still runs.
const ALIVE: Duration = Duration::from_secs(5);

/// Python's SDK sends null for what is not given.
#[derive(Debug, Deserialize)]
struct Asked {
    code: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    env_vars: Option<Map<String, Value>>,
}

/// Executes code.
pub(super) async fn run<N: Native>(client: Client<N>, body: &Bytes) -> Result<Response, Refusal> {
    let asked: Asked =
        off_thread::from_slice(body).await.map_err(|error| bad("body", error.to_string()))?;
    if asked.context_id.is_some() && asked.language.is_some() {
        return Err(bad("language", "give it or context_id, not both"));
    }
    if let Some(other) = super::other_language(asked.language.as_deref()) {
        return Ok(other);
    }
    let context = asked.context_id.unwrap_or_else(|| MAIN.to_owned());
    let mut env = control::home_env();
    if client.sandbox.contexts.cwd(&context) != paths::HOME {
        drop(env.remove("PWD"));
    }
    env.extend(asked.env_vars.unwrap_or_default());
    let mut request = json!({
        "code": asked.code, "context": context, "env": env, "cancel_on_disconnect": true,
    });
    if let (Some(timeout_ms), Some(members)) = (client.sandbox.max_exec_ms, request.as_object_mut())
    {
        members.insert("timeout_ms".to_owned(), json!(timeout_ms));
    }
    let at = format!("{}/execute", path::session(&client.sandbox.id));
    let call = Call::new(Method::POST, at).json(&request);
    let Client { native, sandbox, .. } = client;
    let events = Events::start(native, &sandbox.id, call).await?;
    let count = sandbox.contexts.begin(&context);
    let cell = Cell { events, sandbox, context, has_failed: false };
    let kind = HeaderValue::from_static("application/x-ndjson");
    Ok(([(header::CONTENT_TYPE, kind)], lines(cell, count)).into_response())
}

/// The lines of an execution. Dropped, they interrupt it.
fn lines<N: Native>(cell: Cell<N>, count: u64) -> Body {
    let first = line(&json!({"type": "number_of_executions", "execution_count": count}));
    let next: Next<N> = Box::pin(cell.next());
    let rest = stream::unfold(Some(next), async |state| {
        let mut next = state?;
        tokio::select! {
            biased;
            (line, cell) = &mut next => {
                let next = cell.map(|cell| Box::pin(cell.next()) as Next<N>);
                Some((line, next))
            }
            () = sleep(ALIVE) => Some((Ok(line(&json!({"type": "keepalive"}))), Some(next))),
        }
    });
    Body::from_stream(stream::iter([Ok(first)]).chain(rest))
}

/// A line, and the execution unless it is the last; an error cuts the connection.
type Next<N> = Pin<Box<dyn Future<Output = (io::Result<Bytes>, Option<Cell<N>>)> + Send>>;

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

fn last(value: Option<&Value>) -> Bytes {
    let end = line(&json!({"type": "end_of_execution"}));
    value.map_or_else(|| end.clone(), |value| [line(value), end.clone()].concat().into())
}

struct Cell<N: Native> {
    events: Events<N>,
    sandbox: Arc<Sandbox>,
    context: String,
    has_failed: bool,
}

impl<N: Native> Cell<N> {
    async fn next(mut self) -> (io::Result<Bytes>, Option<Self>) {
        loop {
            let told = match self.events.next_line().await {
                Ok(event) => match self.events.room(&event).await {
                    Err(_) if matches!(event.kind.as_str(), "display" | "result") => {
                        Ok((Told::Line(printed("stderr", LEFT_OUT)), None))
                    }
                    // What else there is has a small bound.
                    room => self.told(&event).map(|told| (told, room.ok())),
                },
                Err(refusal) => Err(refusal),
            };
            match told {
                Ok((Told::Nothing, _)) => {}
                Ok((Told::Line(value), room)) => {
                    let bytes = format!("{value}\n").into_bytes();
                    return (Ok(held::bytes(bytes, room)), Some(self));
                }
                Ok((Told::Last(value), _)) => return (Ok(last(value.as_ref())), None),
                // SDKs then ask whether the sandbox is there, and say that it was killed.
                Ok((Told::Gone, _)) => return (Err(io::Error::other("the sandbox is gone")), None),
                Err(refusal) => {
                    let error = failed(&refusal.code, &refusal.text(), None);
                    return (Ok(last(Some(&error))), None);
                }
            }
        }
    }

    fn told(&mut self, event: &Event) -> Result<Told, Refusal> {
        Ok(match event.kind.as_str() {
            kind @ ("stdout" | "stderr") => {
                Told::Line(printed(kind, &event.read::<OutputEvent<'_>>()?.text))
            }
            "display" => {
                let shown: DisplayEvent<'_> = event.read()?;
                match shown.kind {
                    DisplayKind::Display | DisplayKind::Image => {
                        Told::Line(result(&shown.mime, false))
                    }
                    _ => Told::Nothing,
                }
            }
            "result" => Told::Line(result(&event.read::<ValueInfo>()?.mime, true)),
            "error" => {
                self.has_failed = true;
                let exception: Exception = event.read()?;
                let traceback = Some(exception.traceback.as_str());
                let name = class_name(&exception.type_name);
                Told::Line(failed(name, &exception.message, traceback))
            }
            "done" => self.done(&event.read()?),
            _ => Told::Nothing,
        })
    }

    /// What is told of an execution that has ended, unless an exception says it.
    fn done(&mut self, done: &DoneEvent<'_>) -> Told {
        if done.state == State::Lost && !done.rolled_back {
            self.sandbox.contexts.restarted(&self.context);
        }
        if matches!(done.cause, Some(Cause::Deleted | Cause::Expired)) {
            return Told::Gone;
        }
        if done.status == Status::Ok || self.has_failed {
            return Told::Last(None);
        }
        let status: &'static str = done.status.into();
        let cause: &'static str = done.cause.map_or(status, Into::into);
        let name = if done.status == Status::Interrupted { "KeyboardInterrupt" } else { cause };
        let lost =
            if done.state == State::Lost { ". The context has lost its variables" } else { "" };
        Told::Last(Some(failed(name, &format!("{}{lost}", done.detail), None)))
    }
}

/// What comes of an event.
enum Told {
    Nothing,
    Line(Value),
    Last(Option<Value>),
    Gone,
}

fn printed(stream: &str, text: &str) -> Value {
    json!({"type": stream, "text": text, "timestamp": Timestamp::now().to_string()})
}

fn failed(name: &str, value: &str, traceback: Option<&str>) -> Value {
    let own = format!("{name}: {value}");
    let traceback = traceback.unwrap_or(&own);
    json!({"type": "error", "name": name, "value": value, "traceback": traceback})
}
