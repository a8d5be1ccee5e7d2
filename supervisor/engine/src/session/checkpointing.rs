//! Checkpoints that a session makes by itself, and going back to one by itself, as far as its actor knows of that:
//! nothing begins before the kernel has written the one, or while the other is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::{mpsc, watch};
use uuid::Uuid;
use vivarium_api_types::{CheckpointMode, Outcome};
use vivarium_protocol::message::ExecutionNumber;

use super::Session;
use super::actor::Publishing;

/// How far it is with them. Each number counts from the session's start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Those that are due.
    due: u64,
    /// Those that are written, so that the session goes on, or that could not be made.
    taken: u64,
    /// Those that are on disk, or that could not be made.
    kept: u64,
    /// The execution after which the last one is due.
    after: ExecutionNumber,
    /// Whether the next one's kernel is asked for it.
    is_taking: bool,
    /// Whether it is being rolled back.
    goes_back: bool,
}

impl Progress {
    /// Whether one is due.
    pub(crate) const fn is_due(&self) -> bool {
        self.kept < self.due
    }
}

/// An execution that has lost its session's state, and whose client has no answer yet.
#[derive(Debug)]
pub(crate) struct LostState {
    /// The image of the checkpoint that the session was at when it began.
    pub(crate) before: Option<Uuid>,
    pub(crate) outcome: Outcome,
    pub(crate) publishing: Publishing,
}

/// Sessions' own checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpointing {
    progress: watch::Sender<Progress>,
    /// Whether there is somebody who makes them.
    are_made: AtomicBool,
    /// The image of the checkpoint that it is at: nothing has begun in it since.
    at: Mutex<Option<Uuid>>,
    /// Takes what is to be undone, if anything is.
    lost: OnceLock<mpsc::Sender<LostState>>,
}

impl Checkpointing {
    fn lock_at(&self) -> MutexGuard<'_, Option<Uuid>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who makes a session's checkpoints after executions. Dropped, the session has none, and goes on.
pub(crate) struct MadeBySomebody(Weak<Session>);

impl Drop for MadeBySomebody {
    fn drop(&mut self) {
        if let Some(session) = self.0.upgrade() {
            session.checkpointing.are_made.store(false, Ordering::Relaxed);
            drop(Making::new(&session));
        }
    }
}

impl Session {
    /// Which checkpoints it is to have.
    pub(crate) fn checkpoint_mode(&self) -> CheckpointMode {
        let asked_for = self.spec.get().and_then(|spec| spec.checkpoint);
        let configured = self.settings().map(|settings| settings.images.checkpoint);
        asked_for.or(configured).unwrap_or_default()
    }

    /// The image of the checkpoint that it is at.
    pub(crate) fn at_checkpoint(&self) -> Option<Uuid> {
        *self.checkpointing.lock_at()
    }

    /// Notes that it is what it was at this one, or at none.
    pub(crate) fn is_at_checkpoint(&self, image: Option<Uuid>) {
        *self.checkpointing.lock_at() = image;
    }

    /// Notes that it changes from now on, and returns what it was at.
    pub(super) fn leave_checkpoint(&self) -> Option<Uuid> {
        self.checkpointing.lock_at().take()
    }

    /// Somebody makes its checkpoints after executions, until this is dropped.
    pub(crate) fn has_checkpoints_made(self: &Arc<Self>) -> MadeBySomebody {
        self.checkpointing.are_made.store(true, Ordering::Relaxed);
        MadeBySomebody(Arc::downgrade(self))
    }

    /// Follows how far it is; ends with the session.
    pub(crate) fn checkpoint_progress(&self) -> watch::Receiver<Progress> {
        self.checkpointing.progress.subscribe()
    }

