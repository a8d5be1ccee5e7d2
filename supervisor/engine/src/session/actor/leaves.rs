//! Leaves of the session's cgroup that are made and removed while it lives. Making one is work for a
//! thread that may block: it takes a lock that is the whole host's.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::task::JoinSet;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::outcome::{Cause, State};

use super::cgroup_events::Accounting;
use super::{Actor, End, Step};
use crate::cgroup::{CgroupError, LeafFiles, Scope};
use crate::session::QueuedExecution;

/// Who is to start in a leaf.
pub(super) enum Starting {
    /// And how often the session had been reset when this was asked for.
    Command(Box<QueuedExecution>, u64),
    /// The first kernel of a context.
    Context(ContextNumber),
    /// A further one.
    Kernel(ContextNumber),
}

pub(super) struct MadeLeaf {
    starting: Starting,
    leaf: Leaf,
    made: Result<(LeafFiles, Accounting), CgroupError>,
}

/// Waits for the next leaf; for ever if none is being made. Safe to cancel.
pub(super) async fn next_made(making: &mut JoinSet<MadeLeaf>) -> MadeLeaf {
    loop {
        match making.join_next().await {
            Some(Ok(made)) => return made,
            Some(Err(error)) => tracing::error!(%error, "making a leaf"),
            None => pending().await,
        }
    }
}

/// What goes to the agent with who starts in a leaf.
pub(super) fn descriptors(files: LeafFiles) -> [OwnedFd; 2] {
    [files.kill.into(), files.events.into()]
}

impl Actor {
    pub(super) fn make_leaf(&mut self, scope: Arc<Scope>, leaf: Leaf, starting: Starting) {
        self.making.spawn_blocking(move || {
            let made = scope.make_leaf(leaf).and_then(|()| scope.leaf_files(leaf));
            let made = made.map(|files| (files, Accounting::of(&scope, leaf)));
            MadeLeaf { starting, leaf, made }
        });
    }

    pub(super) fn on_made_leaf(&mut self, MadeLeaf { starting, leaf, made }: MadeLeaf) -> Step {
        let made = made.map_err(|error| {
            let detail = vivarium_protocol::error_chain(&error);
            tracing::warn!(session = self.session.identity.id, detail, "no leaf could be made");
            detail
        });
        match (starting, made) {
            (Starting::Command(queued, resets), Ok(made)) => {
                let number = queued.number;
                self.arriving.remove(&number);
                self.start_command(*queued, Some(made))?;
                // It was reset meanwhile.
                if resets == self.resets { Step::Continue(()) } else { self.end_with_reset(number) }
            }
            (Starting::Command(queued, _), Err(detail)) => {
                self.arriving.remove(&queued.number);
                let detail = format!("make the command's cgroup: {detail}");
                self.never_ran(*queued, None, &detail, State::Preserved);
                self.dispatch_all()
            }
            (Starting::Context(number), Ok((files, accounting))) => {
                self.start_context(number, Some((files, accounting)))
            }
            (Starting::Kernel(number), Ok(made)) => self.start_kernel(number, leaf, made),
            (Starting::Kernel(number), Err(detail)) => {
                let detail = format!("make the kernel's cgroup: {detail}");
                match number {
                    FIRST_CONTEXT => Step::Break(End::new(Cause::KernelStart, detail)),
                    number => self.close_failed(number, &detail),
                }
            }
            (Starting::Context(number), Err(detail)) => {
                self.context_failed(number, &format!("make the context's cgroup: {detail}"));
                Step::Continue(())
            }
        }
    }

    /// Waits for those that are being made or removed, as the session ends. Returns the commands that they are
    /// for.
    pub(super) async fn unmade(&mut self) -> Vec<QueuedExecution> {
        while self.removing.join_next().await.is_some() {}
        let mut commands = Vec::new();
        while let Some(made) = self.making.join_next().await {
            if let Ok(MadeLeaf { starting: Starting::Command(queued, _), .. }) = made {
                commands.push(*queued);
            }
        }
        commands
    }

    /// Removes a leaf that nothing lives in any more.
    pub(super) fn remove_leaf(&mut self, leaf: Leaf) {
        let Some(scope) = self.resources.scope.clone() else { return };
        let session = self.session.identity.id.clone();
        while self.removing.try_join_next().is_some() {}
        self.removing.spawn(async move {
            if let Err(error) = scope.remove_leaf(leaf).await
                && error.source.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(session, %error, "a leaf is left until its session ends");
            }
        });
    }
}
