//! A session's kernel, written to an image and read from one.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use uuid::Uuid;
use vivarium_api_types::SessionSpec;
use vivarium_audit::Hash;
use vivarium_metrics::families::images::ObstacleKind;
use vivarium_protocol::error_chain;
use vivarium_protocol::message::{Description, ImageStep};
use vivarium_protocol::outcome::Cause;

use super::super::execute::ResponseMode;
use super::super::{Engine, EngineError, assist};
use super::blocked;
use crate::images::bases::{BaseError, Differences};
use crate::images::stream::{self, Bounds, ReceiveError, Received};
use crate::images::{Image, Images, KnownParts, Obstacle, Record, Unfinished};
use crate::session::{Command, Session, WorkSpec, whole_millis};
use crate::template::memory::TemplateMemory;

/// How long a kernel may take to write an image or to read it.
const WITHIN: Duration = Duration::from_secs(120);

/// How long a session that is resumed waits for its environment's template.
const TEMPLATE_WITHIN: Duration = Duration::from_secs(60);

/// What an image may have beside memory and files: tables, names, and the pages of files that were changed.
const OVERHEAD_BYTES: u64 = 64 << 20;

/// What a kernel says of its image.
#[derive(Debug, Deserialize)]
struct Answer {
    /// What is in the way, by kind and text; of a kernel that has become another, what it lost.
    obstacles: Vec<(String, String)>,
}

impl Answer {
    fn obstacles(self) -> Vec<Obstacle> {
        let known =
            |(kind, text): (String, _)| Obstacle { kind: ObstacleKind::from(kind.as_str()), text };
        self.obstacles.into_iter().map(known).collect()
    }
}

/// An image that is on disk, and in no place yet.
pub(super) struct Made {
    pub(super) unfinished: Unfinished,
    pub(super) record: Record,
    /// For the next one.
    pub(super) known: KnownParts,
}

impl Engine {
    /// Makes the image of a session in which nothing begins any more: whole, or of parts that the image before has
    /// not. `written` is called once its kernel has forked, with the image's name unless that failed, and what it does
    /// from then on is no part of the image; of one of parts once all of it is here, as whoever writes it may end
    /// with what its kernel does next.
    pub(super) async fn make_image(
        &self,
        images: &Arc<Images>,
        session: &Arc<Session>,
        before: Option<KnownParts>,
        written: impl FnOnce(Option<Uuid>),
    ) -> Result<Made, EngineError> {
        let tenant = session.identity.tenant.as_str();
        if before.is_none() {
            session.transfers_idle().await;
        } else if session.is_transferring() {
            // Nobody is to wait for a client that reads slowly, but for who asked for the image.
            let text = "files of it are being transferred".to_owned();
            return Err(EngineError::NotImageable(vec![Obstacle {
                kind: ObstacleKind::Files,
                text,
            }]));
        }
        let Some(memory) = session.template_memory() else {
            return Err(EngineError::NotImageable(vec![executed()]));
        };
        // Its kernel looks itself before it writes. What it had written an image by may not be collected yet.
        if !self.obstacles_outside(session).await?.is_empty() {
            let obstacles = self.obstacles(session).await?;
            if !obstacles.is_empty() {
                return Err(EngineError::NotImageable(obstacles));
            }
        }
        let executions = session.ask(|reply| Command::CountFrom(0, reply)).await;
        let executions = executions.ok_or_else(|| over(session))?;
        let spec = session.spec(&self.settings_of(tenant));
        let info = self.info(session);
        let file_bytes = self.image_room(images, tenant)?;
        let unfinished = images.begin(tenant).map_err(failed)?;
        let (file, image) = (unfinished.create().map_err(failed)?, unfinished.id());
        let (read, write) = pipe()?;
        let limits = session.limits();
        let most = [limits.max_memory_mb, limits.max_disk_mb].into_iter().fold(
            OVERHEAD_BYTES,
            |sum, limit| {
                let bytes = limit.get().map_or(u64::MAX, |mb| mb.saturating_mul(1 << 20));
                sum.saturating_add(bytes)
            },
        );
        let bounds = Bounds { bytes: most, file_bytes, until: Instant::now() + WITHIN };
        let (at_end, end) = oneshot::channel();
        let is_of_parts = before.is_some();
        let received =
            spawn_blocking(move || stream::receive(read, file, bounds, before.as_ref(), at_end));
        let answer = self.ask_kernel(session, ImageStep::Save, Some(write)).await;
        if is_of_parts && end.await.is_err() {
            tracing::debug!("an image that did not come to its end");
        }
        written(answer.is_ok().then_some(image));
        let received = blocked(received.await)?;
        let obstacles = answer?.obstacles();
        let Received { template, parts } = match received {
            Err(ReceiveError::Full) => return Err(self.no_image_bytes()),
            Ok(_) | Err(ReceiveError::Cut) if !obstacles.is_empty() => {
                return Err(EngineError::NotImageable(obstacles));
            }
            // What cannot be written here breaks the kernel's pipe, which is no obstacle of its own.
            received => received.map_err(|error| failed(io::Error::other(error)))?,
        };
        let (kept, environment) = (Arc::clone(memory), session.identity.environment.clone());
        let store = Arc::clone(images);
        let keeping = spawn_blocking(move || {
            if kept.fingerprint()? != template {
                return Err(io::Error::other("its kernel speaks of another template"));
            }
            store.bases.keep(&environment, &kept)
        });
        blocked(keeping.await)?.map_err(failed)?;
        let (parts, known) = parts.unzip();
        let of = (template, parts);
        let record = Record::new(spec, info, executions, &unfinished, of).map_err(failed)?;
        Ok(Made { unfinished, record, known: known.unwrap_or_default() })
    }

