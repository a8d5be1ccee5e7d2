//! A session that is made, and becomes what an image is of.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Instant;

use tokio::task::spawn_blocking;
use vivarium_api_types::{MAIN_CONTEXT, SessionSpec};
use vivarium_audit::Hash;
use vivarium_protocol::error_chain;
use vivarium_protocol::message::ImageStep;
use vivarium_protocol::outcome::Cause;

use super::super::{Engine, EngineError};
use super::blocked;
use super::transfer::{WITHIN, failed, over, pipe};
use crate::images::bases::{BaseError, Differences};
use crate::images::{Image, Images, Record, stream};
use crate::session::{Command, Session, whole_millis};
use crate::template::memory::TemplateMemory;

impl Engine {
    /// Makes a session of this specification, and has it become what an image is of. It can be seen, and
    /// nothing begins in it.
    pub(super) async fn wake(
        &self,
        images: &Arc<Images>,
        image: &Image,
        mut spec: SessionSpec,
    ) -> Result<Arc<Session>, EngineError> {
        let Record { info, executions, .. } = &*image.record;
        // It was asked for under another configuration, perhaps.
        let longest = whole_millis(self.settings().session.idle_timeout);
        spec.idle_timeout_ms = spec.idle_timeout_ms.map(|asked| asked.min(longest));
        let template = self.earlier_template(images, &image.record).await?;
        let ahead = image.clone();
        let ahead = spawn_blocking(|| ahead.read_ahead());
        let session = self
            .add_suspended(&info.tenant, spec, template)
            .await?
            .map_err(|existing| EngineError::Conflict(existing.identity.id.clone()))?;
        if session.identity.id == info.id {
            session.continues(info);
        }
        let filled = async {
            session.started().await.map_err(EngineError::NotStarted)?;
            let memory = session.template_memory().ok_or_else(|| {
                let why = "its environment has no template now, which the log explains";
                EngineError::Image(format!("the session cannot be resumed: {why}"))
            })?;
            let image = blocked(ahead.await)?.map_err(failed)?;
            self.load(images, &image, &session, memory).await?;
            let counted = session.ask(|reply| Command::CountFrom(*executions, reply)).await;
            counted.map(drop).ok_or_else(|| over(&session))
        };
        let filled = filled.await;
        self.inner.host.metrics.images.resumed(filled.is_ok());
        match filled {
            Ok(()) => {
                if session.identity.id == info.id {
                    session.is_at_checkpoint(image.record.at);
                }
                Ok(session)
            }
            Err(error) => {
                let why = error_chain(&error);
                tracing::warn!(session = info.id, error = why, "an image that was not resumed");
                session.close(Cause::Suspended).await;
                Err(error)
            }
        }
    }

    /// Has each kernel of a session become what the image has of its context: that of `main` first, which brings the
    /// files.
    async fn load(
        &self,
        images: &Arc<Images>,
        image: &Image,
        session: &Arc<Session>,
        memory: &Arc<TemplateMemory>,
    ) -> Result<(), EngineError> {
        let (differences, to) = self.differences(images, image, session, memory).await?;
        let before = [*image.record.template.as_bytes(), *to.as_bytes()].concat();
        let around = Arc::new((before, differences));
        let opened = image.clone();
        let mut reader = blocked(spawn_blocking(move || opened.open()).await)?.map_err(failed)?;
        let all = [(MAIN_CONTEXT.to_owned(), u64::MAX)];
        let contexts = &image.record.contexts;
        for (name, bytes) in if contexts.is_empty() { &all[..] } else { contexts } {
            let context = (name != MAIN_CONTEXT).then(|| name.clone());
            if let Some(new) = context.clone() {
                let open = |reply| Command::OpenContext { name: new, reply };
                let opened = session.ask(open).await;
                if let Err(refusal) = opened.ok_or_else(|| over(session))? {
                    return Err(cannot(format!("its context {name:?}: {refusal}")));
                }
            }
            let (bytes, until) = (*bytes, Instant::now() + WITHIN);
            let (around, (read, write)) = (Arc::clone(&around), pipe()?);
            let sent = spawn_blocking(move || {
                let (before, differences) = &*around;
                let mut kernel = reader.take(bytes);
                let mut all = before.chain(&mut kernel).chain(differences.as_slice());
                stream::send(&mut all, write, until)?;
                // What it did not want of it.
                if bytes < u64::MAX {
                    io::copy(&mut kernel, &mut io::sink())?;
                }
                Ok(kernel.into_inner())
            });
            let answer = self.ask_kernel(session, context, ImageStep::Load, Some(read)).await;
            let sent = blocked(sent.await)?;
            let lost: Vec<_> = answer?.obstacles.into_iter().map(|(_, text)| text).collect();
            reader = sent.map_err(failed)?;
            if !lost.is_empty() {
                return Err(cannot(lost.join("; ")));
            }
        }
        Ok(())
    }

    /// What of its template's memory differs from that of the one that the image was taken under, and which it is.
    pub(super) async fn differences(
        &self,
        images: &Arc<Images>,
        image: &Image,
        session: &Session,
        memory: &Arc<TemplateMemory>,
    ) -> Result<(Differences, Hash), EngineError> {
        let (images, memory) = (Arc::clone(images), Arc::clone(memory));
        let (environment, from) = (session.identity.environment.clone(), image.record.template);
        let comparing = spawn_blocking(move || {
            let differences = images.bases.differences(&environment, &from, &memory)?;
            Ok::<_, BaseError>((differences, memory.fingerprint()?))
        });
        blocked(comparing.await)?.map_err(cannot)
    }
}

pub(super) fn cannot(why: impl std::fmt::Display) -> EngineError {
    EngineError::Image(format!("the session cannot be resumed: {why}"))
}
