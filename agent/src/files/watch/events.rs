//! Events that wait to be sent, of which those that repeat or cancel each other are one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vivarium_protocol::message::{FileEvent, FileEventKind};

use super::shown;

/// The most events that wait, and the most bytes of their paths.
const PENDING_MAX: usize = 4096;
const PENDING_BYTES: usize = 512 << 10;

#[derive(Debug)]
pub(super) struct Pending {
    prefix: &'static str,
    events: Vec<Option<Waiting>>,
    /// The last event of each path.
    last: BTreeMap<PathBuf, usize>,
    bytes: usize,
    overflowed: bool,
}

#[derive(Debug)]
struct Waiting {
    kind: FileEventKind,
    from: Option<PathBuf>,
    path: PathBuf,
    is_directory: bool,
}

impl Pending {
    pub(super) const fn new(prefix: &'static str) -> Self {
        Self { prefix, events: Vec::new(), last: BTreeMap::new(), bytes: 0, overflowed: false }
    }

    pub(super) fn add(&mut self, kind: FileEventKind, path: &Path, is_directory: bool) {
        use FileEventKind::{Created, Deleted, Modified};
        let before = self.last_kind(path);
        let kind = match (before, kind) {
            (Some(Created | Modified), Modified) | (Some(Created), Created) => return,
            (Some(Created), Deleted) => {
                self.cancel(path);
                return;
            }
            (Some(Modified), Deleted) => {
                self.cancel(path);
                Deleted
            }
            (Some(Deleted), Created) if !is_directory => {
                self.cancel(path);
                Modified
            }
            (_, kind) => kind,
        };
        self.push(Waiting { kind, from: None, path: path.to_owned(), is_directory });
    }

    /// Something has come to `path`, from another watched path if that is known.
    pub(super) fn moved(&mut self, from: Option<&Path>, path: &Path, is_directory: bool) {
        let Some(from) = from else {
            self.add(FileEventKind::Created, path, is_directory);
            return;
        };
        if self.last_kind(from) == Some(FileEventKind::Created) {
            self.cancel(from);
            self.add(FileEventKind::Created, path, is_directory);
            return;
        }
        self.last.remove(from);
        let (from, path) = (Some(from.to_owned()), path.to_owned());
        self.push(Waiting { kind: FileEventKind::Moved, from, path, is_directory });
    }

    /// Events were lost: those that wait mean little without them.
    pub(super) fn overflow(&mut self) {
        let prefix = self.prefix;
        *self = Self { overflowed: true, ..Self::new(prefix) };
    }

    pub(super) fn take(&mut self) -> Vec<FileEvent> {
        let Self { prefix, events, overflowed, .. } =
            std::mem::replace(self, Self::new(self.prefix));
        let told = |waiting: Waiting| FileEvent {
            kind: waiting.kind,
            path: shown(prefix, &waiting.path),
            from: waiting.from.map(|from| shown(prefix, &from)),
            is_directory: waiting.is_directory,
        };
        let overflow = overflowed.then(|| FileEvent {
            kind: FileEventKind::Overflow,
            path: String::new(),
            from: None,
            is_directory: false,
        });
        overflow.into_iter().chain(events.into_iter().flatten().map(told)).collect()
    }

    fn last_kind(&self, path: &Path) -> Option<FileEventKind> {
        let index = *self.last.get(path)?;
        Some(self.events.get(index)?.as_ref()?.kind)
    }

    fn cancel(&mut self, path: &Path) {
        if let Some(index) = self.last.remove(path)
            && let Some(event) = self.events.get_mut(index)
        {
            *event = None;
        }
    }

    fn push(&mut self, event: Waiting) {
        let from = event.from.as_ref().map_or(0, |from| from.as_os_str().len());
        self.bytes += event.path.as_os_str().len() + from;
        if self.events.len() >= PENDING_MAX || self.bytes > PENDING_BYTES {
            self.overflow();
            return;
        }
        self.last.insert(event.path.clone(), self.events.len());
        self.events.push(Some(event));
    }
}

#[cfg(test)]
mod tests {
    use FileEventKind::{Created, Deleted, Modified, Moved, Overflow};

    use super::*;

    fn told(pending: &mut Pending) -> Vec<(FileEventKind, String)> {
        pending.take().into_iter().map(|event| (event.kind, event.path)).collect()
    }

    #[test]
    fn what_repeats_or_cancels_is_one_event() {
        for (kinds, expected) in [
            (vec![Created, Modified, Modified], vec![Created]),
            (vec![Modified, Modified], vec![Modified]),
            (vec![Created, Modified, Deleted], vec![]),
            (vec![Modified, Deleted], vec![Deleted]),
            (vec![Deleted, Created], vec![Modified]),
            (vec![Deleted, Created, Deleted], vec![Deleted]),
        ] {
            let mut pending = Pending::new("/tmp");
            for kind in &kinds {
                pending.add(*kind, Path::new("a"), false);
            }
            let expected: Vec<_> =
                expected.into_iter().map(|kind| (kind, "/tmp/a".to_owned())).collect();
            assert_eq!(told(&mut pending), expected, "{kinds:?}");
        }
    }

    #[test]
    fn a_new_file_that_moves_is_new_where_it_is() {
        let mut pending = Pending::new("");
        pending.add(Created, Path::new("a"), false);
        pending.moved(Some(Path::new("a")), Path::new("b"), false);
        pending.moved(Some(Path::new("c")), Path::new("d"), false);
        assert_eq!(told(&mut pending), [(Created, "b".to_owned()), (Moved, "d".to_owned())]);
    }

    #[test]
    fn too_many_events_are_one_overflow() {
        let mut pending = Pending::new("");
        for number in 0..=PENDING_MAX {
            pending.add(Modified, &PathBuf::from(number.to_string()), false);
        }
        pending.add(Modified, Path::new("last"), false);
        let expected = [(Overflow, String::new()), (Modified, "last".to_owned())];
        assert_eq!(told(&mut pending), expected);
        let long = "x".repeat(4000);
        for number in 0..200 {
            pending.add(Modified, &PathBuf::from(format!("{long}{number}")), false);
        }
        assert_eq!(told(&mut pending)[0].0, Overflow);
    }
}
