//! What a directory takes of disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// The unit of `st_blocks`, whatever the file system's is: inode(7).
const BLOCK_BYTES: u64 = 512;

/// Why files could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}")]
pub struct DiskError {
    path: PathBuf,
    source: io::Error,
}

/// The blocks that this directory has been given, with all that is in it. Nothing in it may change meanwhile.
pub(super) fn used_bytes(dir: &Path) -> Result<u64, DiskError> {
    let mut blocks = fs::symlink_metadata(dir).map_err(at(dir))?.blocks();
    let mut unread = vec![dir.to_owned()];
    while let Some(dir) = unread.pop() {
        for entry in fs::read_dir(&dir).map_err(at(&dir))? {
            let entry = entry.map_err(at(&dir))?;
            // Of the link, where it is one.
            let metadata = entry.metadata().map_err(at(&dir))?;
            blocks += metadata.blocks();
            if metadata.is_dir() {
                unread.push(entry.path());
            }
        }
    }
    Ok(blocks * BLOCK_BYTES)
}

/// Has the host's kernel forget the contents of the files in this directory, so that whoever reads them next reads the
/// disk. They have to be on it: pages that are not stay.
pub(super) fn forget(dir: &Path) -> Result<(), DiskError> {
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let path = entry.map_err(at(dir))?.path();
        let file = File::open(&path).map_err(at(&path))?;
        // A length of 0 is to the end: posix_fadvise(2).
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|error| at(&path)(error.into()))?;
    }
    Ok(())
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_and_not_lengths() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let empty = used_bytes(dir.path()).unwrap();
        File::create(inner.join("hole")).unwrap().set_len(1 << 30).unwrap();
        let file = inner.join("full");
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        let grown = used_bytes(dir.path()).unwrap() - empty;
        assert!((1 << 20..2 << 20).contains(&grown), "{grown}");
        forget(&inner).unwrap();
        assert!(used_bytes(&dir.path().join("absent")).is_err());
    }
}
