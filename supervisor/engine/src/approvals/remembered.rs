//! What was allowed before, and is allowed again without asking.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use vivarium_api_types::Remember;

use super::question::{Question, Same, SameCall};

/// The most that is remembered of one tenant; more is not, and asked for again.
const MAX_REMEMBERED: usize = 10_000;

/// How long a destination stays denied for its session.
const DENIED_FOR: Duration = Duration::from_mins(1);

/// By tenant: what is allowed, for which session if not for all.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    allowed: HashMap<String, HashMap<(Option<String>, Same), Allowed>>,
    /// Destinations of sessions, until when.
    denied: HashMap<SameCall, Instant>,
}

#[derive(Debug)]
struct Allowed {
    /// Never, if there is none: as long as its session.
    until: Option<Instant>,
    /// The approval's id.
    by: String,
}

impl Remembered {
    pub(super) fn add(
        &mut self,
        call: &SameCall,
        remember: Remember,
        until: Option<Instant>,
        by: &str,
    ) {
        let (session, until) = match remember {
            Remember::Nothing => return,
            Remember::Session => (Some(call.session.clone()), None),
            Remember::Tenant => (None, until),
        };
        let own = self.allowed.entry(call.tenant.clone()).or_default();
        if own.len() >= MAX_REMEMBERED {
            let now = Instant::now();
            own.retain(|_, allowed| allowed.until.is_none_or(|until| until > now));
        }
        if own.len() < MAX_REMEMBERED {
            let allowed = Allowed { until, by: by.to_owned() };
            own.insert((session, call.same.clone()), allowed);
        }
    }

    /// The approval that allows this call already.
    pub(super) fn find(&self, question: &Question, now: Instant) -> Option<String> {
        let SameCall { tenant, session, same } = question.same();
        let own = self.allowed.get(&tenant)?;
        let of_session = own.get(&(Some(session), same.clone()));
        let found = of_session.or_else(|| own.get(&(None, same)))?;
        found.until.is_none_or(|until| until > now).then(|| found.by.clone())
    }

    /// A destination was denied: code that tries again is not to ask again at once.
    pub(super) fn deny(&mut self, call: SameCall, now: Instant) {
        if self.denied.len() >= MAX_REMEMBERED {
            self.denied.retain(|_, until| *until > now);
        }
        if self.denied.len() < MAX_REMEMBERED {
            self.denied.insert(call, now + DENIED_FOR);
        }
    }

    pub(super) fn is_denied(&self, call: &SameCall, now: Instant) -> bool {
        self.denied.get(call).is_some_and(|until| *until > now)
    }

    pub(super) fn forget_session(&mut self, tenant: &str, session: &str) {
        self.denied.retain(|call, _| call.tenant != tenant || call.session != session);
        if let Some(own) = self.allowed.get_mut(tenant) {
            own.retain(|(of, _), _| of.as_deref() != Some(session));
            if own.is_empty() {
                self.allowed.remove(tenant);
            }
        }
    }
}
