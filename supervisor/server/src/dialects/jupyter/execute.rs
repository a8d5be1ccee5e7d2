//! `execute_request`: an execution of the session, whose events become messages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use vivarium_api_types::{DisplayEvent, DoneEvent, OutputEvent, StartedEvent, ValueInfo};
use vivarium_api_types::{MimeBundle, notebook_data};
use vivarium_client::{Decoder, path};
use vivarium_protocol::outcome::{Cause, DisplayKind, Exception, State, Status};

use super::kernel::Kernel;
use super::shell::Then;
use super::wire::Request;
use crate::dialects::class_name;
use crate::dialects::lines::{Lines, Printed, cut, reached};
use crate::dialects::native::{self, Call, Native, Refusal};

/// The largest event: all that code may display, in base64, and the rest.
const MAX_EVENT_BYTES: usize = 256 << 20;

/// How often in a row a stream may break off without an event.
const MAX_BREAKS: u32 = 3;

/// The content of `execute_request`.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Asked {
    code: String,
    silent: bool,
    store_history: bool,
    stop_on_error: bool,
    user_expressions: Option<BTreeMap<String, Value>>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            code: String::new(),
            silent: false,
            store_history: true,
            stop_on_error: true,
            user_expressions: None,
        }
    }
}

/// An error as notebooks show it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

impl Failure {
    fn new(ename: impl Into<String>, evalue: impl Into<String>) -> Self {
        let (ename, evalue) = (ename.into(), evalue.into());
        let traceback = vec![format!("{ename}: {evalue}")];
        Self { ename, evalue, traceback }
    }

    fn content(&self) -> Map<String, Value> {
        let Self { ename, evalue, traceback } = self;
        let members =
            [("ename", json!(ename)), ("evalue", json!(evalue)), ("traceback", json!(traceback))];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl From<Exception> for Failure {
    fn from(exception: Exception) -> Self {
        let lines = exception.traceback.trim_end().split('\n').map(str::to_owned);
        Self {
            traceback: lines.collect(),
            ename: class_name(&exception.type_name).to_owned(),
            evalue: exception.message,
        }
    }
}

/// Executes, tells all clients, and gives the content of the reply.
pub(super) async fn run<N: Native>(
    kernel: &Kernel<N>,
    native: &N,
    request: &Request,
) -> (Value, Then) {
    let content = Value::Object(request.content.clone());
    let asked: Asked = match serde_json::from_value(content) {
        Ok(asked) => asked,
        Err(error) => {
            let failure = Failure::new("BadRequest", error.to_string());
            return (replied(&failure, 0), Then::GoOn);
        }
    };
    let is_stored = asked.store_history && !asked.silent;
    let room = if is_stored { native.room(asked.code.len()).await.ok() } else { None };
    let count = kernel.begin(&request.header, room.map(|room| (asked.code.as_str(), room)));
    let mut cell =
        Cell { kernel, native, parent: &request.header, asked: &asked, count, failure: None };
    let mut then = if asked.stop_on_error { Then::Abort } else { Then::GoOn };
    match cell.follow().await {
        Ok(done) => {
            if done.status != Status::Ok && cell.failure.is_none() {
                cell.fail(ended(&done)).await;
            }
            if done.state == State::Lost && !done.rolled_back {
                kernel.restarted();
                let is_asked = matches!(done.cause, Some(Cause::Reset | Cause::Deleted));
                then = if is_asked { Then::Abort } else { Then::Restarted };
            }
        }
        Err(refusal) => {
            cell.fail(Failure::new(refusal.code.clone(), refusal.text())).await;
            if refusal.code == "unknown_session" {
                kernel.status(native, None, "dead").await;
            }
        }
    }
    let failure = cell.failure;
    match failure {
        None => {
            let expressions = asked.user_expressions.unwrap_or_default();
            let none = Failure::new("NotSupported", "user_expressions are not evaluated here");
            let mut none = none.content();
            none.insert("status".to_owned(), json!("error"));
            let expressions: Map<_, _> =
                expressions.into_keys().map(|name| (name, Value::Object(none.clone()))).collect();
            let reply = json!({
                "status": "ok",
                "execution_count": count,
                "payload": [],
                "user_expressions": expressions,
            });
            (reply, Then::GoOn)
        }
        Some(failure) => (replied(&failure, count), then),
    }
}

fn replied(failure: &Failure, count: u64) -> Value {
    let mut content = failure.content();
    content.insert("status".to_owned(), json!("error"));
    content.insert("execution_count".to_owned(), json!(count));
    Value::Object(content)
}

/// What ended an execution that raised nothing.
fn ended(done: &DoneEvent<'_>) -> Failure {
    let status: &'static str = done.status.into();
    let cause = done.cause.map_or(status, Into::into);
    let ename = if done.status == Status::Interrupted { "KeyboardInterrupt" } else { cause };
    let evalue = match (done.detail.as_ref(), done.state) {
        ("", State::Lost) => "the kernel was lost, and its variables with it".to_owned(),
        (detail, State::Lost) => {
            format!("{detail}. The kernel was lost, and its variables with it")
        }
        (detail, _) => detail.to_owned(),
    };
    Failure::new(ename, evalue)
}

/// One execution.
struct Cell<'a, N: Native> {
    kernel: &'a Kernel<N>,
    native: &'a N,
    parent: &'a Arc<Value>,
    asked: &'a Asked,
    count: u64,
    failure: Option<Failure>,
}

impl<N: Native> Cell<'_, N> {
    async fn publish(&self, kind: &'static str, content: Value) {
        self.kernel.publish(self.native, kind, Some(self.parent), content).await;
    }

