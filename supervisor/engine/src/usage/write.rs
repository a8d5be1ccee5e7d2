//! Replacing a file so that either the old or the new one is there, whatever happens.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Begins the names of files that are not complete.
const UNFINISHED: &str = ".unfinished-";

/// Replaces `dir/name` and returns when that is on disk (`fsync(2)` of the file and, for its name, of
/// the directory). On an error the old file is as it was.
///
/// # Errors
/// As for writing, syncing and renaming a file.
pub fn replace(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let unfinished = dir.join(format!("{UNFINISHED}{name}"));
    let written = write(&unfinished, content)
        .and_then(|()| fs::rename(&unfinished, dir.join(name)))
        .and_then(|()| File::open(dir)?.sync_all());
    if written.is_err()
        && let Err(error) = fs::remove_file(&unfinished)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, path = %unfinished.display(), "an unfinished file stays");
    }
    written
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Whether a file was left by a write that a crash cut short.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), "a", b"old").unwrap();
        // Something that no file can be written over.
        fs::create_dir(dir.path().join(format!("{UNFINISHED}a"))).unwrap();
        replace(dir.path(), "a", b"new").unwrap_err();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
        fs::remove_dir(dir.path().join(format!("{UNFINISHED}a"))).unwrap();
        replace(dir.path(), "a", b"new").unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
