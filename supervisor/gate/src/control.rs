//! The supervisor's socket: what it says, done in order.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::MAX_CALLS;
use vivarium_egress::wire::{GateReceiver, WireError};
use vivarium_egress::{FromGate, ToGate};
use vivarium_protocol::error_chain;
use vivarium_protocol::stream::recv_some;

use crate::call;
use crate::flow::Reporter;
use crate::session::{Session, SessionError, Whose};
use crate::shared::{Parts, Shared};

/// Why the supervisor is no longer listened to.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket failed.
    #[error("receive")]
    Io(#[from] io::Error),
    /// What came is no message.
    #[error("what came")]
    Wire(#[from] WireError),
}

/// What the gate says first.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) version: u32,
    pub(crate) confinement: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// Serves the supervisor until its socket closes.
pub(crate) async fn serve(
    supervisor: StdStream,
    parts: Parts,
    opening: Opening,
) -> Result<(), ControlError> {
    supervisor.set_nonblocking(true)?;
    let (read, write) = UnixStream::from_std(supervisor)?.into_split();
    let reporter = Reporter::start(write);
    let Opening { version, confinement, warnings } = opening;
    reporter.send(&FromGate::Ready { version, confinement }).await;
    for what in warnings {
        reporter.send(&FromGate::Warning { what }).await;
    }
    let shared = Arc::new(Shared::new(parts, reporter));
    let mut sessions = HashMap::new();
    let calls = Arc::new(Semaphore::new(MAX_CALLS));
    let mut receiver = GateReceiver::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let socket: &UnixStream = read.as_ref();
        let receive = || recv_some(socket, &mut buffer);
        let (len, descriptors) = socket.async_io(Interest::READABLE, receive).await?;
        if len == 0 {
            return Ok(());
        }
        receiver.push(buffer.get(..len).unwrap_or_default(), descriptors);
        while let Some((message, socket)) = receiver.next_message()? {
            handle(message, socket, &shared, &mut sessions, &calls).await;
        }
    }
}

async fn handle(
    message: ToGate,
    socket: Option<OwnedFd>,
    shared: &Arc<Shared>,
    sessions: &mut HashMap<SessionKey, Arc<Session>>,
    calls: &Arc<Semaphore>,
) {
    match message {
        ToGate::Open { session: key, tenant, rules, authority } => {
            let opened = match socket {
                Some(_) if sessions.contains_key(&key) => Err(SessionError::Twice),
                Some(socket) => {
                    let whose = Whose { key, tenant: shared.tenant(tenant) };
                    Session::open(shared, whose, socket, rules, authority.as_ref())
                }
                None => Err(SessionError::NotListening),
            };
            let answer = match opened {
                Ok(session) => {
                    sessions.insert(key, session);
                    FromGate::Opened { session: key }
                }
                Err(error) => FromGate::NotOpened { session: key, why: error_chain(&error) },
            };
            shared.reporter.send(&answer).await;
        }
        ToGate::Update { session, rules } => {
            if let Some(session) = sessions.get(&session) {
                session.update(rules);
            }
        }
        ToGate::Close { session } => {
            if let Some(session) = sessions.remove(&session) {
                session.close();
            }
        }
        ToGate::Count { id, session } => {
            let bytes = sessions.get(&session).map(|session| session.bytes());
            shared.reporter.send(&FromGate::Counted { id, bytes }).await;
        }
        ToGate::Call { id, request } => {
            let (shared, calls) = (shared.clone(), calls.clone());
            tokio::spawn(async move {
                let permit = calls.acquire_owned().await;
                let result = call::make(&shared, request).await;
                shared.reporter.send(&FromGate::CallDone { id, result }).await;
                drop(permit);
            });
        }
        ToGate::Answer { id, allowed } => shared.answer(id, allowed),
    }
}
