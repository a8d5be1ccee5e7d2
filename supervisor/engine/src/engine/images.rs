//! Suspending sessions, resuming them, and making sessions from others.
//!
//! A session is suspended in steps: nothing new begins in it; its kernel writes its files and memory; the
//! image is put in its place; and only then does the session end. Until that last step it is what it was, and
//! goes on if one fails. It is resumed in the opposite order: another session is made, with all layers, as any;
//! files and memory are put into it; and only then does the image go.

mod branch;
mod checkpoints;
mod portable;
mod transfer;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use vivarium_api_types::{ImageableReply, SessionInfo, SessionQuery, SessionState};
use vivarium_metrics::Families;
use vivarium_protocol::outcome::Cause;

use super::{Engine, EngineError};
use crate::images::{Image, Images, Place, Record};
use crate::session::{Call, Session};

/// How many branches are made at a time, and how many sessions suspended as the daemon ends.
const AT_ONCE: usize = 8;

/// How long it may take to suspend a session as the daemon ends.
const LAST_WITHIN: Duration = Duration::from_secs(60);

impl Engine {
    /// Suspends a session: writes all that it is to disk, and ends it. One that is suspended stays as it is.
    pub async fn suspend(&self, tenant: &str, id: &str) -> Result<SessionInfo, EngineError> {
        self.check_open(tenant)?;
        match self.find(tenant, id) {
            Err(EngineError::Suspended(_)) if let Some(info) = self.suspended(tenant, id) => {
                Ok(info)
            }
            found => self.suspend_session(found?).await,
        }
    }

    pub(super) async fn suspend_session(
        &self,
        session: Arc<Session>,
    ) -> Result<SessionInfo, EngineError> {
        let images = self.images()?;
        session.started().await.map_err(EngineError::NotStarted)?;
        let place = images.hold(&session.identity.tenant, &session.identity.id).await;
        self.suspend_held(images, session, place).await
    }

    async fn suspend_held(
        &self,
        images: Arc<Images>,
        session: Arc<Session>,
        mut place: Place,
    ) -> Result<SessionInfo, EngineError> {
        let engine = self.clone();
        finished(async move {
            let id = &*session.identity.id;
            if !session.stand_still().await {
                return Err(EngineError::Suspended(id.to_owned()));
            }
            let kept = engine.keep_image(&images, &session).await;
            engine.count_suspend(&kept);
            match kept {
                Ok(image) => {
                    session.close(Cause::Suspended).await;
                    let info = engine.info_of(&image.record);
                    place.put(image);
                    Ok(info)
                }
                Err(error) => {
                    session.end_suspension();
                    Err(error)
                }
            }
        })
        .await
    }

    /// Suspends the session that nobody has used for longest, if that is long enough. Whether there was one.
    pub(super) async fn make_room(&self) -> bool {
        let Some(after) = self.settings().images.suspend_for_room else { return false };
        let Ok(images) = self.images() else { return false };
        let mut sessions = self.inner.registry.all();
        sessions.retain(|session| session.template_memory().is_some());
        sessions.sort_by_cached_key(|session| session.last_used());
        for session in sessions {
            let (tenant, id) = (&session.identity.tenant, session.identity.id.clone());
            // Whoever asks may hold a place, and so must not wait for another.
            let Some(place) = images.try_hold(tenant, &id) else { continue };
            if !session.claim_unused(after) {
                continue;
            }
            match self.suspend_held(Arc::clone(&images), session, place).await {
                Ok(_) => return true,
                Err(error) => tracing::debug!(session = id, %error, "unused, and not suspended"),
            }
        }
        false
    }

    /// Makes the image of a session in which nothing begins any more, and puts it in the session's place.
    async fn keep_image(
        &self,
        images: &Arc<Images>,
        session: &Arc<Session>,
    ) -> Result<Image, EngineError> {
        let (unfinished, mut record) = self.make_image(images, session, || {}).await?;
        record.info.state = SessionState::Suspended;
        let (images, session) = (Arc::clone(images), Arc::clone(session));
        let keeping = spawn_blocking(move || {
            let place = (&*session.identity.tenant, &*session.identity.id);
            images.keep(place, unfinished, record)
        });
        blocked(keeping.await)?.map_err(transfer::failed)
    }

