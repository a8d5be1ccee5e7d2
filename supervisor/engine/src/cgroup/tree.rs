//! The tree below what is ours: taking it, and giving it back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, mem};

use nix::fcntl::{Flock, FlockArg};
use vivarium_protocol::policy::Limits;

use super::Missing;
use super::detect::Layout;
use super::files::{self, CgroupError};
use super::limits::Controller;
use super::root::{Found, MADE_PREFIX, SUPERVISOR, UNIFY};
use super::scope::{self, Scope};
use super::tenant;

pub(super) const TENANTS: &str = "tenants";

/// A directory without a supervisor's leaf may be one that is just being made, until it is
/// this old.
const MAKING: Duration = Duration::from_mins(1);

/// Our part of the cgroup tree.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    made: bool,
    origin: PathBuf,
    controllers: Vec<Controller>,
    fix: String,
    pub(super) ceilings: tenant::States,
    /// Held as long as anything of ours is in this tree, so that the next start can tell what is
    /// left over from what is alive. The kernel drops it with the process.
    lock: Option<Flock<File>>,
}

impl Tree {
    /// Locks the directory, moves this process into its leaf and enables what controllers
    /// there are.
    pub(super) fn take(found: Found) -> Result<Self, Missing> {
        let Found { root, made, own, layout } = found;
        let fail = |why: String| Missing {
            why,
            fix: "give this process a cgroup of its own (Delegate=yes in its unit)".to_owned(),
        };
        let dir = File::open(&root).map_err(|e| fail(format!("open {}: {e}", root.display())))?;
        let lock = Flock::lock(dir, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
            fail(format!("{} is in use by another Vivarium: {errno}", root.display()))
        })?;
        let fix = match layout {
            Layout::Hybrid => UNIFY,
            _ => "delegate memory, pids and cpu to this process (Delegate=yes in its unit)",
        };
        let mut tree = Self {
            root,
            made,
            origin: own,
            controllers: Vec::new(),
            fix: fix.to_owned(),
            ceilings: tenant::States::default(),
            lock: Some(lock),
        };
        tree.enter().map_err(|error| fail(error.chain()))?;
        if made && let Some(base) = tree.root.parent() {
            enable(base);
        }
        enable(&tree.root);
        tree.controllers = enable(&tree.root.join(TENANTS));
        tracing::debug!(root = %tree.root.display(), controllers = ?tree.controllers, "cgroup tree taken");
        Ok(tree)
    }

    fn enter(&self) -> Result<(), CgroupError> {
        let leaf = self.root.join(SUPERVISOR);
        files::make_dir(&leaf)?;
        // cgroups(7): 0 is the writing process, whatever its pid is in this namespace.
        files::write(&leaf.join("cgroup.procs"), "0")?;
        files::make_dir(&self.root.join(TENANTS))
    }

    /// Makes the scope of a session, with its limits and its tenant's ceilings written and read
    /// back.
    ///
    /// `tenant` and `session` have been checked to be plain names.
    /// Fails if a limit or ceiling whose controller is there can not be set.
    pub fn make_scope(
        &self,
        tenant: &str,
        session: &str,
        limits: &Limits,
    ) -> Result<Scope, CgroupError> {
        self.hold(tenant)?;
        let tenant_dir = self.root.join(TENANTS).join(tenant);
        Scope::make(tenant_dir.join(session), limits, &self.fix)
    }

    pub fn controllers(&self) -> &[Controller] {
        &self.controllers
    }

    pub fn fix(&self) -> &str {
        &self.fix
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Kills and removes what an earlier life left here: in this very directory, and in
    /// directories beside it that nobody holds any more.
    /// Stops at the first error, and leaves the rest for the next time.
    pub async fn clear_leftovers(&self) -> Result<(), CgroupError> {
        remove_children(&self.root.join(TENANTS)).await?;
        match self.root.parent() {
            Some(base) if self.made => sweep(base).await,
            _ => Ok(()),
        }
    }
}

impl Drop for Tree {
    /// Goes back where this process came from, so that nothing of the tree stays. Where that
    /// is not permitted (somebody with more rights put us here), the next start removes it.
    fn drop(&mut self) {
        let undo = || -> Result<(), CgroupError> {
            files::remove_all(&self.root.join(TENANTS))?;
            if !self.made {
                for controller in &self.controllers {
                    let file = self.root.join("cgroup.subtree_control");
                    files::write(&file, &format!("-{controller}"))?;
                }
            }
            files::write(&self.origin.join("cgroup.procs"), "0")?;
            if self.origin != self.root.join(SUPERVISOR) {
                files::remove_all(&self.root.join(SUPERVISOR))?;
            }
            if self.made { files::remove_all(&self.root) } else { Ok(()) }
        };
        if let Err(error) = undo() {
            tracing::debug!(error = error.chain(), "cgroup tree left for the next start");
            // This process may still be in it, and a start that gets the lock kills all that is.
            mem::forget(self.lock.take());
        }
    }
}

/// Enables every controller there is for the children of `dir`, and says which it has for them.
pub(super) fn enable(dir: &Path) -> Vec<Controller> {
    let file = dir.join("cgroup.subtree_control");
    let enabled = listed(&file);
    let mut missing = listed(&dir.join("cgroup.controllers"));
    missing.retain(|controller| !enabled.contains(controller));
    // Each write locks the whole host's tree, even where it changes nothing.
    if missing.is_empty() {
        return enabled;
    }
    for controller in missing {
        // One write each: one controller that can not be enabled fails the whole write.
        if let Err(error) = files::write(&file, &format!("+{controller}")) {
            tracing::trace!(error = error.chain(), "controller not enabled");
        }
    }
    listed(&file)
}

/// The controllers that a file of the kernel's lists.
fn listed(file: &Path) -> Vec<Controller> {
    let text = files::read(file).unwrap_or_default();
    let has =
        |controller: &Controller| text.split_whitespace().any(|name| name == controller.name());
    Controller::ALL.into_iter().filter(has).collect()
}

/// Kills and removes the trees of Vivariums in `base` that are no more.
pub async fn sweep(base: &Path) -> Result<(), CgroupError> {
    for dir in children(base)? {
        if !is_made_by_us(&dir) {
            continue;
        }
        if !dir.join(SUPERVISOR).exists() {
            // A start that did not get far. Nothing is killed on the strength of a name: rmdir(2)
            // refuses one that anything lives in.
            if is_old(&dir)
                && let Err(error) = fs::remove_dir(&dir)
            {
                tracing::debug!(%error, cgroup = %dir.display(), "not ours, or in use");
            }
            continue;
        }
        let Ok(file) = File::open(&dir) else { continue };
        // Whoever lives there holds the lock.
        let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
        tracing::info!(cgroup = %dir.display(), "removing what a Vivarium left that is no more");
        scope::kill_and_remove(&dir).await?;
    }
    Ok(())
}

async fn remove_children(dir: &Path) -> Result<(), CgroupError> {
    for child in children(dir)? {
        tracing::info!(cgroup = %child.display(), "removing what an earlier life left");
        scope::kill_and_remove(&child).await?;
    }
    Ok(())
}

/// Whether a directory has a name as we give them, and no other: the prefix and a UUID.
fn is_made_by_us(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix(MADE_PREFIX).is_some_and(|uuid| {
        uuid.len() == 32 && uuid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_old(dir: &Path) -> bool {
    let modified = fs::metadata(dir).and_then(|data| data.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MAKING))
}

pub(super) fn children(dir: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    let list = |dir: &Path| -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        Ok(found)
    };
    list(dir).map_err(|source| CgroupError::new("list", dir, source))
}

#[cfg(test)]
mod tests;