    async fn fail(&mut self, failure: Failure) {
        self.publish("error", Value::Object(failure.content())).await;
        self.failure = Some(failure);
    }

    /// Executes, and tells of each event. A stream that breaks off, as nobody could take what there was
    /// in time, is taken up again.
    async fn follow(&mut self) -> Result<DoneEvent<'static>, Refusal> {
        let id = &self.kernel.id;
        let mut body = json!({"code": self.asked.code});
        let timeout_ms = self.kernel.facts().max_timeout_ms;
        if let (Some(timeout_ms), Some(members)) = (timeout_ms, body.as_object_mut()) {
            members.insert("timeout_ms".to_owned(), json!(timeout_ms));
        }
        let call = Call::new(Method::POST, format!("{}/execute", path::session(id))).json(&body);
        let mut stream = native::streamed(self.native, call).await?;
        let (mut execution, mut last, mut breaks) = (None, None, 0);
        loop {
            let before = last;
            let broken = match self.events(&mut stream, &mut execution, &mut last).await {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => Refusal::unreachable("the events of the execution broke off"),
                Err(refusal) => refusal,
            };
            breaks = if last == before { breaks + 1 } else { 0 };
            let Some(execution) = execution.as_deref().filter(|_| breaks <= MAX_BREAKS) else {
                return Err(broken);
            };
            stream = self.again(execution, last).await?;
        }
    }

    /// The events after the last one; if they are gone, from the first that is kept.
    async fn again(&self, execution: &str, last: Option<u64>) -> Result<Body, Refusal> {
        let call = Call::new(Method::GET, path::execution(&self.kernel.id, execution));
        let after = Call { last_event_id: last, ..call.clone() };
        match native::streamed(self.native, after).await {
            Err(refusal) if refusal.code == "events_gone" => {
                let text = "[some output is missing: the clients read too slowly]\n";
                self.publish("stream", json!({"name": "stderr", "text": text})).await;
                native::streamed(self.native, call).await
            }
            stream => stream,
        }
    }

    /// Tells of events until the last one, or `None` if the stream ends before.
    async fn events(
        &mut self,
        stream: &mut Body,
        execution: &mut Option<String>,
        last: &mut Option<u64>,
    ) -> Result<Option<DoneEvent<'static>>, Refusal> {
        let (mut decoder, mut lines) = (Decoder::new(MAX_EVENT_BYTES), Lines::default());
        loop {
            while let Some(event) = decoder.next_event() {
                *last = event.id.parse().ok().or(*last);
                let kind = &*event.event;
                if matches!(kind, "stdout" | "stderr") {
                    let output: OutputEvent<'_> = read(&event.data)?;
                    self.print(lines.add(kind, &output.text)).await;
                    continue;
                }
                self.print(lines.take()).await;
                match event.event.as_str() {
                    "started" => {
                        let started: StartedEvent<'_> = read(&event.data)?;
                        *execution = Some(started.execution_id.into_owned());
                        self.started().await;
                    }
                    "done" => {
                        let done: DoneEvent<'_> = read(&event.data)?;
                        self.print(cut(&done)).await;
                        return Ok(Some(done));
                    }
                    kind => self.tell(kind, &event.data).await?,
                }
            }
            let frame = tokio::select! {
                biased;
                frame = stream.frame() => frame,
                () = reached(lines.due()) => {
                    self.print(lines.take()).await;
                    continue;
                }
            };
            if !matches!(frame, Some(Ok(_))) {
                self.print(lines.take()).await;
            }
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        decoder.feed(&data).map_err(|error| unreadable(&error))?;
                    }
                }
                Some(Err(error)) => return Err(unreadable(&error)),
                None => return Ok(None),
            }
        }
    }

    async fn print(&self, printed: impl IntoIterator<Item = Printed>) {
        for Printed { stream, text } in printed {
            self.publish("stream", json!({"name": stream, "text": text})).await;
        }
    }

    async fn started(&self) {
        if !self.asked.silent {
            let content = json!({"code": self.asked.code, "execution_count": self.count});
            self.publish("execute_input", content).await;
        }
    }

    async fn tell(&mut self, kind: &str, data: &[u8]) -> Result<(), Refusal> {
        match kind {
            "awaiting_approval" => {
                let text = "[waits until somebody allows it]\n";
                self.publish("stream", json!({"name": "stderr", "text": text})).await;
            }
            "display" => {
                let (kind, content) = shown(read(data)?);
                self.publish(kind, content).await;
            }
            "result" if !self.asked.silent => {
                let value: ValueInfo = read(data)?;
                let content = json!({
                    "execution_count": self.count,
                    "data": notebook(&value.mime),
                    "metadata": {},
                });
                self.publish("execute_result", content).await;
            }
            "error" => self.fail(read::<Exception>(data)?.into()).await,
            _ => {}
        }
        Ok(())
    }
}

