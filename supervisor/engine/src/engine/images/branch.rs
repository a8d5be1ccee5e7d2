//! Sessions that are made from the state of another.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use vivarium_api_types::{BranchRequest, MAX_BRANCHES, SessionInfo, SessionSpec};
use vivarium_protocol::outcome::Cause;

use super::super::{Engine, EngineError};
use super::checkpoints::known;
use super::transfer::failed;
use super::{AT_ONCE, blocked, finished};
use crate::images::{Image, Images};

impl Engine {
    /// Makes sessions from the state of one, or of a checkpoint of it; it goes on. All of them, or none.
    pub async fn branch(
        &self,
        tenant: &str,
        id: &str,
        BranchRequest { count, checkpoint }: BranchRequest,
    ) -> Result<Vec<SessionInfo>, EngineError> {
        if !(1..=MAX_BRANCHES).contains(&count) {
            let reason = format!("give a whole number from 1 to {MAX_BRANCHES}, not {count}");
            return Err(EngineError::invalid("count", reason));
        }
        self.check_admits(tenant)?;
        self.exists(tenant, id)?;
        let images = self.images()?;
        let (engine, owner, id) = (self.clone(), tenant.to_owned(), id.to_owned());
        finished(async move {
            if let Some(name) = checkpoint {
                engine.checkpoints_kept(&owner, &id).await;
                let image = known(&images, &owner, &id, &name)?;
                return engine.make_branches(&images, &image, count).await;
            }
            let place = engine.settled_place(&images, &owner, &id).await;
            if let Some(image) = place.image() {
                return engine.make_branches(&images, image, count).await;
            }
            let (unfinished, record) =
                engine.image_of_awake(&images, (&owner, &id), place, false).await?;
            engine.make_branches(&images, &unfinished.image(record), count).await
        })
        .await
    }

    async fn make_branches(
        &self,
        images: &Arc<Images>,
        image: &Image,
        count: u32,
    ) -> Result<Vec<SessionInfo>, EngineError> {
        let spec = SessionSpec { id: None, ..image.record.spec.clone() };
        let image = image.clone();
        let reading = spawn_blocking(|| image.read_ahead());
        let image = blocked(reading.await)?.map_err(failed)?;
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut making = JoinSet::new();
        for _ in 0..count {
            let (engine, images, image) = (self.clone(), Arc::clone(images), image.clone());
            let (turns, spec) = (Arc::clone(&turns), spec.clone());
            making.spawn(async move {
                let Ok(turn) = turns.acquire().await else {
                    return Ok(None); // Another could not be made.
                };
                let session = engine.wake(&images, &image, spec).await?;
                engine.audit_image_for(&session.identity.id, &image.record, "branched");
                session.end_suspension();
                drop(turn);
                Ok(Some(session))
            });
        }
        let (mut sessions, mut failed) = (Vec::new(), None);
        while let Some(made) = making.join_next().await {
            match blocked(made).and_then(|made| made) {
                Ok(session) => sessions.extend(session),
                Err(error) => {
                    turns.close();
                    failed.get_or_insert(error);
                }
            }
        }
        let Some(error) = failed else {
            return Ok(sessions.iter().map(|session| self.info(session)).collect());
        };
        for session in sessions {
            session.close(Cause::Deleted).await;
        }
        Err(error)
    }
}
