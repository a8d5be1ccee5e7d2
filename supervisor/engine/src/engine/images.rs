//! Suspending sessions, resuming them, and making sessions from others.
//!
//! A session is suspended in steps: nothing new begins in it; its kernel writes its files and memory; the
//! image is put in its place; and only then does the session end. Until that last step it is what it was, and
//! goes on if one fails. It is resumed in the opposite order: another session is made, with all layers, as any;
//! files and memory are put into it; and only then does the image go.

mod audited;
mod branch;
mod checkpoints;
mod diff;
mod each;
mod earlier;
mod idle;
mod portable;
mod transfer;
mod wake;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use vivarium_api_types::{ImageableReply, SessionInfo, SessionQuery, SessionState};
use vivarium_metrics::Families;
use vivarium_protocol::outcome::Cause;

pub(super) use self::earlier::EarlierTemplates;
use self::transfer::Made;
use super::{Engine, EngineError};
use crate::images::{Image, Images, Place, Record};
use crate::session::{Call, Session};
use crate::stores::StoreKey;

/// How many branches are made at a time, and how many sessions suspended as the daemon ends.
const AT_ONCE: usize = 8;

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
        self.needs_cpython(&session.identity.environment, "images are")?;
        let images = self.images()?;
        session.started().await.map_err(EngineError::NotStarted)?;
        session.checkpoints_kept().await;
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
                    engine.audit_image(&image.record, "suspended");
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

    /// Makes the image of a session in which nothing begins any more, and puts it in the session's place.
    async fn keep_image(
        &self,
        images: &Arc<Images>,
        session: &Arc<Session>,
    ) -> Result<Image, EngineError> {
        let made = self.make_image(images, session, None, |_| {}).await?;
        let Made { unfinished, mut record, .. } = made;
        record.at = session.at_checkpoint();
        record.info.state = SessionState::Suspended;
        record.names = None;
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
            session.checkpoint_taken().await;
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
            engine.audit_image(&image.record, "resumed");
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
            Ok(images) => {
                // Its kernel is asked one thing at a time.
                let place = images.hold(tenant, id).await;
                let found = self.obstacles(&session).await?;
                drop(place);
                found.into_iter().map(|it| it.text).collect()
            }
            Err(error) => vec![error.to_string()],
        };
        Ok(ImageableReply { imageable: reasons.is_empty(), reasons })
    }

    /// Removes a session that is suspended, with its checkpoints; whether there was one. `change` is what the
    /// audit log calls that.
    pub(super) async fn delete_image(&self, tenant: &str, id: &str, change: &'static str) -> bool {
        let Ok(images) = self.images() else { return false };
        let Some(removed) = images.hold(tenant, id).await.remove() else { return false };
        self.audit_image(&removed.record, change);
        images.checkpoints.end(tenant, id);
        true
    }

    /// Whether a session is suspended, or is being suspended or resumed.
    pub(super) fn has_image(&self, tenant: &str, id: &str) -> bool {
        let images = self.inner.host.images.as_ref();
        images.is_ok_and(|images| images.record(tenant, id).is_some())
    }

    /// Whether a suspended session of the tenant has this home or volume.
    pub(super) fn sleeper_has(&self, tenant: &str, key: &StoreKey) -> bool {
        let Ok(images) = &self.inner.host.images else { return false };
        !images.page(tenant, "", 1, |record| record.has(key)).is_empty()
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
