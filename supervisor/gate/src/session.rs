//! A session: accepts its connections, as many at a time as it may have.

use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::Authority;
use vivarium_egress::{FromGate, Reason, Rules, Slot};
use vivarium_protocol::discard;

use crate::connection;
use crate::context::Context;
use crate::flow::{Flow, Totals};
use crate::shared::Shared;
use crate::tenant::Tenant;
use crate::tls::{Signer, TlsError};

/// How long nothing is accepted when there is no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a session is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("it is served already")]
    Twice,
    #[error("what came with it is not a listening socket of TCP")]
    NotListening,
    #[error("its socket can not be used")]
    Socket(#[from] std::io::Error),
    #[error("its rules: {0}")]
    Rules(String),
    #[error("its rules have secrets, and there is no authority to sign for their hosts")]
    NoAuthority,
    #[error("its authority")]
    Authority(#[from] TlsError),
}

/// A session's key, and its tenant.
#[derive(Debug, Clone)]
pub(crate) struct Whose {
    pub(crate) key: SessionKey,
    pub(crate) tenant: Arc<Tenant>,
}

/// What is in force for a session.
pub(crate) struct Session {
    whose: Whose,
    rules: Mutex<Arc<Rules>>,
    signer: Option<Arc<Signer>>,
    totals: Arc<Totals>,
    closed: watch::Sender<bool>,
}

impl Session {
    /// Serves a session from now on.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        whose: Whose,
        socket: OwnedFd,
        rules: Rules,
        authority: Option<&Authority>,
    ) -> Result<Arc<Self>, SessionError> {
        let signer = authority.map(Signer::new).transpose()?.map(Arc::new);
        check(&rules, signer.is_some())?;
        let is_listening = sockopt::socket_acceptconn(&socket) == Ok(true)
            && sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
            && matches!(
                sockopt::socket_domain(&socket),
                Ok(AddressFamily::INET | AddressFamily::INET6)
            );
        if !is_listening {
            return Err(SessionError::NotListening);
        }
        let listener = StdListener::from(socket);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        whose.tenant.set(rules.tenant_rate);
        let session = Arc::new(Self {
            whose,
            rules: Mutex::new(Arc::new(rules)),
            signer,
            totals: Arc::default(),
            closed: watch::Sender::new(false),
        });
        tokio::spawn(session.clone().serve(shared.clone(), listener));
        Ok(session)
    }

    /// Puts other rules in place for connections from now on; rules with an error change nothing.
    pub(crate) fn update(&self, rules: Rules) {
        if check(&rules, self.signer.is_some()).is_ok() {
            self.whose.tenant.set(rules.tenant_rate);
            *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        }
    }

    /// Ends it. Its connections, and then it, tell that themselves.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Bytes to the session and to destinations, of all its connections.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let Totals { bytes_in, bytes_out } = &*self.totals;
        (bytes_in.load(Ordering::Relaxed), bytes_out.load(Ordering::Relaxed))
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn serve(self: Arc<Self>, shared: Arc<Shared>, listener: TcpListener) {
        let mut closed = self.closed.subscribe();
        let mut connections = JoinSet::new();
        let mut accepted: Option<TcpStream> = None;
        let mut number = 0;
        loop {
            // One more than may be served waits here, others in the socket's own queue.
            let has_room = connections.len() < self.rules().limits.max_connections as usize;
            tokio::select! {
                biased;
                () = ended(&mut closed) => break,
                Some(_) = connections.join_next() => {}
                slot = shared.slots.take(&self.whose.tenant.name), if accepted.is_some() => {
                    if let Some(stream) = accepted.take() {
                        number += 1;
                        connections.spawn(self.clone().connection(shared.clone(), number, stream, slot));
                    }
                }
                stream = listener.accept(), if has_room && accepted.is_none() => match stream {
                    Ok((stream, _)) => accepted = Some(stream),
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
        let (bytes_in, bytes_out) = self.bytes();
        let closed = FromGate::Closed { session: self.whose.key, bytes_in, bytes_out };
        shared.reporter.send(&closed).await;
    }

    async fn connection(
        self: Arc<Self>,
        shared: Arc<Shared>,
        number: u64,
        stream: TcpStream,
        slot: Slot,
    ) {
        discard(stream.set_nodelay(true), "it is slower without");
        let rules = self.rules();
        let mut closed = self.closed.subscribe();
        let ids = (self.whose.key, number);
        let together = (self.totals.clone(), self.whose.tenant.clone());
        let flow = Flow::new(shared.reporter.clone(), ids, together, rules.limits.max_bytes);
        let flow = Arc::new(flow);
        let total = rules.limits.total;
        let context = Context {
            shared,
            tenant: self.whose.tenant.clone(),
            rules,
            signer: self.signer.clone(),
            flow: flow.clone(),
        };
        let serving = async {
            let serving = connection::serve(&context, stream);
            match total {
                Some(total) => timeout(total, serving).await.unwrap_or(Some(Reason::Timeout)),
                None => serving.await,
            }
        };
        let cut = tokio::select! {
            cut = serving => cut,
            () = ended(&mut closed) => None,
        };
        flow.finish(cut).await;
        drop(slot);
    }
}

/// Returns once a session is closed.
async fn ended(closed: &mut watch::Receiver<bool>) {
    discard(closed.wait_for(|closed| *closed).await.map(drop), "who could close it is gone");
}

fn check(rules: &Rules, can_sign: bool) -> Result<(), SessionError> {
    let errors: Vec<String> = rules.errors().iter().map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(SessionError::Rules(errors.join("; ")));
    }
    if rules.secrets.is_empty() || can_sign { Ok(()) } else { Err(SessionError::NoAuthority) }
}