/// A display as a message.
fn shown(event: DisplayEvent<'_>) -> (&'static str, Value) {
    let transient = event.id.as_ref().map_or_else(|| json!({}), |id| json!({"display_id": id}));
    let content = json!({"data": notebook(&event.mime), "metadata": {}, "transient": transient});
    match event.kind {
        DisplayKind::Display | DisplayKind::Image | DisplayKind::VideoFrame => {
            ("display_data", content)
        }
        DisplayKind::Update => ("update_display_data", content),
        DisplayKind::Clear => ("clear_output", json!({"wait": false})),
    }
}

/// A bundle without what no notebook may have: one such key makes clients refuse the whole message.
fn notebook(mime: &MimeBundle) -> Value {
    let mime: Cow<'_, MimeBundle> = if mime.keys().all(|name| is_mime_type(name)) {
        Cow::Borrowed(mime)
    } else {
        let named = mime.iter().filter(|(name, _)| is_mime_type(name));
        Cow::Owned(named.map(|(name, data)| (name.clone(), data.clone())).collect())
    };
    // Its keys are strings.
    serde_json::to_value(notebook_data(&mime)).unwrap_or_default()
}

/// As the schema of notebooks has it.
fn is_mime_type(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
        !part.is_empty() && part.chars().all(is_plain)
    };
    name.split_once('/').is_some_and(|(kind, rest)| is_part(kind) && is_part(rest))
}

fn read<T: DeserializeOwned>(data: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(data).map_err(|error| unreadable(&error))
}

fn unreadable(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::unreachable(format!("the events of the execution: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_keep_their_id_and_json_is_json() {
        let event = |kind: &str| {
            let mime = json!({"application/json": "{\"a\": 1}", "text/plain": "a"});
            let event = json!({"kind": kind, "id": "d", "sizes": {}, "mime": mime});
            shown(serde_json::from_value(event).unwrap())
        };
        let (kind, content) = event("display");
        assert_eq!((kind, &content["transient"]["display_id"]), ("display_data", &json!("d")));
        assert_eq!(content["data"]["application/json"]["a"], 1);
        assert_eq!(event("update").0, "update_display_data");
        assert_eq!(event("clear"), ("clear_output", json!({"wait": false})));
    }

    #[test]
    fn keys_that_no_notebook_may_have_are_left_out() {
        let keys = ["text/plain", "application/vnd.vega.v5+json", "x", "/", "a/", "a/b/c", "a b/c"];
        let kept = keys.map(is_mime_type);
        assert_eq!(kept, [true, true, false, false, false, false, false]);
    }

    #[test]
    fn tracebacks_are_lines() {
        let (type_name, message) = ("own.ValueError".to_owned(), "x".to_owned());
        let traceback = "Traceback:\n  here\nValueError: x\n".to_owned();
        let failure = Failure::from(Exception { type_name, message, traceback });
        assert_eq!(failure.ename, "ValueError");
        assert_eq!(failure.traceback, ["Traceback:", "  here", "ValueError: x"]);
        assert_eq!(replied(&failure, 3)["execution_count"], 3);
    }
}