    /// This execution has ended. Nothing begins until the checkpoint of what it left is taken.
    pub(super) fn checkpoint_due(&self, after: ExecutionNumber) {
        if !self.checkpointing.are_made.load(Ordering::Relaxed) || self.template_memory().is_none()
        {
            return;
        }
        self.checkpointing.progress.send_modify(|progress| {
            // What is being undone is nothing to go back to, and a command that others have outlived ends
            // after their checkpoints.
            if !progress.goes_back && after > progress.after {
                (progress.due, progress.after) = (progress.due + 1, after);
            }
        });
    }

    /// Whether nothing may begin.
    pub(super) fn is_held(&self) -> bool {
        let Progress { due, taken, goes_back, .. } = *self.checkpointing.progress.borrow();
        taken < due || goes_back
    }

    /// Waits until its kernel is asked for no checkpoint.
    pub(crate) async fn checkpoint_taken(&self) {
        self.until(|progress| !progress.is_taking).await;
    }

    /// Whether the kernel is asked for the checkpoint that everything else waits for.
    pub(crate) fn is_taking_checkpoint(&self) -> bool {
        self.checkpointing.progress.borrow().is_taking
    }

    /// Waits until the checkpoints that are due now are made.
    pub(crate) async fn checkpoints_kept(&self) {
        let due = self.checkpointing.progress.borrow().due;
        self.until(|progress| progress.kept >= due).await;
    }

    async fn until(&self, is_reached: impl FnMut(&Progress) -> bool) {
        if self.checkpoint_progress().wait_for(is_reached).await.is_err() {
            // The sender is part of `self`, and so is there.
        }
    }

    /// Whether it is to be rolled back when it loses its kernel.
    pub(crate) fn rolls_back_by_itself(&self) -> bool {
        self.spec.get().and_then(|spec| spec.auto_rollback).unwrap_or_default()
    }

    /// Has the session roll back by itself; what to undo.
    pub(crate) fn rolls_back(&self) -> mpsc::Receiver<LostState> {
        // The session is held until it is brought back.
        let (sender, receiver) = mpsc::channel(1);
        self.checkpointing.lost.get_or_init(|| sender);
        receiver
    }

    /// Gives an execution that has lost the state to who undoes that, and holds the session until then; else gives it
    /// back.
    pub(super) fn undo(&self, lost: LostState) -> Option<LostState> {
        let Some(sender) = self.checkpointing.lost.get() else { return Some(lost) };
        self.checkpointing.progress.send_modify(|progress| progress.goes_back = true);
        let refused = sender.try_send(lost).err()?;
        drop(self.undoing());
        Some(refused.into_inner())
    }

    /// What was lost is back, or stays lost, once this is dropped.
    pub(crate) const fn undoing(&self) -> Undoing<'_> {
        Undoing(self)
    }
}

pub(crate) struct Undoing<'s>(&'s Session);

impl Drop for Undoing<'_> {
    fn drop(&mut self) {
        self.0.checkpointing.progress.send_modify(|progress| progress.goes_back = false);
    }
}

/// The next checkpoint of a session. Dropped, the session goes on, and knows of none that is due.
pub(crate) struct Making<'s> {
    session: &'s Session,
    /// As many are due, once the kernel is asked.
    number: Option<u64>,
}

impl<'s> Making<'s> {
    pub(crate) const fn new(session: &'s Session) -> Self {
        Self { session, number: None }
    }

    /// The kernel is asked for it, before anything else that waits. After which execution it is.
    pub(crate) fn ask(&mut self) -> ExecutionNumber {
        let mut after = 0;
        self.session.checkpointing.progress.send_modify(|progress| {
            (progress.is_taking, after) = (true, progress.after);
            self.number = Some(progress.due);
        });
        after
    }

    /// It is written, or will not be: everything else begins again.
    pub(crate) fn taken(&self) {
        self.session.checkpointing.progress.send_modify(|progress| {
            progress.is_taking = false;
            progress.taken = self.number.unwrap_or(progress.due);
        });
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.taken();
        self.session.checkpointing.progress.send_modify(|progress| progress.kept = progress.taken);
    }
}
