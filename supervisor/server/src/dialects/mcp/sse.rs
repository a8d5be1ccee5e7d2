//! The transport of MCP 2024-11-05, as vLLM uses it for gpt-oss: events at `GET /sse`, messages to
//! `POST /messages`.
//!
//! vLLM takes the server's name for the namespace of its tools, calls the tool `python` in the namespace
//! `python`, and reads the first text of a result. A connection has a session of its own, which ends with it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use uuid::Uuid;

use super::http::{ALIVE, Answering, STILL_THERE, event_stream, frame};
use super::in_flight::{Client, Entry, InFlight};
use super::revision::{self, Era};
use super::rpc::{self, Error, INVALID_PARAMS, METHOD_NOT_FOUND, Message, Request};
use super::{Answer, tools};
use crate::dialects::native::Native;
use crate::dialects::place::Place;
use crate::off_thread::by_size;

/// Requests that wait for the one that is being answered.
const QUEUE: usize = 16;

/// The name of the server and of its one tool.
const PYTHON: &str = "python";

const INSTRUCTIONS: &str = "\
Runs Python and returns what it prints and the value of its last line. Variables, imports and files stay \
from call to call. Send code as plain text, without JSON and without Markdown. There may be no network.";

/// The open connections. Clones are the same.
pub struct Connections<R>(Arc<Mutex<BTreeMap<String, Connection<R>>>>);

impl<R> Clone for Connections<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R> Default for Connections<R> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<R> fmt::Debug for Connections<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl<R> Connections<R> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Connection<R>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Connection<R> {
    tenant: String,
    client: Client,
    to: mpsc::Sender<Asked<R>>,
}

/// A request, and the room that its body has until it is answered.
struct Asked<R> {
    request: Request,
    entry: Entry,
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    room: R,
}

/// Forgets a connection when its stream is dropped.
struct Registered<R> {
    all: Connections<R>,
    id: String,
}

impl<R> Drop for Registered<R> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

/// Answers `GET /sse`: a stream of events for as long as the client stays, or until `ended`.
pub fn connect<N: Native>(
    native: N,
    tenant: &str,
    all: &Connections<N::Room>,
    ended: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let id = Uuid::new_v4().simple().to_string();
    let (to, from) = mpsc::channel(QUEUE);
    let client = Client::named(&InFlight::default(), tenant, &id);
    all.lock().insert(id.clone(), Connection { tenant: tenant.to_owned(), client, to });
    let endpoint = format!("event: endpoint\ndata: /messages?session_id={id}\n\n");
    let talk = Talk {
        place: tools::place(&native, None),
        registered: Registered { all: all.clone(), id },
        from,
        answering: None,
        ended: Box::pin(ended),
    };
    let first = Ok::<_, Infallible>(Bytes::from(endpoint));
    let frames = stream::unfold(talk, async |mut talk| Some((Ok(talk.next().await?), talk)));
    let frames = stream::StreamExt::chain(stream::iter([first]), frames);
    event_stream(frames)
}

/// A connection: one request at a time.
struct Talk<N: Native> {
    /// The session, which is ended when this is dropped.
    place: Place<N>,
    #[expect(dead_code, reason = "held until the stream is dropped")]
    registered: Registered<N::Room>,
    from: mpsc::Receiver<Asked<N::Room>>,
    answering: Option<Answering<N::Room>>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<N: Native> Talk<N> {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                biased;
                () = &mut self.ended => return None,
                answered = running(&mut self.answering) => {
                    self.answering = None;
                    if let Some((message, room)) = answered {
                        return Some(frame(&message, room));
                    }
                }
                asked = self.from.recv(), if self.answering.is_none() => {
                    self.answering = Some(self.begin(asked?));
                }
                () = sleep(ALIVE) => return Some(Bytes::from_static(STILL_THERE)),
            }
        }
    }

    fn begin(&self, asked: Asked<N::Room>) -> Answering<N::Room> {
        let (native, session) = (self.place.native.clone(), self.place.id.clone());
        Box::pin(async move {
            let id = asked.request.id.clone();
            let id = id.as_ref();
            tokio::select! {
                answered = answer(&native, &session, &asked.request) => Some(match answered {
                    Ok(Answer { result, room }) => (rpc::result(id, result), room),
                    Err(error) => (error.message(id), None),
                }),
                () = asked.entry.cancelled() => None,
            }
        })
    }
}

async fn running<R>(answering: &mut Option<Answering<R>>) -> Option<(Value, Option<R>)> {
    match answering {
        Some(answering) => answering.await,
        None => std::future::pending().await,
    }
}

async fn answer<N: Native>(
    native: &N,
    session: &str,
    request: &Request,
) -> Result<Answer<N::Room>, Error> {
    Ok(match request.method.as_str() {
        "initialize" => initialized(&request.params).into(),
        "ping" => json!({}).into(),
        "tools/list" => json!({"tools": [python()]}).into(),
        "tools/call" if super::text(&request.params, "name")? == PYTHON => {
            tools::python_in(native, session, code(&request.params)?).await
        }
        "tools/call" => {
            return Err(Error::new(INVALID_PARAMS, "the only tool here is \"python\""));
        }
        method => {
            return Err(Error::new(METHOD_NOT_FOUND, format!("there is no method {method:?}")));
        }
    })
}

fn initialized(params: &Map<String, Value>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "protocolVersion": revision::negotiated(params.get("protocolVersion")),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": PYTHON, "title": "Vivarium", "version": version},
        "instructions": INSTRUCTIONS,
    })
}

fn python() -> Value {
    json!({
        "name": PYTHON,
        "description": INSTRUCTIONS,
        "inputSchema": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
            "additionalProperties": false,
        },
        // vLLM: gpt-oss knows this tool without its schema.
        "annotations": {"include_in_prompt": false},
    })
}

fn code(params: &Map<String, Value>) -> Result<&str, Error> {
    let code = params.get("arguments").and_then(|given| given.get("code")).and_then(Value::as_str);
    code.ok_or_else(|| Error::new(INVALID_PARAMS, "arguments.code has to be a string"))
}

/// Answers `POST /messages`: takes a message of the connection with this id. What it is answered with is
/// an event there.
pub async fn take<R: Send + 'static>(
    all: &Connections<R>,
    tenant: &str,
    id: &str,
    body: Bytes,
    room: R,
) -> Response {
    let (message, room) = by_size(body.len(), move || (rpc::parse(&body), room)).await;
    let message = match message {
        Ok(message) => message,
        Err((id, error)) => return super::http::refused(id.as_ref(), &error, Era::Handshake),
    };
    let all = all.lock();
    let Some(connection) = all.get(id).filter(|connection| connection.tenant == tenant) else {
        return (StatusCode::NOT_FOUND, "there is no connection with this session_id\n")
            .into_response();
    };
    match message {
        Message::Request(request) => {
            let entry = connection.client.begin(request.id.as_ref());
            if connection.to.try_send(Asked { request, entry, room }).is_err() {
                let why = "too many requests wait in this connection\n";
                return (StatusCode::TOO_MANY_REQUESTS, why).into_response();
            }
        }
        Message::Notification(notification) => {
            connection.client.cancel(super::cancelled(&notification).as_ref());
        }
        Message::Response => {}
    }
    StatusCode::ACCEPTED.into_response()
}
