//! Every session of this daemon, by tenant and id.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vivarium_protocol::units::Limit;

use super::Session;

type Key = (String, String);

#[derive(Debug, Default)]
pub struct Registry {
    sessions: Mutex<BTreeMap<Key, Arc<Session>>>,
}

#[derive(Debug)]
pub enum Refused<E> {
    /// There is one of this id, perhaps on its way out.
    Exists(Arc<Session>),
    Full,
    /// There are as many of this tenant as there may be.
    TenantFull,
    NotMade(E),
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the session that `make` makes, unless one of this id exists, there are `own_max` of
    /// the tenant, `max` of all, or it can not be made.
    pub fn insert<E>(
        &self,
        tenant: &str,
        id: &str,
        own_max: Limit,
        max: Limit,
        make: impl FnOnce() -> Result<Arc<Session>, E>,
    ) -> Result<Arc<Session>, Refused<E>> {
        let mut sessions = self.lock();
        let key = (tenant.to_owned(), id.to_owned());
        if let Some(session) = sessions.get(&key) {
            return Err(Refused::Exists(Arc::clone(session)));
        }
        if own_max.get().is_some_and(|max| of(&sessions, tenant, "").count() as u64 >= max) {
            return Err(Refused::TenantFull);
        }
        if max.get().is_some_and(|max| sessions.len() as u64 >= max) {
            return Err(Refused::Full);
        }
        let session = make().map_err(Refused::NotMade)?;
        sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// The session of this id that is not over.
    pub fn get(&self, tenant: &str, id: &str) -> Option<Arc<Session>> {
        let session = self.lock().get(&(tenant.to_owned(), id.to_owned())).map(Arc::clone);
        session.filter(|session| !session.is_closed())
    }

    /// Forgets a session that is gone.
    pub fn remove(&self, session: &Session) {
        let key = (session.identity.tenant.clone(), session.identity.id.clone());
        self.lock().remove(&key);
    }

    /// Up to `limit` sessions of a tenant that match, ordered by id, after the one named.
    pub fn page(
        &self,
        tenant: &str,
        after: &str,
        limit: usize,
        matches: impl Fn(&Session) -> bool,
    ) -> Vec<Arc<Session>> {
        let sessions = self.lock();
        of(&sessions, tenant, after)
            .filter(|session| !session.is_closed() && matches(session))
            .take(limit)
            .map(Arc::clone)
            .collect()
    }

    /// All of them, also those on their way out.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().map(Arc::clone).collect()
    }

    pub fn has(&self, tenant: &str, environment: &str) -> bool {
        let sessions = self.lock();
        of(&sessions, tenant, "").any(|session| session.identity.environment == environment)
    }

    pub fn len_of(&self, tenant: &str) -> usize {
        of(&self.lock(), tenant, "").count()
    }
}

/// The sessions of a tenant, ordered by id, after the one named. No id is empty.
fn of<'a>(
    sessions: &'a BTreeMap<Key, Arc<Session>>,
    tenant: &'a str,
    after: &str,
) -> impl Iterator<Item = &'a Arc<Session>> {
    let after = (tenant.to_owned(), after.to_owned());
    let own = sessions.range((Bound::Excluded(after), Bound::Unbounded));
    own.take_while(move |((owner, _), _)| owner == tenant).map(|(_, session)| session)
}
