//! The task that has the gate: starts one when it is needed, and another when that is lost.
//!
//! It keeps the listening socket of each session, so that a new gate takes over without the agents'
//! doing anything. Code that connects meanwhile waits in the socket's backlog.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::{Call, CallError, CallNumber, CallResponse};
use vivarium_egress::{FromGate, Rules, ToGate};
use vivarium_protocol::discard;

use super::accounting::{Accounting, Ended};
use super::asking::Questions;
use super::gate::{Gate, GateError};
use super::{Command, Counts, GateLaunch, SessionEgress};
use crate::approvals::Approvals;
use crate::backoff::Backoff;

/// A gate that is lost sooner than this is as one that did not start.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How long a gate may take to take a session up.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

type CallReply = oneshot::Sender<Result<CallResponse, CallError>>;

struct Served {
    session: Arc<SessionEgress>,
    listener: OwnedFd,
    rules: Rules,
    /// By when the gate is to have taken it up, as long as it has not.
    opened_by: Option<Instant>,
}

struct Keeper {
    launch: GateLaunch,
    accounting: Accounting,
    served: BTreeMap<SessionKey, Served>,
    /// Sessions that the gate still has to report the last of.
    ending: BTreeMap<SessionKey, Arc<SessionEgress>>,
    waiting: Vec<oneshot::Sender<Result<(), GateError>>>,
    /// Calls that no gate has been given.
    new_calls: Vec<(Call, CallReply)>,
    calls: BTreeMap<CallNumber, CallReply>,
    counting: BTreeMap<CallNumber, (Arc<SessionEgress>, oneshot::Sender<Counts>)>,
    last_call: CallNumber,
    questions: Questions,
    backoff: Backoff,
}

/// Runs until nobody has the engine any more.
pub(super) async fn run(
    launch: GateLaunch,
    accounting: Accounting,
    approvals: Arc<Approvals>,
    mut commands: mpsc::Receiver<Command>,
) {
    let mut keeper = Keeper {
        launch,
        accounting,
        served: BTreeMap::new(),
        ending: BTreeMap::new(),
        waiting: Vec::new(),
        new_calls: Vec::new(),
        calls: BTreeMap::new(),
        counting: BTreeMap::new(),
        last_call: 0,
        questions: Questions::new(approvals),
        backoff: Backoff::default(),
    };
    while let Some(gate) = keeper.find_gate(&mut commands).await {
        let since = Instant::now();
        let Some(error) = keeper.use_gate(gate, &mut commands).await else { return };
        keeper.lost(&error, since);
    }
}

impl Keeper {
    /// Waits until a gate is needed, and starts it; `None` if nobody can need one any more.
    async fn find_gate(&mut self, commands: &mut mpsc::Receiver<Command>) -> Option<Gate> {
        let mut last_error = None;
        loop {
            let is_needed =
                !self.served.is_empty() || !self.waiting.is_empty() || !self.new_calls.is_empty();
            let retry_at = self.backoff.until(Instant::now());
            if is_needed && retry_at.is_none() {
                match Gate::start(&self.launch).await {
                    Ok(gate) => return Some(gate),
                    Err(error) => {
                        tracing::warn!(%error, sessions = self.served.len(), "no egress gate");
                        self.backoff.failed(Instant::now());
                        last_error = Some(error);
                    }
                }
                continue;
            }
            if retry_at.is_some() {
                // Whoever asks now is not to wait for the next try.
                self.refuse_waiting(last_error.as_ref().unwrap_or(&GateError::Ended));
            }
            tokio::select! {
                command = commands.recv() => self.note(command?),
                () = reached(retry_at), if !self.served.is_empty() => {}
            }
        }
    }

