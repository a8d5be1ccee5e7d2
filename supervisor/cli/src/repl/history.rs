//! The history of inputs: a file that only its owner can read, opened before root is given up and
//! from then on only appended to. One entry a line, as a JSON string.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(super) const MAX_ENTRIES: usize = 10_000;

/// A larger file is rewritten with its last entries.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct History {
    file: Option<File>,
    /// The oldest first.
    pub(super) entries: Vec<String>,
}

impl History {
    /// Opens the user's history. A problem is only logged: the prompt works without one.
    pub(super) fn open() -> Self {
        let Some(path) = default_path() else { return Self { file: None, entries: Vec::new() } };
        Self::open_at(&path).unwrap_or_else(|error| {
            tracing::debug!(%error, path = %path.display(), "no history");
            Self { file: None, entries: Vec::new() }
        })
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            // With the mode of the XDG Base Directory Specification.
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        // A symbolic link that somebody has put there is not followed.
        options.custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits());
        let mut file = options.open(path)?;
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        let lines = BufReader::new(&file).lines();
        // Skips damaged lines, such as half of one.
        let mut entries: Vec<String> = lines
            .map_while(Result::ok)
            .filter_map(|line| serde_json::from_str(&line).ok())
            .collect();
        entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
        if file.metadata()?.len() > MAX_BYTES {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            for entry in &entries {
                write(&mut file, entry)?;
            }
        }
        Ok(Self { file: Some(file), entries })
    }

    pub(super) fn add(&mut self, entry: &str) {
        if let Some(file) = &mut self.file
            && let Err(error) = write(file, entry)
        {
            tracing::debug!(%error, "the history is not written any more");
            self.file = None;
        }
    }
}

/// One write, so that two sessions do not mix their lines (open(2), `O_APPEND`).
fn write(file: &mut File, entry: &str) -> io::Result<()> {
    file.write_all(format!("{}\n", serde_json::to_string(entry)?).as_bytes())
}

/// `$XDG_STATE_HOME/vivarium/repl_history`.
fn default_path() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("vivarium/repl_history"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn entries_are_read_back_and_only_the_owner_can_read_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state/vivarium/repl_history");
        let mut history = History::open_at(&path).unwrap();
        assert!(history.entries.is_empty());
        history.add("x = 1");
        history.add("if x:\n    '\"\\é'");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let again = History::open_at(&path).unwrap();
        assert_eq!(again.entries, ["x = 1", "if x:\n    '\"\\é'"]);
    }

    #[test]
    fn a_damaged_or_large_file_is_still_read() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("history");
        let line = format!("\"{}\"\n", "x".repeat(1000));
        std::fs::write(&path, format!("garbage\n\"a\"\n\"half{}", line.repeat(9000))).unwrap();
        let history = History::open_at(&path).unwrap();
        assert_eq!(history.entries.len(), 9000);
        drop(history);
        std::fs::write(&path, line.repeat(20_000)).unwrap();
        assert_eq!(History::open_at(&path).unwrap().entries.len(), MAX_ENTRIES);
        assert!(std::fs::metadata(&path).unwrap().len() < 11 << 20);
        assert_eq!(History::open_at(&path).unwrap().entries.len(), MAX_ENTRIES);
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("history");
        std::os::unix::fs::symlink(temp.path().join("target"), &path).unwrap();
        assert!(History::open_at(&path).is_err());
        assert!(!temp.path().join("target").exists());
    }
}
