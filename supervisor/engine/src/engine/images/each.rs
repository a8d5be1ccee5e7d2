//! Checkpoints after executions, and sessions that roll back by themselves.
//!
//! What an execution left is taken before the next begins: the session is held until its kernel has written it. It goes
//! to disk while the session goes on. An execution that lost the state is answered when that is back.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::task::spawn_blocking;
use vivarium_api_types::CheckpointMode;
use vivarium_protocol::outcome::State;

use super::super::{Engine, EngineError};
use super::transfer::{Made, failed};
use super::{Still, blocked};
use crate::images::{Images, KnownParts};
use crate::session::{LostState, Making, Session};

const PREFIX: &str = "after-";

/// Whether this is the name of a checkpoint after an execution.
pub(super) fn is_automatic(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|number| number.parse::<u64>().is_ok())
}

impl Engine {
    /// Makes a session's checkpoints after executions, and rolls it back, if it is to have that.
    pub(in crate::engine) fn tend_checkpoints(&self, session: &Arc<Session>) {
        let Ok(images) = self.images() else { return };
        if session.checkpoint_mode() == CheckpointMode::Each {
            let (engine, images) = (self.clone(), Arc::clone(&images));
            let (mut progress, making) =
                (session.checkpoint_progress(), session.has_checkpoints_made());
            let session = Arc::downgrade(session);
            tokio::spawn(async move {
                let mut known = KnownParts::default();
                while progress.wait_for(|progress| progress.is_due()).await.is_ok() {
                    let Some(session) = Weak::upgrade(&session) else { return };
                    let made = engine.make_due_checkpoint(&images, &session, &mut known).await;
                    if let Err(error) = made {
                        let id = &session.identity.id;
                        tracing::info!(session = id, %error, "no checkpoint after an execution");
                    }
                }
                drop(making);
            });
        }
        if session.rolls_back_by_itself() {
            let (engine, mut lost) = (self.clone(), session.rolls_back());
            tokio::spawn(async move {
                while let Some(lost) = lost.recv().await {
                    engine.bring_back(&images, lost).await;
                }
            });
        }
    }

    async fn make_due_checkpoint(
        &self,
        images: &Arc<Images>,
        session: &Arc<Session>,
        known: &mut KnownParts,
    ) -> Result<(), EngineError> {
        let mut making = Making::new(session);
        let (tenant, id) = (&*session.identity.tenant, &*session.identity.id);
        let place = images.hold(tenant, id).await;
        let after = making.ask();
        if session.is_closed() || !session.stand_still().await {
            return Ok(());
        }
        let still = Still { session: Arc::clone(session), _place: place };
        // Its like has room. The last one stays until there is another.
        let last = images.checkpoints.list(tenant, id).pop();
        let room = last.map_or(0, |record| record.size_bytes);
        let has_room =
            |count| count <= 1 || self.image_room(images, tenant).is_ok_and(|left| left >= room);
        self.remove_oldest_until(images, (tenant, id), has_room).await?;
        let mut before = std::mem::take(known);
        if !images.checkpoints.has_files(tenant, id, &before) {
            before = KnownParts::default();
        }
        let before = Some(before);
        let made = self.make_image(images, session, before, |image| {
            session.is_at_checkpoint(image);
            drop(still);
            making.taken();
        });
        let made = made.await;
        if let Err(EngineError::NotImageable(obstacles)) = &made {
            let kinds = obstacles.iter().map(|obstacle| obstacle.kind);
            self.inner.host.metrics.images.refused(kinds);
        }
        let Made { unfinished, record, known: of_this } = made?;
        let record = record.after(after, format!("{PREFIX}{after}"));
        // Its place is free by now: another session may have its id.
        let same = |now: Arc<Session>| Arc::ptr_eq(&now, session);
        if !self.inner.registry.get(tenant, id).map_or(self.has_image(tenant, id), same) {
            return Ok(());
        }
        let (store, owner, of) = (Arc::clone(images), tenant.to_owned(), id.to_owned());
        let ending = Arc::clone(session);
        let keeping = spawn_blocking(move || {
            let kept = store.checkpoints.keep((&owner, &of), unfinished, record)?;
            // Whoever suspends it has not seen this one, perhaps.
            if ending.is_asleep() || ending.is_closed() {
                store.checkpoints.sync(&owner, &of)?;
            }
            Ok(kept)
        });
        if let Some(record) = blocked(keeping.await)?.map_err(failed)? {
            self.audit_image(&record, "checkpointed");
            *known = of_this;
        }
        let most = self.settings().images.checkpoints_kept.get().unwrap_or(u64::MAX);
        self.remove_oldest_until(images, (tenant, id), |count| count <= most).await
    }

    /// Removes a session's oldest checkpoints after executions, until the number of those that are left will do.
    async fn remove_oldest_until(
        &self,
        images: &Arc<Images>,
        (tenant, id): (&str, &str),
        will_do: impl Fn(u64) -> bool,
    ) -> Result<(), EngineError> {
        let all = images.checkpoints.list(tenant, id);
        let names = all.iter().filter_map(|record| record.name.clone());
        let mut automatic: VecDeque<_> = names.filter(|name| is_automatic(name)).collect();
        while !will_do(automatic.len() as u64)
            && let Some(name) = automatic.pop_front()
        {
            let (store, owner, of) = (Arc::clone(images), tenant.to_owned(), id.to_owned());
            let removing = spawn_blocking(move || store.checkpoints.remove(&owner, &of, &name));
            blocked(removing.await)?.map_err(failed)?;
        }
        Ok(())
    }

    /// Rolls a session back whose state an execution has lost, and answers that. What was preserved is what the session
    /// was when that began.
    async fn bring_back(&self, images: &Images, lost: LostState) {
        let LostState { before, mut outcome, publishing } = lost;
        let session = Arc::clone(publishing.session());
        let (tenant, id) = (&*session.identity.tenant, &*session.identity.id);
        let undoing = session.undoing();
        session.checkpoints_kept().await;
        let mut all = images.checkpoints.list(tenant, id);
        let exact = all.iter().position(|record| Some(record.image) == before);
        let checkpoint = exact.map(|at| all.swap_remove(at)).or_else(|| all.pop());
        let detail = match checkpoint.and_then(|record| record.name.clone()) {
            None => "it has no checkpoint to go back to".to_owned(),
            Some(name) => {
                let back = self.roll_back(tenant, id, name.clone(), Some(Arc::clone(&session)));
                match back.await {
                    Ok(_) if exact.is_some() => {
                        (outcome.state, outcome.rolled_back) = (State::Preserved, true);
                        format!("the session was rolled back to {name:?}")
                    }
                    Ok(_) => {
                        outcome.rolled_back = true;
                        format!(
                            "the session was rolled back to {name:?}, and what came after is lost"
                        )
                    }
                    Err(error) => format!("it was not rolled back: {error}"),
                }
            }
        };
        drop(undoing);
        outcome.detail = format!("{}; {detail}", outcome.detail);
        publishing.publish(outcome);
    }
}
