//! What a kernel is to its clients beside the session: the sockets that hear of it, the order in which
//! it is asked, the count of its executions and what it was told to execute.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use uuid::Uuid;
use vivarium_protocol::discard;

use super::history::History;
use super::wire::{Channel, Format, Header, Message, PROTOCOL, Request};
use super::{now, shell};
use crate::dialects::held;
use crate::dialects::native::Native;

/// Requests that wait for their turn. More stay in their socket.
const MAX_WAITING: usize = 1024;

/// Messages that wait for one client.
const MAX_UNSENT: usize = 256;

/// How long a client whose messages wait may take for one of them, before it is cut off.
const SEND_WITHIN: Duration = Duration::from_millis(1500);

/// A frame to a client.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    pub(super) is_text: bool,
}

/// The way to one client.
#[derive(Debug, Clone)]
pub(super) struct Socket {
    number: u64,
    format: Format,
    to: mpsc::Sender<Frame>,
    cut: Arc<Notify>,
}

impl Socket {
    /// Resolves when this client has to leave.
    pub(super) async fn is_cut(&self) {
        self.cut.notified().await;
    }
}

/// A request that waits for its turn.
pub(super) struct Job<N: Native> {
    pub(super) native: N,
    pub(super) socket: Socket,
    pub(super) request: Request,
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    pub(super) room: N::Room,
}

/// What the session says of a kernel once, when a client comes.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub python_version: String,
    /// The longest that code may run, in milliseconds.
    pub max_timeout_ms: Option<u64>,
}

struct State<R> {
    last_socket: u64,
    sockets: BTreeMap<u64, Socket>,
    count: u64,
    history: History<R>,
    /// The header of the request that is being executed.
    running: Option<Arc<Value>>,
    facts: Facts,
}

/// A kernel, as long as it has clients or something to do.
pub struct Kernel<N: Native> {
    pub(super) id: String,
    jobs: mpsc::Sender<Job<N>>,
    state: Mutex<State<N::Room>>,
}

impl<N: Native> Kernel<N> {
    pub(super) fn start(id: &str) -> Arc<Self> {
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let state = State {
            last_socket: 0,
            sockets: BTreeMap::new(),
            count: 0,
            history: History::default(),
            running: None,
            facts: Facts::default(),
        };
        let kernel = Arc::new(Self { id: id.to_owned(), jobs, state: Mutex::new(state) });
        tokio::spawn(shell::work(Arc::downgrade(&kernel), waiting));
        kernel
    }

    fn lock(&self) -> MutexGuard<'_, State<N::Room>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a client hear of this kernel.
    pub(super) fn join(&self, format: Format, facts: Facts) -> (Socket, mpsc::Receiver<Frame>) {
        let (to, from) = mpsc::channel(MAX_UNSENT);
        let mut state = self.lock();
        state.facts = facts;
        state.last_socket += 1;
        let number = state.last_socket;
        let socket = Socket { number, format, to, cut: Arc::default() };
        state.sockets.insert(number, socket.clone());
        (socket, from)
    }

    pub(super) fn leave(&self, socket: &Socket) {
        self.lock().sockets.remove(&socket.number);
    }

    /// Has every client leave.
    pub(super) fn close(&self) {
        for socket in std::mem::take(&mut self.lock().sockets).into_values() {
            socket.cut.notify_one();
        }
    }

    /// How many clients hear of it.
    pub(super) fn connections(&self) -> usize {
        self.lock().sockets.len()
    }

    /// Whether nobody hears of it and nothing waits.
    pub(super) fn is_unused(&self) -> bool {
        let state = self.lock();
        state.sockets.is_empty()
            && state.running.is_none()
            && self.jobs.capacity() == self.jobs.max_capacity()
    }

    pub(super) fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    /// Has a request wait for its turn; where too many do, its socket waits too.
    pub(super) async fn enqueue(&self, job: Job<N>) {
        discard(self.jobs.send(job).await, "the kernel is gone, and has told its clients");
    }

    /// Begins an execution, and numbers it.
    pub(super) fn begin(&self, header: &Arc<Value>, stored: Option<(&str, N::Room)>) -> u64 {
        let mut state = self.lock();
        state.running = Some(Arc::clone(header));
        match stored {
            None => state.count,
            Some((code, room)) => {
                state.count += 1;
                let count = state.count;
                state.history.add(count, code, room);
                count
            }
        }
    }

    pub(super) fn end(&self) {
        self.lock().running = None;
    }

    /// Its variables are gone: counts from 1 again.
    pub(super) fn restarted(&self) {
        self.lock().count = 0;
    }

    /// What it was told to execute, as `history_request` asks.
    pub(super) fn history(&self, request: &Request) -> Vec<Value> {
        self.lock().history.told(&request.content)
    }

    /// Tells all clients.
    pub(super) async fn publish(
        &self,
        native: &N,
        kind: &'static str,
        parent: Option<&Arc<Value>>,
        content: Value,
    ) {
        let parent = parent.map(Arc::clone);
        let message = Message { channel: Channel::Iopub, kind, parent, content };
        let sockets: Vec<_> = self.lock().sockets.values().cloned().collect();
        for format in [Format::Json, Format::V1] {
            if !sockets.iter().any(|socket| socket.format == format) {
                continue;
            }
            let Some(frame) = self.frame(native, &message, format).await else { continue };
            for socket in &sockets {
                if socket.format == format {
                    self.send(socket, frame.clone()).await;
                }
            }
        }
    }

    /// Answers the client that has asked.
    pub(super) async fn reply(
        &self,
        native: &N,
        to: &Socket,
        request: &Request,
        kind: &'static str,
        content: Value,
    ) {
        let parent = Some(Arc::clone(&request.header));
        let message = Message { channel: request.channel, kind, parent, content };
        if let Some(frame) = self.frame(native, &message, to.format).await {
            self.send(to, frame).await;
        }
    }

    /// Tells all clients what the kernel is busy with.
    pub(super) async fn status(
        &self,
        native: &N,
        parent: Option<&Arc<Value>>,
        execution_state: &str,
    ) {
        let content = json!({"execution_state": execution_state});
        self.publish(native, "status", parent, content).await;
    }

    /// Tells all clients that what was asked meanwhile is answered, and that code still runs if it does.
    pub(super) async fn idle(&self, native: &N, parent: &Arc<Value>) {
        self.status(native, Some(parent), "idle").await;
        let running = self.lock().running.clone();
        if let Some(running) = running {
            self.status(native, Some(&running), "busy").await;
        }
    }

    /// The frame of a message, if there is room for it. Small ones always have.
    async fn frame(&self, native: &N, message: &Message, format: Format) -> Option<Frame> {
        let header = Header {
            msg_id: Uuid::new_v4().to_string(),
            msg_type: message.kind,
            username: "kernel",
            session: self.id.clone(),
            date: now(),
            version: PROTOCOL,
        };
        let bytes = message.write(&header, format).ok()?;
        match native.room(bytes.len()).await {
            Ok(room) => {
                let bytes = held::bytes(bytes, room);
                Some(Frame { bytes, is_text: format == Format::Json })
            }
            Err(refusal) => {
                tracing::debug!(kernel = self.id, ?refusal, "an output is left out");
                None
            }
        }
    }

    /// Sends to one client, or cuts it off if it reads nothing.
    async fn send(&self, socket: &Socket, frame: Frame) {
        if timeout(SEND_WITHIN, socket.to.send(frame)).await.is_err() {
            tracing::debug!(kernel = self.id, "a client that reads nothing is cut off");
            self.leave(socket);
            socket.cut.notify_one();
        }
    }
}