    /// Resumes a session that is suspended. One that is awake stays as it is.
    pub async fn resume_session(&self, tenant: &str, id: &str) -> Result<SessionInfo, EngineError> {
        Ok(self.info(&*self.awake_for(tenant, id, Waker::Request).await?))
    }

    /// A tenant's session, awake, for a call to begin something in it: resumed first if it is suspended, and not
    /// suspended meanwhile.
    pub(super) async fn awake(&self, tenant: &str, id: &str) -> Result<Awake, EngineError> {
        self.awake_for(tenant, id, Waker::Call).await
    }

    async fn awake_for(&self, tenant: &str, id: &str, waker: Waker) -> Result<Awake, EngineError> {
        loop {
            let session = self.woken(tenant, id, waker).await?;
            if let Some(call) = session.call().await {
                return Ok(Awake { session, _call: call });
            }
        }
    }

    async fn woken(
        &self,
        tenant: &str,
        id: &str,
        waker: Waker,
    ) -> Result<Arc<Session>, EngineError> {
        match self.find(tenant, id) {
            Err(EngineError::Suspended(_)) => {}
            found => return found,
        }
        self.check_admits(tenant)?;
        let images = self.images()?;
        let (engine, owner, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        finished(async move {
            let mut place = images.hold(&owner, &id).await;
            let Some(image) = place.image() else {
                // Somebody else was faster, or it was not suspended after all.
                return engine.find(&owner, &id);
            };
            if image.record.is_over(engine.expire_after()) {
                return Err(EngineError::UnknownSession(id));
            }
            if waker == Waker::Call && !image.record.resumes_by_itself() {
                return Err(EngineError::Suspended(id));
            }
            let session = engine.wake(&images, image, image.record.spec.clone()).await?;
            place.remove();
            session.end_suspension();
            Ok(session)
        })
        .await
    }

    /// Whether a session can be suspended now.
    pub async fn imageable(&self, tenant: &str, id: &str) -> Result<ImageableReply, EngineError> {
        self.check_admits(tenant)?;
        let session = self.find(tenant, id)?;
        let reasons = match self.images() {
            Ok(_) => self.obstacles(&session).await?.into_iter().map(|it| it.text).collect(),
            Err(error) => vec![error.to_string()],
        };
        Ok(ImageableReply { imageable: reasons.is_empty(), reasons })
    }

    /// Removes a session that is suspended, with its checkpoints; whether there was one.
    pub(super) async fn delete_image(&self, tenant: &str, id: &str) -> bool {
        let Ok(images) = self.images() else { return false };
        let removed = images.hold(tenant, id).await.remove();
        if removed {
            images.checkpoints.end(tenant, id);
        }
        removed
    }

    /// Whether a session is suspended, or is being suspended or resumed.
    pub(super) fn has_image(&self, tenant: &str, id: &str) -> bool {
        let images = self.inner.host.images.as_ref();
        images.is_ok_and(|images| images.record(tenant, id).is_some())
    }

    /// What is known of a session that is suspended.
    pub(super) fn suspended(&self, tenant: &str, id: &str) -> Option<SessionInfo> {
        let record = self.inner.host.images.as_ref().ok()?.record(tenant, id)?;
        Some(self.info_of(&record))
    }

    /// The first sessions of a tenant that are suspended and match the query.
    pub(super) fn suspended_of(
        &self,
        tenant: &str,
        query: &SessionQuery,
        limit: usize,
    ) -> Vec<SessionInfo> {
        let Ok(images) = &self.inner.host.images else { return Vec::new() };
        let after = query.page.after.as_deref().unwrap_or_default();
        let matches = |Record { info, .. }: &Record| {
            // Those that are being resumed are listed as that.
            query.admits(info.state, &info.metadata)
                && self.inner.registry.get(tenant, &info.id).is_none()
        };
        let found = images.page(tenant, after, limit, matches);
        found.iter().map(|record| self.info_of(record)).collect()
    }

    /// Suspends what can be, as the daemon ends; what can not be is ended after this.
    pub(super) async fn suspend_all(&self) {
        if self.inner.host.images.is_err() {
            return;
        }
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut suspending = JoinSet::new();
        for session in self.inner.registry.all() {
            let (engine, turns) = (self.clone(), Arc::clone(&turns));
            suspending.spawn(async move {
                let turn = turns.acquire().await;
                let id = session.identity.id.clone();
                if session.template_memory().is_none() {
                    return;
                }
                match timeout(LAST_WITHIN, engine.suspend_session(session)).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => {
                        tracing::warn!(session = id, %error, "not suspended, and ended");
                    }
                    Err(_) => tracing::warn!(session = id, "not suspended in time, and ended"),
                }
                drop(turn);
            });
        }
        while suspending.join_next().await.is_some() {}
    }

