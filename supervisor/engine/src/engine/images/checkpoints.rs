//! Checkpoints of a session, and going back to one.

use std::io;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use vivarium_api_types::{
    Checkpoint, CheckpointMode, CheckpointRequest, RollbackRequest, SessionInfo, SessionState,
};
use vivarium_protocol::outcome::Cause;

use super::super::request::is_valid_id;
use super::super::{Engine, EngineError};
use super::each::is_automatic;
use super::transfer::failed;
use super::{Still, blocked, finished};
use crate::images::{Image, Images, Place, Record, Unfinished};
use crate::session::{Command, Session};

impl Engine {
    /// Keeps what a session is now, to go back to. It goes on.
    pub async fn make_checkpoint(
        &self,
        tenant: &str,
        id: &str,
        CheckpointRequest { name }: CheckpointRequest,
    ) -> Result<Checkpoint, EngineError> {
        if name.as_deref().is_some_and(|name| !is_valid_id(name)) {
            let reason = "a name is 1 to 64 of A-Z, a-z, 0-9, '_' and '-'";
            return Err(EngineError::invalid("name", reason));
        }
        if name.as_deref().is_some_and(is_automatic) {
            let reason = "names of after- and a number are those of checkpoints after executions";
            return Err(EngineError::invalid("name", reason));
        }
        self.check_admits(tenant)?;
        self.exists(tenant, id)?;
        let images = self.images()?;
        let (engine, owner, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        finished(async move {
            let place = engine.settled_place(&images, &owner, &id).await;
            if engine.checkpoint_mode(&owner, &id, &place) == CheckpointMode::Off {
                return Err(EngineError::CheckpointsOff);
            }
            let name = name.unwrap_or_else(|| unused_name(&images, &owner, &id));
            if images.checkpoints.get(&owner, &id, &name).is_some() {
                return Err(EngineError::CheckpointExists(name));
            }
            let (unfinished, record) = match place.image() {
                Some(image) => {
                    engine.image_room(&images, &owner)?;
                    images.begin_with(&owner, image).map_err(failed)?
                }
                None => engine.image_of_awake(&images, (&owner, &id), place, true).await?,
            };
            let record = record.named(name.clone());
            // The session's place is free by now: it may have ended, and another have been as fast.
            engine.exists(&owner, &id)?;
            let keeping =
                spawn_blocking(move || images.checkpoints.keep((&owner, &id), unfinished, record));
            let kept = blocked(keeping.await)?.map_err(failed)?;
            let record = kept.ok_or(EngineError::CheckpointExists(name))?;
            engine.audit_image(&record, "checkpointed");
            Ok(described(&record))
        })
        .await
    }

    /// Those of a session, the oldest first.
    pub async fn checkpoints(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<Vec<Checkpoint>, EngineError> {
        self.exists(tenant, id)?;
        self.checkpoints_kept(tenant, id).await;
        let Ok(images) = self.images() else { return Ok(Vec::new()) };
        Ok(images.checkpoints.list(tenant, id).iter().map(|record| described(record)).collect())
    }

    pub async fn delete_checkpoint(
        &self,
        tenant: &str,
        id: &str,
        name: &str,
    ) -> Result<(), EngineError> {
        self.exists(tenant, id)?;
        self.checkpoints_kept(tenant, id).await;
        let images = self.images()?;
        let (owner, session, of) = (tenant.to_owned(), id.to_owned(), name.to_owned());
        let removing = spawn_blocking(move || images.checkpoints.remove(&owner, &session, &of));
        let removed = blocked(removing.await)?.map_err(failed)?;
        let record = removed.ok_or_else(|| EngineError::UnknownCheckpoint(name.to_owned()))?;
        self.audit_image(&record, "deleted");
        Ok(())
    }

    /// Has a session be what it was at a checkpoint. What runs in it ends. Until it is that, it is what it was;
    /// if its kernel cannot be made then, it is suspended as what it was at the checkpoint.
    pub async fn rollback(
        &self,
        tenant: &str,
        id: &str,
        RollbackRequest { checkpoint }: RollbackRequest,
    ) -> Result<SessionInfo, EngineError> {
        self.roll_back(tenant, id, checkpoint, None).await
    }

    /// The same, only if the session is awake and still this one.
    pub(super) async fn roll_back(
        &self,
        tenant: &str,
        id: &str,
        checkpoint: String,
        only: Option<Arc<Session>>,
    ) -> Result<SessionInfo, EngineError> {
        self.check_admits(tenant)?;
        self.exists(tenant, id)?;
        let images = self.images()?;
        let (engine, owner, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        finished(async move {
            let mut place = engine.settled_place(&images, &owner, &id).await;
            if let Some(only) = only {
                let now = engine.inner.registry.get(&owner, &id);
                if place.image().is_some() || !now.is_some_and(|now| Arc::ptr_eq(&now, &only)) {
                    return Err(EngineError::UnknownSession(id));
                }
            }
            let image = known(&images, &owner, &id, &checkpoint)?;
            let session = match place.image() {
                Some(present) => {
                    let Record { spec, info, executions, .. } = &*present.record;
                    let record = image.record.put_back(
                        image.record.image,
                        spec.clone(),
                        info.clone(),
                        *executions,
                    );
                    let session = engine.wake(&images, &image.with(record), spec.clone()).await?;
                    engine.audit_image(&image.record, "rolled_back");
                    session
                }
                None => {
                    let present = engine.put_back(&images, &image, (&owner, &id)).await?;
                    engine.audit_image(&image.record, "rolled_back");
                    let spec = present.record.spec.clone();
                    place.put(present.clone());
                    engine.wake(&images, &present, spec).await?
                }
            };
            place.remove();
            session.end_suspension();
            Ok(engine.info(&session))
        })
        .await
    }

    /// Ends a session that is awake, and puts what it was at a checkpoint in its place, as if it had been suspended
    /// then.
    async fn put_back(
        &self,
        images: &Arc<Images>,
        checkpoint: &Image,
        (tenant, id): (&str, &str),
    ) -> Result<Image, EngineError> {
        let Some(session) = self.inner.registry.get(tenant, id) else {
            return Err(EngineError::UnknownSession(id.to_owned()));
        };
        session.started().await.map_err(EngineError::NotStarted)?;
        if let Some(memory) = session.template_memory() {
            // Nothing is given up for what could not be resumed.
            self.differences(images, checkpoint, &session, memory).await?;
        }
        if !session.stand_still().await {
            return Err(EngineError::Suspended(id.to_owned()));
        }
        let kept = self.keep_in_place(images, checkpoint, &session).await;
        match &kept {
            Ok(_) => session.close(Cause::Suspended).await,
            Err(_) => session.end_suspension(),
        }
        kept
    }

    async fn keep_in_place(
        &self,
        images: &Arc<Images>,
        checkpoint: &Image,
        session: &Arc<Session>,
    ) -> Result<Image, EngineError> {
        let tenant = &session.identity.tenant;
        let executions = session.ask(|reply| Command::CountFrom(0, reply)).await;
        let executions =
            executions.ok_or_else(|| EngineError::UnknownSession(session.identity.id.clone()))?;
        let spec = session.spec(&self.settings_of(tenant));
        let info = SessionInfo { state: SessionState::Suspended, ..self.info(session) };
        let (images, checkpoint) = (Arc::clone(images), checkpoint.clone());
        let session = Arc::clone(session);
        let keeping = spawn_blocking(move || {
            let place = (&*session.identity.tenant, &*session.identity.id);
            // Nothing is given up for what is not genuine to its end.
            io::copy(&mut checkpoint.open()?, &mut io::sink())?;
            let (unfinished, record) = images.begin_with(place.0, &checkpoint)?;
            let record = record.put_back(checkpoint.record.image, spec, info, executions);
            images.keep(place, unfinished, record)
        });
        blocked(keeping.await)?.map_err(failed)
    }

    /// Makes the image of a session that is awake and goes on, as a checkpoint or for a while only.
    pub(super) async fn image_of_awake(
        &self,
        images: &Arc<Images>,
        (tenant, id): (&str, &str),
        place: Place,
        is_checkpoint: bool,
    ) -> Result<(Unfinished, Record), EngineError> {
        let Some(session) = self.inner.registry.get(tenant, id) else {
            return Err(EngineError::UnknownSession(id.to_owned()));
        };
        session.started().await.map_err(EngineError::NotStarted)?;
        session.touch();
        if !session.stand_still().await {
            return Err(EngineError::Suspended(id.to_owned()));
        }
        let still = Still { session: Arc::clone(&session), _place: place };
        let made = self.make_image(images, &session, None, move |image| {
            if is_checkpoint && image.is_some() {
                still.session.is_at_checkpoint(image);
            }
            drop(still);
        });
        let made = made.await?;
        Ok((made.unfinished, made.record))
    }

    /// Waits until a session makes no checkpoint by itself.
    pub(super) async fn checkpoints_kept(&self, tenant: &str, id: &str) {
        if let Some(session) = self.inner.registry.get(tenant, id) {
            session.checkpoints_kept().await;
        }
    }

    /// A session's place, once it makes no checkpoint by itself.
    pub(super) async fn settled_place(
        &self,
        images: &Arc<Images>,
        tenant: &str,
        id: &str,
    ) -> Place {
        self.checkpoints_kept(tenant, id).await;
        images.hold(tenant, id).await
    }

    fn checkpoint_mode(&self, tenant: &str, id: &str, place: &Place) -> CheckpointMode {
        let Some(image) = place.image() else {
            let session = self.inner.registry.get(tenant, id);
            return session.map_or(CheckpointMode::Named, |session| session.checkpoint_mode());
        };
        image.record.spec.checkpoint.unwrap_or(self.settings().images.checkpoint)
    }

    /// Whether there is this session, suspended or not.
    pub(super) fn exists(&self, tenant: &str, id: &str) -> Result<(), EngineError> {
        match self.find(tenant, id) {
            Ok(_) | Err(EngineError::Suspended(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A checkpoint of a session.
pub(super) fn known(
    images: &Images,
    tenant: &str,
    id: &str,
    name: &str,
) -> Result<Image, EngineError> {
    let image = images.checkpoints.get(tenant, id, name);
    image.ok_or_else(|| EngineError::UnknownCheckpoint(name.to_owned()))
}

fn unused_name(images: &Images, tenant: &str, id: &str) -> String {
    let is_unused = |name: &String| images.checkpoints.get(tenant, id, name).is_none();
    (1..).map(|number: u32| number.to_string()).find(is_unused).unwrap_or_default()
}

fn described(record: &Record) -> Checkpoint {
    Checkpoint {
        name: record.name.clone().unwrap_or_default(),
        created_at: record.suspended_at,
        size_bytes: record.size_bytes,
        executions: record.executions,
    }
}
