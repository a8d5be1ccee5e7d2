//! Calls that wait, and for some time those that did.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;
use vivarium_api_types::{ApprovalInfo, ApprovalState, Remember};

use vivarium_protocol::discard;

use super::question::{Question, SameCall, Subject};
use super::{Decided, timestamp_after};

/// How long calls that wait no more can be asked for.
const KEPT: Duration = Duration::from_mins(10);

/// Of each tenant, at most so many.
const MAX_KEPT: usize = 200;

/// A call that waits or waited.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) question: Question,
    pub(super) state: ApprovalState,
    /// What is to be remembered at most; of one that is over, what was.
    pub(super) remember: Remember,
    pub(super) deadline: Instant,
    asked_at: Timestamp,
    pub(super) expires_at: Timestamp,
    ended_at: Option<Timestamp>,
    pub(super) by: Option<String>,
    pub(super) reason: Option<String>,
    /// Who waits for it, and how many of them still do.
    answers: Vec<oneshot::Sender<Decided>>,
    pub(super) waiters: usize,
}

impl Entry {
    pub(super) fn new(
        question: Question,
        remember: Remember,
        timeout: Duration,
        answer: oneshot::Sender<Decided>,
    ) -> Self {
        let now = Instant::now();
        Self {
            // Random: whoever is told one can guess no other.
            id: uuid::Uuid::new_v4().simple().to_string(),
            question,
            state: ApprovalState::Pending,
            remember,
            deadline: now.checked_add(timeout).unwrap_or(now),
            asked_at: Timestamp::now(),
            expires_at: timestamp_after(timeout),
            ended_at: None,
            by: None,
            reason: None,
            answers: vec![answer],
            waiters: 1,
        }
    }

    pub(super) fn tenant(&self) -> &str {
        &self.question.tenant
    }

    /// What is told of it: `whole` has what is to run too. Who decided is for administrators.
    pub(super) fn info(&self, is_administrator: bool, whole: bool) -> ApprovalInfo {
        let Question { tenant, session, subject, .. } = &self.question;
        let (mut execution, mut egress) = (None, None);
        match subject {
            Subject::Execution(asked) => {
                let mut shown = asked.shown.clone();
                if !whole {
                    (shown.code, shown.argv) = (None, None);
                }
                execution = Some(shown);
            }
            Subject::Egress(destination) => egress = Some(destination.clone()),
        }
        let own_token = format!(" of {tenant}");
        let by = self.by.as_deref().map(|by| match by.split_once(' ') {
            _ if is_administrator => by,
            // One of its own.
            Some(("token", token)) if token.ends_with(&own_token) => by,
            Some(("approval", _)) | None => by,
            Some(_) => "administrator",
        });
        ApprovalInfo {
            id: self.id.clone(),
            state: self.state,
            tenant: tenant.clone(),
            session_id: session.clone(),
            execution,
            egress,
            asked_at: self.asked_at,
            expires_at: self.expires_at,
            ended_at: self.ended_at,
            by: by.map(str::to_owned),
            reason: self.reason.clone(),
            remember: self.remember,
        }
    }
}

/// By number, in the order in which they were asked.
#[derive(Debug, Default)]
pub(super) struct Calls {
    entries: BTreeMap<u64, Entry>,
    numbers: HashMap<String, u64>,
    /// How many of each tenant wait.
    pending: HashMap<String, u64>,
    /// Of each tenant, those that wait no more, in the order in which they ended.
    over: HashMap<String, VecDeque<(Instant, u64)>>,
    last: u64,
}

impl Calls {
    pub(super) fn add(&mut self, entry: Entry) -> (u64, &Entry) {
        self.last += 1;
        *self.pending.entry(entry.tenant().to_owned()).or_default() += 1;
        self.numbers.insert(entry.id.clone(), self.last);
        (self.last, self.entries.entry(self.last).or_insert(entry))
    }

    /// Has one more wait for a call that waits already: the same one; `None` if there is none.
    pub(super) fn join(
        &mut self,
        call: &SameCall,
        answer: oneshot::Sender<Decided>,
    ) -> Option<(u64, &Entry)> {
        let number = self.pending().find(|(_, entry)| entry.question.same() == *call)?.0;
        let entry = self.entries.get_mut(&number)?;
        entry.answers.push(answer);
        entry.waiters += 1;
        Some((number, entry))
    }

    /// One waits no more; whether it was the last.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        entry.waiters = entry.waiters.saturating_sub(1);
        entry.state == ApprovalState::Pending && entry.waiters == 0
    }

    pub(super) fn pending_of(&self, tenant: &str) -> u64 {
        self.pending.get(tenant).copied().unwrap_or(0)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let waiting = |(_, entry): &(&u64, &Entry)| entry.state == ApprovalState::Pending;
        self.entries.iter().filter(waiting).map(|(number, entry)| (*number, entry))
    }

    /// Those after this number.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = &Entry> {
        self.entries.range(number + 1..).map(|(_, entry)| entry)
    }

    /// One of this tenant, or of any.
    pub(super) fn find(&self, tenant: Option<&str>, id: &str) -> Option<(u64, &Entry)> {
        let number = *self.numbers.get(id)?;
        let entry = self.entries.get(&number)?;
        tenant.is_none_or(|tenant| tenant == entry.tenant()).then_some((number, entry))
    }

    /// Ends one that waits, and answers who does; `None` if it does not wait.
    pub(super) fn end(
        &mut self,
        number: u64,
        state: ApprovalState,
        by: Option<String>,
        reason: Option<String>,
        remember: Remember,
        now: Instant,
    ) -> Option<&Entry> {
        let entry = self.entries.get_mut(&number)?;
        if entry.state != ApprovalState::Pending {
            return None;
        }
        (entry.state, entry.by, entry.remember) = (state, by, remember);
        entry.reason.clone_from(&reason);
        entry.ended_at = Some(Timestamp::now());
        for answer in entry.answers.drain(..) {
            let decided = Decided { state, reason: reason.clone() };
            discard(answer.send(decided), "it does not wait any more");
        }
        let tenant = entry.tenant().to_owned();
        if let Some(count) = self.pending.get_mut(&tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.pending.remove(&tenant);
            }
        }
        self.over.entry(tenant).or_default().push_back((now, number));
        self.entries.get(&number)
    }

    /// Forgets those that nobody needs to ask for any more.
    pub(super) fn forget_old(&mut self, now: Instant) {
        for over in self.over.values_mut() {
            let is_old = |(ended, _): &(Instant, u64)| now.duration_since(*ended) > KEPT;
            while over.len() > MAX_KEPT || over.front().is_some_and(is_old) {
                let Some((_, number)) = over.pop_front() else { break };
                if let Some(entry) = self.entries.remove(&number) {
                    self.numbers.remove(&entry.id);
                }
            }
        }
        self.over.retain(|_, over| !over.is_empty());
    }
}
