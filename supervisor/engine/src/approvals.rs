//! Calls that wait until somebody allows or denies them.
//!
//! Who wants something asks here and holds a [`Waiting`]; who decides finds the call by its id. What
//! is remembered is in memory alone: a restart asks again. A call that nobody decides in time is
//! denied, and one that nobody waits for any more is withdrawn. It must never allow what nobody
//! allowed, answer a call twice, or tell one tenant of another's calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use vivarium_api_types::{
    ApprovalDecision, ApprovalInfo, ApprovalQuery, ApprovalState, DecideRequest, Remember,
};
use vivarium_audit::AuditLog;
use vivarium_metrics::Metrics;
use vivarium_protocol::discard;

mod kept;
mod question;
mod record;
mod remembered;
#[cfg(test)]
mod tests;

use kept::{Calls, Entry};
pub use question::{ExecutionQuestion, Question, Subject};
use remembered::Remembered;

use crate::settings::{Approval, ApprovalRule, Settings, Webhook};

/// Who decided that is no person.
pub(crate) const BY_CONFIGURATION: &str = "configuration";

/// Every call that waits or waited, and the rules by which calls do.
#[derive(Debug)]
pub struct Approvals {
    pub(crate) metrics: Arc<Metrics>,
    audit: AuditLog,
    rules: RwLock<Rules>,
    inner: Mutex<Inner>,
    /// Told of each call that begins to wait.
    webhook: OnceLock<mpsc::UnboundedSender<String>>,
}

#[derive(Debug, Default)]
struct Rules {
    all: Approval,
    own: HashMap<String, Approval>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Calls,
    remembered: Remembered,
}

/// What becomes of a call that is asked for.
#[derive(Debug)]
pub enum Asked {
    Allowed,
    /// The rule denies it.
    Denied,
    Waiting(Waiting),
    /// As many calls of the tenant wait as may.
    TooMany,
}

/// What was decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    pub state: ApprovalState,
    pub reason: Option<String>,
}

impl Decided {
    pub fn is_allowed(&self) -> bool {
        self.state == ApprovalState::Allowed
    }
}

/// Why a decision was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDecided {
    /// There is no such call, or it is another tenant's.
    Unknown,
    /// It waits no more.
    Over(ApprovalState),
    /// More is to be remembered than the rule says.
    RemembersMore(Remember),
}

/// A call that waits. Dropped, it waits no more.
#[derive(Debug)]
pub struct Waiting {
    approvals: Arc<Approvals>,
    number: u64,
    pub id: String,
    pub expires_at: Timestamp,
    deadline: Instant,
    answer: oneshot::Receiver<Decided>,
}

impl Waiting {
    /// Waits until somebody decides, or it is too late.
    pub async fn decided(mut self) -> Decided {
        if let Ok(Ok(decided)) = timeout_at(self.deadline, &mut self.answer).await {
            return decided;
        }
        // Unless somebody has just decided.
        self.approvals.end(self.number, ApprovalState::TimedOut, None, None);
        let late = Decided { state: ApprovalState::TimedOut, reason: None };
        (&mut self.answer).await.unwrap_or(late)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.approvals.leave(self.number);
    }
}

impl Approvals {
    pub fn new(metrics: Arc<Metrics>, audit: AuditLog) -> Self {
        Self {
            metrics,
            audit,
            rules: RwLock::default(),
            inner: Mutex::default(),
            webhook: OnceLock::new(),
        }
    }

    /// Announces each call that begins to wait, by its id, if a web service is configured.
    pub(crate) fn announce_to(&self, told: mpsc::UnboundedSender<String>) {
        self.webhook.get_or_init(|| told);
    }