    /// Suspends sessions that nobody has used for a while, and removes images whose time is over.
    pub(super) fn tend_images(&self) {
        let Ok(images) = &self.inner.host.images else { return };
        let settings = self.settings();
        for (tenant, id) in images.expired(settings.images.expire_after) {
            let engine = self.clone();
            tokio::spawn(async move {
                tracing::info!(tenant, session = id, "a suspended session has expired");
                engine.delete_image(&tenant, &id).await;
            });
        }
        for (tenant, id) in images.checkpoints.sessions() {
            if self.exists(&tenant, &id).is_err() && images.try_hold(&tenant, &id).is_some() {
                images.checkpoints.end(&tenant, &id);
            }
        }
        let Some(after) = settings.images.suspend_after else { return };
        if self.is_draining() {
            return;
        }
        for session in self.inner.registry.all() {
            if session.template_memory().is_some() && session.claim_unused(after) {
                let engine = self.clone();
                tokio::spawn(async move {
                    let id = session.identity.id.clone();
                    if let Err(error) = engine.suspend_session(session).await {
                        tracing::debug!(session = id, %error, "unused, and not suspended");
                    }
                });
            }
        }
    }

    pub(super) fn images(&self) -> Result<Arc<Images>, EngineError> {
        let images = self.inner.host.images.as_ref().map(Arc::clone);
        images.map_err(|why| EngineError::Image((*why).to_owned()))
    }

    fn count_suspend<T>(&self, made: &Result<T, EngineError>) {
        let metrics = &self.inner.host.metrics;
        match made {
            Ok(_) => metrics.images.suspended(),
            Err(EngineError::NotImageable(obstacles)) => {
                metrics.images.refused(obstacles.iter().map(|obstacle| obstacle.kind));
            }
            Err(_) => metrics.images.suspend_failed(),
        }
    }

    /// Scrape.
    pub(super) fn show_images(&self, to: &Families) {
        let tenants = self.settings().ceilings().into_keys();
        let mut totals: BTreeMap<_, _> = tenants.map(|tenant| (tenant, (0, 0))).collect();
        if let Ok(images) = &self.inner.host.images {
            totals.extend(images.totals());
        }
        for (tenant, (count, bytes)) in totals {
            to.images.of_tenant(&tenant, count, bytes);
        }
    }

    fn info_of(&self, record: &Record) -> SessionInfo {
        record.info(self.expire_after())
    }

    fn expire_after(&self) -> Option<Duration> {
        self.settings().images.expire_after
    }
}

/// What resumes a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waker {
    /// A call that needs it.
    Call,
    /// A request to resume it.
    Request,
}

/// A session that is not suspended as long as this is there.
pub(super) struct Awake {
    session: Arc<Session>,
    _call: Call,
}

impl Deref for Awake {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.session
    }
}

/// A session in which nothing begins. Dropped, it goes on.
struct Still {
    session: Arc<Session>,
    _place: Place,
}

impl Drop for Still {
    fn drop(&mut self) {
        self.session.end_suspension();
    }
}

/// Does this to its end, though the caller goes away.
async fn finished<T: Send + 'static>(
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    blocked(tokio::spawn(work).await)?
}

fn blocked<T>(done: Result<T, tokio::task::JoinError>) -> Result<T, EngineError> {
    done.map_err(|error| EngineError::Internal(error.to_string()))
}