    /// What a command is about, as long as there is no gate.
    fn note(&mut self, command: Command) {
        match command {
            Command::Ready(reply) => self.waiting.push(reply),
            Command::Serve { session, listener, rules } => {
                let served = Served { listener, rules, opened_by: None, session };
                self.served.insert(served.session.key, served);
            }
            Command::Update { key, rules } => {
                if let Some(served) = self.served.get_mut(&key) {
                    served.rules = rules;
                }
            }
            Command::End { key } => drop(self.served.remove(&key)),
            Command::Count { session, reply } => session.tell(reply),
            Command::Call { request, reply } => self.new_calls.push((request, reply)),
            Command::Follow(launch) => self.launch = launch,
        }
    }

    fn refuse_waiting(&mut self, error: &GateError) {
        for waiting in self.waiting.drain(..) {
            discard(waiting.send(Err(error.clone())), "nobody waits any more");
        }
        for (_, reply) in self.new_calls.drain(..) {
            discard(reply.send(Err(CallError::Broken(error.to_string()))), "nobody waits any more");
        }
    }

    /// Returns why the gate is lost; `None` if nobody can need one any more.
    async fn use_gate(
        &mut self,
        mut gate: Gate,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<GateError> {
        let keys: Vec<_> = self.served.keys().copied().collect();
        let opened = keys.into_iter().try_for_each(|key| self.open(&mut gate, key));
        if let Err(error) = opened {
            return Some(error);
        }
        for waiting in self.waiting.drain(..) {
            discard(waiting.send(Ok(())), "nobody waits any more");
        }
        loop {
            if let Err(error) = self.send_calls(&mut gate) {
                return Some(error);
            }
            let overdue = self.served.values().filter_map(|served| served.opened_by).min();
            let done = tokio::select! {
                message = gate.next() => match message {
                    Ok(message) => self.on_message(&mut gate, message),
                    Err(error) => Err(error),
                },
                command = commands.recv() => self.on_command(&mut gate, command?),
                (id, allowed) = self.questions.next() => {
                    gate.send(&ToGate::Answer { id, allowed }, None)
                }
                () = reached(overdue) => Err(GateError::Silent),
            };
            if let Err(error) = done {
                return Some(error);
            }
        }
    }

    fn open(&mut self, gate: &mut Gate, key: SessionKey) -> Result<(), GateError> {
        let Some(served) = self.served.get_mut(&key) else { return Ok(()) };
        let Served { session, listener, rules, opened_by } = served;
        let listener =
            listener.try_clone().map_err(|error| GateError::Broken(error.to_string()))?;
        let message = ToGate::Open {
            session: key,
            tenant: session.tenant.to_string(),
            rules: rules.clone(),
            authority: session.authority.clone(),
        };
        *opened_by = Some(Instant::now() + OPENED_WITHIN);
        gate.send(&message, Some(listener))
    }

    fn on_command(&mut self, gate: &mut Gate, command: Command) -> Result<(), GateError> {
        match command {
            Command::Ready(reply) => {
                discard(reply.send(Ok(())), "nobody waits any more");
                Ok(())
            }
            Command::Serve { ref session, .. } => {
                let key = session.key;
                self.note(command);
                self.open(gate, key)
            }
            Command::Update { key, ref rules } => {
                let message = ToGate::Update { session: key, rules: rules.clone() };
                let is_served = self.served.contains_key(&key);
                self.note(command);
                if is_served { gate.send(&message, None) } else { Ok(()) }
            }
            Command::End { key } => match self.served.remove(&key) {
                Some(served) => {
                    self.questions.withdraw(key);
                    self.ending.insert(key, served.session);
                    gate.send(&ToGate::Close { session: key }, None)
                }
                None => Ok(()),
            },
            Command::Follow(launch) => {
                let is_outdated = self.launch.is_outdated_by(&launch);
                self.launch = launch;
                if is_outdated { Err(GateError::Outdated) } else { Ok(()) }
            }
            Command::Count { session, reply } => {
                self.last_call += 1;
                let message = ToGate::Count { id: self.last_call, session: session.key };
                self.counting.insert(self.last_call, (session, reply));
                gate.send(&message, None)
            }
            Command::Call { .. } => {
                self.note(command);
                Ok(())
            }
        }
    }

    fn send_calls(&mut self, gate: &mut Gate) -> Result<(), GateError> {
        for (request, reply) in std::mem::take(&mut self.new_calls) {
            self.last_call += 1;
            self.calls.insert(self.last_call, reply);
            gate.send(&ToGate::Call { id: self.last_call, request }, None)?;
        }
        Ok(())
    }

    fn on_message(&mut self, gate: &mut Gate, message: FromGate) -> Result<(), GateError> {
        match message {
            FromGate::Opened { session } => {
                if let Some(served) = self.served.get_mut(&session) {
                    served.opened_by = None;
                }
            }
            FromGate::NotOpened { session, why } => {
                // Its rules are checked before: a defect.
                tracing::error!(session, why, "the egress gate does not serve a session");
                self.served.remove(&session);
            }
            FromGate::Decided(decided) => {
                if let Some(session) = self.session(decided.session) {
                    self.accounting.decided(session, &decided);
                }
            }
            FromGate::Done { session, connection, bytes_in, bytes_out, duration, cut } => {
                if let Some(session) = self.session(session) {
                    let ended = Ended { connection, bytes_in, bytes_out, duration, cut };
                    self.accounting.ended(session, ended);
                }
            }
            FromGate::Warning { what } => tracing::warn!(what, "the egress gate"),
            FromGate::Counted { id, bytes } => {
                if let Some((session, reply)) = self.counting.remove(&id) {
                    bytes.into_iter().for_each(|bytes| session.counter.transferred(bytes));
                    session.tell(reply);
                }
            }
            FromGate::Closed { session, bytes_in, bytes_out } => {
                if let Some(session) = self.ending.remove(&session) {
                    session.counter.transferred((bytes_in, bytes_out));
                }
            }
            FromGate::Ask { id, session, destination, port } => {
                let served = self.served.get(&session);
                let answer = served.map_or(Some(false), |served| {
                    self.questions.ask(id, &served.session, destination, port)
                });
                if let Some(allowed) = answer {
                    return gate.send(&ToGate::Answer { id, allowed }, None);
                }
            }
            FromGate::CallDone { id, result } => {
                if let Some(reply) = self.calls.remove(&id) {
                    discard(reply.send(result), "nobody waits any more");
                }
            }
            FromGate::Ready { .. } => {
                return Err(GateError::Broken("it spoke out of turn".to_owned()));
            }
        }
        Ok(())
    }

    fn session(&self, key: SessionKey) -> Option<&SessionEgress> {
        let served = self.served.get(&key).map(|served| &served.session);
        served.or_else(|| self.ending.get(&key)).map(AsRef::as_ref)
    }

    fn lost(&mut self, error: &GateError, since: Instant) {
        let sessions = self.served.len();
        let is_wanted = *error == GateError::Outdated;
        if is_wanted {
            tracing::info!(%error, sessions, "connections through it end");
        } else {
            self.accounting.metrics.egress.lost_gate();
            tracing::warn!(%error, sessions, "the egress gate is lost, and connections through it");
        }
        if !is_wanted && since.elapsed() < STABLE_AFTER {
            self.backoff.failed(Instant::now());
        } else {
            self.backoff.succeeded();
        }
        self.ending.clear();
        self.questions.withdraw_all();
        for served in self.served.values_mut() {
            served.opened_by = None;
            served.session.counter.lost_gate(served.session.bytes());
        }
        for (_, (session, reply)) in std::mem::take(&mut self.counting) {
            session.tell(reply);
        }
        for (_, reply) in std::mem::take(&mut self.calls) {
            let broken = CallError::Broken(error.to_string());
            discard(reply.send(Err(broken)), "nobody waits any more");
        }
    }
}

/// Waits until this moment; for ever without one.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
