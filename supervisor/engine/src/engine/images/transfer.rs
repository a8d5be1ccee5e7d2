//! A session's kernels, written to an image.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vivarium_api_types::{ContextInfo, MAIN_CONTEXT, SessionState};
use vivarium_metrics::families::images::ObstacleKind;
use vivarium_protocol::message::ImageStep;

use super::super::execute::ResponseMode;
use super::super::{Engine, EngineError, assist};
use super::blocked;
use crate::images::names::{Name, Names};
use crate::images::stream::{self, Bounds, ReceiveError, Received};
use crate::images::{Content, Images, KnownParts, Obstacle, Record, Unfinished};
use crate::session::{Command, Session, WorkSpec};

/// How long a kernel may take to write an image or to read it.
pub(super) const WITHIN: Duration = Duration::from_secs(120);

/// What an image may have beside memory and files: tables, names, and the pages of files that were changed.
const OVERHEAD_BYTES: u64 = 64 << 20;

/// What a kernel says of its image.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    /// What is in the way, by kind and text; of a kernel that has become another, what it lost.
    pub(super) obstacles: Vec<(String, String)>,
    /// Of one that was saved, its variables.
    #[serde(default)]
    names: Vec<Name>,
    #[serde(default)]
    names_more: bool,
}

impl Answer {
    /// The same of a context that is not `main`.
    fn of_context(mut self, name: &str) -> Self {
        for (_, text) in &mut self.obstacles {
            *text = format!("its context {name:?}: {text}");
        }
        self
    }

    /// Its variables, which the answer has no more then.
    fn take_names(&mut self) -> Names {
        Names::checked(std::mem::take(&mut self.names), self.names_more)
    }

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
        self.needs_cpython(&session.identity.environment, "images are")?;
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
        let others = self.idle_contexts(session).await?;
        // Its kernels look themselves before they write.
        if !self.obstacles_outside(session, 1 + others.len()).await?.is_empty() {
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
        let pipes = (0..=others.len()).map(|_| pipe());
        let (read, write) = pipes.collect::<Result<(Vec<_>, Vec<_>), _>>()?;
        let limits = session.limits();
        let most = [limits.max_memory_mb, limits.max_disk_mb].into_iter().fold(
            OVERHEAD_BYTES.saturating_mul(1 + others.len() as u64),
            |sum, limit| {
                let bytes = limit.get().map_or(u64::MAX, |mb| mb.saturating_mul(1 << 20));
                sum.saturating_add(bytes)
            },
        );
        let bounds = Bounds { bytes: most, file_bytes, until: Instant::now() + WITHIN };
        let (at_end, end) = oneshot::channel();
        let is_of_parts = before.is_some();
        let ahead = Arc::clone(&images.ahead).try_acquire_owned().ok().filter(|_| is_of_parts);
        let received = spawn_blocking(move || {
            stream::receive(read, file, bounds, before.as_ref(), ahead, at_end)
        });
        let answer = self.save_kernels(session, &others, write).await;
        if is_of_parts && end.await.is_err() {
            tracing::debug!("an image that did not come to its end");
        }
        let is_written = answer.as_ref().is_ok_and(|answer| answer.obstacles.is_empty());
        written(is_written.then_some(image));
        let received = blocked(received.await)?;
        let mut answer = answer?;
        let (names, obstacles) = (answer.take_names(), answer.obstacles());
        let Received { template, lengths, parts } = match received {
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
        let contexts = if others.is_empty() {
            Vec::new()
        } else {
            [MAIN_CONTEXT.to_owned()].into_iter().chain(others).zip(lengths).collect()
        };
        let of = Content { template, programs: memory.programs(), parts, contexts, names };
        let record = Record::new(spec, info, executions, &unfinished, of).map_err(failed)?;
        Ok(Made { unfinished, record, known: known.unwrap_or_default() })
    }

    /// Has each kernel of a session write what it is: that of `main` first, with the files.
    async fn save_kernels(
        &self,
        session: &Arc<Session>,
        others: &[String],
        pipes: Vec<OwnedFd>,
    ) -> Result<Answer, EngineError> {
        let mut pipes = pipes.into_iter();
        let mut answer = self.ask_kernel(session, None, ImageStep::Save, pipes.next()).await?;
        for (name, pipe) in others.iter().zip(pipes) {
            if !answer.obstacles.is_empty() {
                break;
            }
            let (context, step) = (Some(name.clone()), ImageStep::SaveMemory);
            let of_context = self.ask_kernel(session, context, step, Some(pipe)).await?;
            answer.obstacles = of_context.of_context(name).obstacles;
        }
        Ok(answer)
    }

    /// The contexts of a session beside `main`, unless one of all runs something.
    async fn idle_contexts(&self, session: &Arc<Session>) -> Result<Vec<String>, EngineError> {
        let contexts = session.ask(Command::Contexts).await.ok_or_else(|| over(session))?;
        let is_busy = |context: &ContextInfo| {
            // What waits for a checkpoint does not keep that from being made.
            let has_turn = context.queued > 0 && !session.is_taking_checkpoint();
            context.state != SessionState::Idle || has_turn
        };
        if contexts.iter().any(is_busy) {
            return Err(EngineError::Busy);
        }
        let names = contexts.into_iter().map(|context| context.id);
        Ok(names.filter(|name| name != MAIN_CONTEXT).collect())
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
        // The kernels first: they wait for the children that wrote an image before, which are counted below.
        let mut found = self.ask_kernel(session, None, ImageStep::Check, None).await?.obstacles();
        let others = self.idle_contexts(session).await?;
        for name in &others {
            let asked =
                self.ask_kernel(session, Some(name.clone()), ImageStep::Check, None).await?;
            found.extend(asked.of_context(name).obstacles());
        }
        if found.is_empty() {
            self.obstacles_outside(session, 1 + others.len()).await
        } else {
            Ok(found)
        }
    }

    /// The same, as far as its kernels, which are so many, do not know that.
    async fn obstacles_outside(
        &self,
        session: &Session,
        kernels: usize,
    ) -> Result<Vec<Obstacle>, EngineError> {
        let processes = session.ask(Command::CountProcesses).await.ok_or_else(|| over(session))?;
        let beside = usize::try_from(processes).unwrap_or(usize::MAX).saturating_sub(kernels);
        if beside == 0 {
            return Ok(Vec::new());
        }
        let text = format!("{beside} processes run beside its kernel: end them");
        Ok(vec![Obstacle { kind: ObstacleKind::Processes, text }])
    }

    pub(super) async fn ask_kernel(
        &self,
        session: &Arc<Session>,
        context: Option<String>,
        step: ImageStep,
        descriptor: Option<OwnedFd>,
    ) -> Result<Answer, EngineError> {
        let spec = WorkSpec::image(step, context, WITHIN, descriptor);
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

pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), EngineError> {
    pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))
}

pub(super) fn failed(error: io::Error) -> EngineError {
    EngineError::Image(format!("the image could not be written or read: {error}"))
}

pub(super) fn over(session: &Session) -> EngineError {
    EngineError::UnknownSession(session.identity.id.clone())
}
