//! Which files are gone since the last report, of those that were there before it.
//!
//! A file that was made and removed between two reports is nobody's loss. One that was moved over
//! another and then removed may be reported all the same: the event does not say whether there was another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::NAMES_MAX;
use crate::files::new_file::is_fresh_name;

#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Files and directories that were not there at the last report.
    created: BTreeSet<PathBuf>,
    gone: BTreeSet<PathBuf>,
    more: bool,
}

impl Deletions {
    /// There was nothing at `path`.
    pub(super) fn created(&mut self, path: &Path) {
        // One that came again is still known.
        if self.created.len() < NAMES_MAX && !self.gone.contains(path) {
            self.created.insert(path.to_owned());
        }
    }

    /// What was at `path` is there no more.
    pub(super) fn removed(&mut self, path: &Path) {
        let is_new = path.ancestors().any(|path| self.created.contains(path));
        self.created.remove(path);
        if is_new || path.file_name().is_some_and(is_fresh_name) {
            return;
        }
        if self.gone.len() < NAMES_MAX {
            self.gone.insert(path.to_owned());
        } else {
            self.more = true;
        }
    }

    /// Forgets what was at `path` and below it.
    pub(super) fn exclude(&mut self, path: &Path) {
        self.gone.retain(|gone| !gone.starts_with(path));
    }

    /// Takes the paths, some of which may have come again, and whether there are more.
    pub(super) fn take(&mut self) -> (BTreeSet<PathBuf>, bool) {
        let Self { gone, more, .. } = std::mem::take(self);
        (gone, more)
    }
}
