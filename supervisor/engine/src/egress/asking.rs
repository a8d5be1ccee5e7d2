//! Questions of the gate: may a session reach a destination that is on no list?

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::{AbortHandle, JoinSet};
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::CallNumber;

use super::SessionEgress;
use crate::approvals::{Approvals, Asked, Decided, Question};

/// Those that wait for a decision, of one gate.
#[derive(Debug)]
pub(super) struct Questions {
    approvals: Arc<Approvals>,
    waiting: JoinSet<(CallNumber, bool)>,
    of_sessions: BTreeMap<CallNumber, (SessionKey, AbortHandle)>,
}

impl Questions {
    pub(super) fn new(approvals: Arc<Approvals>) -> Self {
        Self { approvals, waiting: JoinSet::new(), of_sessions: BTreeMap::new() }
    }

    /// The answer, if there is one at once.
    pub(super) fn ask(
        &mut self,
        id: CallNumber,
        session: &SessionEgress,
        host: String,
        port: u16,
    ) -> Option<bool> {
        let of = session.id.get().map(String::as_str).unwrap_or_default();
        let question = Question::of_egress((&session.tenant, of), session.unlisted, host, port);
        match self.approvals.ask_egress(question) {
            Asked::Allowed => Some(true),
            Asked::Denied | Asked::TooMany => Some(false),
            Asked::Waiting(waiting) => {
                let decided = async move { (id, Decided::is_allowed(&waiting.decided().await)) };
                let handle = self.waiting.spawn(decided);
                self.of_sessions.insert(id, (session.key, handle));
                None
            }
        }
    }

    /// The next decision; waits for ever if none is awaited.
    pub(super) async fn next(&mut self) -> (CallNumber, bool) {
        loop {
            match self.waiting.join_next().await {
                Some(Ok((id, allowed))) => {
                    self.of_sessions.remove(&id);
                    return (id, allowed);
                }
                // Withdrawn.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// A session is over: nobody is to decide for it.
    pub(super) fn withdraw(&mut self, session: SessionKey) {
        self.of_sessions.retain(|_, (of, handle)| {
            if *of == session {
                handle.abort();
            }
            *of != session
        });
    }

    /// The gate is lost, and with it everybody who asked.
    pub(super) fn withdraw_all(&mut self) {
        self.waiting.abort_all();
        self.of_sessions.clear();
    }
}
