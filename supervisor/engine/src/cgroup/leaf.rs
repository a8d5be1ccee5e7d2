//! The leaves below a session's `kernel`, in which its processes start: one for each context, and
//! one for each command that nobody waits for. What is killed, counted and measured is that of a leaf.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use vivarium_protocol::leaf::Leaf;

use super::events::Events;
use super::files::CgroupError;
use super::limits;
use super::meter::Meter;
use super::scope::{Scope, kill_and_remove};

/// What the agent ends a leaf with.
#[derive(Debug)]
pub struct LeafFiles {
    /// `cgroup.kill`, for writing.
    pub kill: File,
    /// `cgroup.events`.
    pub events: File,
}

impl Scope {
    fn leaf(&self, leaf: Leaf) -> PathBuf {
        self.kernel().join(leaf.name())
    }

    /// Makes a leaf. Blocks: it writes files of cgroupfs.
    pub fn make_leaf(&self, leaf: Leaf) -> Result<(), CgroupError> {
        let dir = self.leaf(leaf);
        std::fs::create_dir(&dir).map_err(|source| CgroupError::new("make", &dir, source))?;
        // On each leaf, and not on `kernel`: what has used up the memory goes whole, and alone.
        if self.limits_memory {
            limits::set(&dir, &limits::oom_group())?;
        }
        Ok(())
    }

    /// Opens what the agent ends a leaf with.
    pub fn leaf_files(&self, leaf: Leaf) -> Result<LeafFiles, CgroupError> {
        let dir = self.leaf(leaf);
        let open = |options: &mut OpenOptions, name: &str| {
            let path = dir.join(name);
            options.open(&path).map_err(|source| CgroupError::new("open", &path, source))
        };
        Ok(LeafFiles {
            kill: open(OpenOptions::new().write(true), "cgroup.kill")?,
            events: open(OpenOptions::new().read(true), "cgroup.events")?,
        })
    }

    /// What is counted against a leaf, and against all of them together where the kernel does not
    /// count by leaf. Opens files, and has to be called where tokio runs.
    pub fn events(&self, leaf: Leaf) -> Events {
        Events::open(&self.leaf(leaf), &self.kernel())
    }

    /// What measures executions in a leaf. Opens files.
    pub fn meter(&self, leaf: Leaf) -> Meter {
        Meter::open(self.dir(), &self.kernel(), &self.leaf(leaf))
    }

    /// Kills what is in a leaf, waits until all of that is gone, and removes it.
    pub async fn remove_leaf(&self, leaf: Leaf) -> Result<(), CgroupError> {
        kill_and_remove(&self.leaf(leaf)).await
    }
}
