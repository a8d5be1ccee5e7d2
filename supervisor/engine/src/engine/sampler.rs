//! Finding out what sessions take, so that it is known what one more will.
//!
//! One session each second at most, and each only once until it is used again: a daemon that does
//! nothing asks nobody. It must never keep a session from being reaped, nor wait long for one.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use vivarium_api_types::SessionState;
use vivarium_protocol::message::Description;

use super::{DESCRIBE_WITHIN, Inner};
use crate::memory::Memory;
use crate::session::{Command, Session};

const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(engine: Weak<Inner>) {
    let mut sampler = Sampler::default();
    loop {
        sleep(EVERY).await;
        let Some(engine) = engine.upgrade() else { return };
        let (memory, next) = (Arc::clone(&engine.memory), sampler.next(&engine.registry.all()));
        // Of tenants' environments there may be any number, and each has its base's estimate.
        let is_known = |session: &Arc<Session>| {
            engine.environments.contains_key(&session.identity.environment)
        };
        let next = next.filter(is_known);
        drop(engine);
        if let Some(session) = next {
            sample(&session, &memory).await;
        }
    }
}

async fn sample(session: &Session, memory: &Memory) {
    let described = timeout(DESCRIBE_WITHIN, session.ask(Command::Describe)).await;
    if let Ok(Some(Description { agent_pss_bytes, kernel_pss_bytes, .. })) = described
        // A kernel that is being replaced has none.
        && kernel_pss_bytes > 0
    {
        let pss_bytes = agent_pss_bytes.saturating_add(kernel_pss_bytes);
        memory.record_usage(&session.identity.environment, pss_bytes);
    }
}

#[derive(Default)]
struct Sampler {
    /// By tenant and id: when it was asked, and when it had last been used then.
    asked: BTreeMap<(String, String), (Instant, Instant)>,
}

impl Sampler {
    /// One that was used since it was asked; first those that never were, then that which was
    /// asked longest ago.
    fn next(&mut self, sessions: &[Arc<Session>]) -> Option<Arc<Session>> {
        let key =
            |session: &Session| (session.identity.tenant.clone(), session.identity.id.clone());
        let mut before = std::mem::take(&mut self.asked);
        let mut first: Option<(Option<Instant>, Instant, &Arc<Session>)> = None;
        for session in sessions {
            let (state, used) = {
                let status = session.status();
                (status.state(), status.last_used)
            };
            let asked = before.remove_entry(&key(session)).map(|(key, asked)| {
                self.asked.insert(key, asked);
                asked
            });
            let is_news = asked.is_none_or(|(_, used_then)| used_then != used);
            let has_kernel = matches!(state, SessionState::Idle | SessionState::Running);
            let at = asked.map(|(at, _)| at);
            if has_kernel && is_news && first.is_none_or(|(earliest, ..)| at < earliest) {
                first = Some((at, used, session));
            }
        }
        let (_, used, session) = first?;
        self.asked.insert(key(session), (Instant::now(), used));
        Some(Arc::clone(session))
    }
}

#[cfg(test)]
mod tests;