    /// How many bytes a tenant's next image may have.
    pub(super) fn image_room(&self, images: &Images, tenant: &str) -> Result<u64, EngineError> {
        let settings = self.settings();
        let (count, used) = images.used_by(tenant);
        if let Some(max) = settings.images.max_per_tenant.get().filter(|max| count >= *max) {
            return Err(EngineError::ImagesFull { key: "images.max_per_tenant", max });
        }
        let max = settings.images.max_mb.get();
        Ok(max.map_or(u64::MAX, |mb| mb.saturating_mul(1 << 20).saturating_sub(used)))
    }

    pub(super) fn no_image_bytes(&self) -> EngineError {
        let max = self.settings().images.max_mb.get().unwrap_or(u64::MAX);
        EngineError::ImagesFull { key: "images.max_mb", max }
    }

    /// What keeps a session from being suspended.
    pub(super) async fn obstacles(
        &self,
        session: &Arc<Session>,
    ) -> Result<Vec<Obstacle>, EngineError> {
        session.started().await.map_err(EngineError::NotStarted)?;
        if session.template_memory().is_none() {
            return Ok(vec![executed()]);
        }
        // The kernel first: it collects the child that wrote an image before, which is counted below.
        let found = self.ask_kernel(session, ImageStep::Check, None).await?.obstacles();
        if found.is_empty() { self.obstacles_outside(session).await } else { Ok(found) }
    }

    /// The same, as far as its kernel does not know that.
    async fn obstacles_outside(&self, session: &Session) -> Result<Vec<Obstacle>, EngineError> {
        let mut obstacles = Vec::new();
        let contexts = session.ask(Command::Contexts).await.ok_or_else(|| over(session))?;
        if contexts.len() > 1 {
            let text = "it has other contexts: delete them".to_owned();
            obstacles.push(Obstacle { kind: ObstacleKind::Contexts, text });
        }
        let described = session.ask(Command::Describe).await.ok_or_else(|| over(session))?;
        let Description { processes, .. } = described;
        if processes > 1 {
            let text = format!("{} processes run beside its kernel: end them", processes - 1);
            obstacles.push(Obstacle { kind: ObstacleKind::Processes, text });
        }
        Ok(obstacles)
    }

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
        if let Ok(prepared) = self.environment(&info.environment) {
            // Without one its kernel would be executed, and could not become another.
            let settled = timeout(TEMPLATE_WITHIN, prepared.template.settled()).await;
            drop(settled);
        }
        let ahead = image.clone();
        let ahead = spawn_blocking(|| ahead.read_ahead());
        let session = self
            .add_suspended(&info.tenant, spec)
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

    async fn load(
        &self,
        images: &Arc<Images>,
        image: &Image,
        session: &Arc<Session>,
        memory: &Arc<TemplateMemory>,
    ) -> Result<(), EngineError> {
        let (differences, to) = self.differences(images, image, session, memory).await?;
        let before = [*image.record.template.as_bytes(), *to.as_bytes()].concat();
        let (image, until) = (image.clone(), Instant::now() + WITHIN);
        let (read, write) = pipe()?;
        let sent = spawn_blocking(move || {
            let all = before.chain(image.open()?).chain(differences.as_slice());
            stream::send(all, write, until)
        });
        let answer = self.ask_kernel(session, ImageStep::Load, Some(read)).await;
        let sent = blocked(sent.await)?;
        let lost: Vec<_> = answer?.obstacles.into_iter().map(|(_, text)| text).collect();
        sent.map_err(failed)?;
        if lost.is_empty() { Ok(()) } else { Err(cannot(lost.join("; "))) }
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

    async fn ask_kernel(
        &self,
        session: &Arc<Session>,
        step: ImageStep,
        descriptor: Option<OwnedFd>,
    ) -> Result<Answer, EngineError> {
        let spec = WorkSpec::image(step, WITHIN, descriptor);
        let handle =
            self.hand_over(session, (spec, None), ResponseMode::Outcome, false, None).await?;
        let outcome = handle.outcome().await?;
        assist::answer_of(&session.identity.id, &outcome)
    }
}

fn executed() -> Obstacle {
    let text =
        "its kernel was not forked from a template that allows images (environments.NAME.images, and the \
                mounts layer)".to_owned();
    Obstacle { kind: ObstacleKind::Executed, text }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), EngineError> {
    pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))
}

pub(super) fn failed(error: io::Error) -> EngineError {
    EngineError::Image(format!("the image could not be written or read: {error}"))
}

fn cannot(why: impl std::fmt::Display) -> EngineError {
    EngineError::Image(format!("the session cannot be resumed: {why}"))
}

fn over(session: &Session) -> EngineError {
    EngineError::UnknownSession(session.identity.id.clone())
}