    /// The web service that is told, if any.
    pub(crate) fn webhook(&self) -> Option<Webhook> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        Some(&rules.all.webhook).filter(|webhook| webhook.url.is_some()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has these rules hold from now on: calls that wait although they need not are allowed, and those
    /// that are denied now are.
    pub fn set(&self, settings: &Settings) {
        let own = settings.tenants.keys().map(|name| (name.clone(), settings.approval_of(name)));
        let rules = Rules { all: settings.approval.clone(), own: own.collect() };
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        let pending: Vec<_> =
            self.lock().calls.pending().map(|(number, it)| (number, it.question.clone())).collect();
        for (number, question) in pending {
            let state = match question.rule(&self.rule(&question.tenant)) {
                ApprovalRule::Deny => ApprovalState::Denied,
                ApprovalRule::Allow => ApprovalState::Allowed,
                ApprovalRule::Ask => continue,
            };
            self.end(number, state, Some(BY_CONFIGURATION.to_owned()), None);
        }
    }

    /// What holds for a tenant.
    pub fn rule(&self, tenant: &str) -> Approval {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.own.get(tenant).unwrap_or(&rules.all).clone()
    }

    /// Asks whether something may run, for which a request may have said what holds at least.
    pub fn ask(
        self: &Arc<Self>,
        question: impl FnOnce() -> Question,
        tenant: &str,
        at_least: ApprovalRule,
    ) -> Asked {
        let rule = self.rule(tenant);
        match rule.executions.max(at_least) {
            ApprovalRule::Allow => Asked::Allowed,
            ApprovalRule::Deny => Asked::Denied,
            ApprovalRule::Ask => self.ask_by(question(), &rule, Instant::now()),
        }
    }

    /// Asks whether a session may reach a destination that is on no list. Those who ask for the same
    /// wait together.
    pub fn ask_egress(self: &Arc<Self>, question: Question) -> Asked {
        let rule = self.rule(&question.tenant);
        match question.rule(&rule) {
            ApprovalRule::Allow => return Asked::Allowed,
            ApprovalRule::Deny => return Asked::Denied,
            ApprovalRule::Ask => {}
        }
        let (call, now) = (question.same(), Instant::now());
        let (sender, answer) = oneshot::channel();
        {
            let mut inner = self.lock();
            if inner.remembered.is_denied(&call, now) {
                return Asked::Denied;
            }
            if let Some((number, entry)) = inner.calls.join(&call, sender) {
                return Asked::Waiting(self.waiting(number, entry, answer));
            }
        }
        self.ask_by(question, &rule, now)
    }

    fn ask_by(self: &Arc<Self>, question: Question, rule: &Approval, now: Instant) -> Asked {
        let mut inner = self.lock();
        inner.calls.forget_old(now);
        if let Some(by) = inner.remembered.find(&question, now) {
            drop(inner);
            self.remembered(&question, by);
            return Asked::Allowed;
        }
        if inner.calls.pending_of(&question.tenant) >= rule.max_waiting {
            return Asked::TooMany;
        }
        let (sender, answer) = oneshot::channel();
        let (number, entry) =
            inner.calls.add(Entry::new(question, rule.remember, rule.timeout, sender));
        self.asked(entry);
        let waiting = self.waiting(number, entry, answer);
        drop(inner);
        if let Some(webhook) = self.webhook.get()
            && self.webhook().is_some()
        {
            discard(webhook.send(waiting.id.clone()), "the engine is at its end");
        }
        Asked::Waiting(waiting)
    }

    fn waiting(
        self: &Arc<Self>,
        number: u64,
        entry: &Entry,
        answer: oneshot::Receiver<Decided>,
    ) -> Waiting {
        let (id, expires_at, deadline) = (entry.id.clone(), entry.expires_at, entry.deadline);
        Waiting { approvals: Arc::clone(self), number, id, expires_at, deadline, answer }
    }

    /// One waits no more for a call, which is withdrawn if nobody does.
    fn leave(&self, number: u64) {
        let is_last = self.lock().calls.leave(number);
        if is_last {
            self.end(number, ApprovalState::Withdrawn, None, None);
        }
    }

    /// A call, of this tenant or of any.
    pub fn get(&self, tenant: Option<&str>, id: &str) -> Option<ApprovalInfo> {
        let inner = self.lock();
        let (_, entry) = inner.calls.find(tenant, id)?;
        Some(entry.info(tenant.is_none(), true))
    }

    /// Calls of this tenant, or of all, oldest first, and whether there are more. `None` if `after` is
    /// none of them.
    pub fn list(
        &self,
        tenant: Option<&str>,
        query: &ApprovalQuery,
    ) -> Option<(Vec<ApprovalInfo>, bool)> {
        let inner = self.lock();
        let after = match &query.after {
            Some(id) => inner.calls.find(tenant, id)?.0,
            None => 0,
        };
        let wanted = query.state.unwrap_or(ApprovalState::Pending);
        let matches = |entry: &&Entry| {
            (query.all && query.state.is_none() || entry.state == wanted)
                && tenant.is_none_or(|tenant| tenant == entry.tenant())
        };
        let mut found: Vec<_> = inner
            .calls
            .after(after)
            .filter(matches)
            .take(query.limit + 1)
            .map(|entry| entry.info(tenant.is_none(), false))
            .collect();
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        Some((found, more))
    }

    /// Decides about a call of this tenant, or of any.
    pub fn decide(
        &self,
        tenant: Option<&str>,
        id: &str,
        by: &str,
        request: DecideRequest,
    ) -> Result<ApprovalInfo, NotDecided> {
        let (number, most, state) = {
            let inner = self.lock();
            let (number, entry) = inner.calls.find(tenant, id).ok_or(NotDecided::Unknown)?;
            (number, entry.remember, entry.state)
        };
        if state != ApprovalState::Pending {
            return Err(NotDecided::Over(state));
        }
        let remember = request.remember.unwrap_or(most);
        if remember > most {
            return Err(NotDecided::RemembersMore(most));
        }
        let (state, remember) = match request.decision {
            ApprovalDecision::Allow => (ApprovalState::Allowed, remember),
            ApprovalDecision::Deny => (ApprovalState::Denied, Remember::Nothing),
        };
        let decided = Some((remember, request.reason));
        if !self.end(number, state, Some(by.to_owned()), decided) {
            let now = self.get(tenant, id).map_or(ApprovalState::Withdrawn, |info| info.state);
            return Err(NotDecided::Over(now));
        }
        self.get(tenant, id).ok_or(NotDecided::Unknown)
    }

    /// Ends a call that waits, and with it those of which the same is remembered now; `false` if it
    /// does not wait.
    fn end(
        &self,
        number: u64,
        state: ApprovalState,
        by: Option<String>,
        decided: Option<(Remember, Option<String>)>,
    ) -> bool {
        let (remember, reason) = decided.unwrap_or_default();
        let mut inner = self.lock();
        let Inner { calls, remembered } = &mut *inner;
        let now = Instant::now();
        let Some(entry) = calls.end(number, state, by, reason, remember, now) else {
            return false;
        };
        self.ended(entry);
        let is_denied = matches!(state, ApprovalState::Denied | ApprovalState::TimedOut);
        if is_denied && matches!(entry.question.subject, Subject::Egress(_)) {
            remembered.deny(entry.question.same(), now);
        }
        if state != ApprovalState::Allowed || remember == Remember::Nothing {
            return true;
        }
        let (id, question) = (entry.id.clone(), entry.question.same());
        let keep = self.rule(&question.tenant).remember_for;
        remembered.add(&question, remember, now.checked_add(keep), &id);
        let same: Vec<_> = calls
            .pending()
            .filter(|(_, other)| remembered.find(&other.question, now).is_some())
            .map(|(number, _)| number)
            .collect();
        for number in same {
            let by = Some(format!("approval {id}"));
            let nothing = Remember::Nothing;
            if let Some(entry) = calls.end(number, state, by, None, nothing, now) {
                self.ended(entry);
            }
        }
        true
    }

    /// A session is over, and what was remembered for it.
    pub fn forget_session(&self, tenant: &str, session: &str) {
        self.lock().remembered.forget_session(tenant, session);
    }

    /// Scrape: calls of each tenant that wait.
    pub fn pending(&self) -> BTreeMap<String, u64> {
        let inner = self.lock();
        let mut counts = BTreeMap::new();
        for (_, entry) in inner.calls.pending() {
            *counts.entry(entry.tenant().to_owned()).or_default() += 1;
        }
        counts
    }
}

/// So long from now, on the clock that clients read.
fn timestamp_after(time: Duration) -> Timestamp {
    Timestamp::now().checked_add(time).unwrap_or(Timestamp::MAX)
}
