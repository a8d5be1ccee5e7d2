//! Every session of this daemon, by tenant and id.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vivarium_protocol::units::Limit;

use super::Session;

/// Tenant and id.
type Key = (String, String);

/// Sessions that are alive or not yet gone.
#[derive(Debug, Default)]
pub struct Registry {
    sessions: Mutex<BTreeMap<Key, Arc<Session>>>,
}

/// Why a session can not be added.
#[derive(Debug)]
pub enum Refused {
    /// There is one of this id, perhaps on its way out.
    Exists(Arc<Session>),
    /// There are as many as there may be.
    Full,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the session that `make` makes, unless one of this id exists or there are `max`.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn insert(
        &self,
        tenant: &str,
        id: &str,
        max: Limit,
        make: impl FnOnce() -> Arc<Session>,
    ) -> Result<Arc<Session>, Refused> {
        let mut sessions = self.lock();
        let key = (tenant.to_owned(), id.to_owned());
        if let Some(session) = sessions.get(&key) {
            return Err(Refused::Exists(Arc::clone(session)));
        }
        if max.get().is_some_and(|max| sessions.len() as u64 >= max) {
            return Err(Refused::Full);
        }
        let session = make();
        sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// The session of this id that is not over.
    #[must_use]
    pub fn get(&self, tenant: &str, id: &str) -> Option<Arc<Session>> {
        let session = self.lock().get(&(tenant.to_owned(), id.to_owned())).map(Arc::clone);
        session.filter(|session| !session.is_closed())
    }

    /// Forgets a session that is gone.
    pub fn remove(&self, session: &Session) {
        let key = (session.identity.tenant.clone(), session.identity.id.clone());
        self.lock().remove(&key);
    }

    /// Up to `limit` sessions of a tenant, ordered by id, after the one named.
    #[must_use]
    pub fn page(&self, tenant: &str, after: &str, limit: usize) -> Vec<Arc<Session>> {
        let start = (tenant.to_owned(), after.to_owned());
        let sessions = self.lock();
        sessions
            .range((std::ops::Bound::Excluded(start), std::ops::Bound::Unbounded))
            .take_while(|((owner, _), _)| owner == tenant)
            .map(|(_, session)| session)
            .filter(|session| !session.is_closed())
            .take(limit)
            .map(Arc::clone)
            .collect()
    }

    /// All of them, also those on their way out.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().map(Arc::clone).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
