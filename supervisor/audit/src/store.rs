//! The files of a log, and the one that is written.
//!
//! A file is `audit-000001.jsonl`, with as many digits as it takes, and is only ever appended to. A
//! write that fails is taken back, so that the file ends with a whole line. The lock of the directory
//! keeps a second writer out.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";

/// Numbers of the files of a directory, in order.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in dir.read_dir()? {
        numbers.extend(entry?.file_name().to_str().and_then(number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

pub(crate) fn name(number: u64) -> String {
    format!("{PREFIX}{number:06}{SUFFIX}")
}

/// The number in a file's name, if [`name`] would give the number that name.
pub(crate) fn number(file: &str) -> Option<u64> {
    let digits = file.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    digits.parse().ok().filter(|number| name(*number) == file)
}

/// Opens a file of a log to be read. Links are not followed.
pub(crate) fn open_to_read(dir: &Path, number: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not to wait for the writer of a FIFO.
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(dir.join(name(number)))?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("is not a regular file"))
    }
}

/// The directory, held by its one writer.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    handle: Flock<File>,
}

impl Directory {
    /// # Errors
    /// `EWOULDBLOCK` if somebody else writes there.
    pub(crate) fn lock(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits());
        let handle = Flock::lock(options.open(path)?, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    pub(crate) fn remove(&self, number: u64) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name(number)))?;
        self.sync()
    }
}

/// The file that is written.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    file: File,
    /// Whether a write could not be taken back: the file may end with a part of a line.
    is_torn: bool,
}

/// What somebody else did to the file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interference {
    Removed,
    Changed,
}

impl Interference {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Removed => "the file was removed while it was written",
            Self::Changed => "the file's size was changed while it was written",
        }
    }
}

impl Current {
    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.append(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        options
    }

    /// Makes a file that is not there.
    pub(crate) fn create(dir: &Directory, number: u64) -> io::Result<Self> {
        let file = Self::options().create_new(true).open(dir.path.join(name(number)))?;
        dir.sync()?;
        Ok(Self { number, bytes: 0, file, is_torn: false })
    }

    /// Opens a file that is there, and cuts it to its first `bytes`.
    pub(crate) fn open(dir: &Directory, number: u64, bytes: u64) -> io::Result<Self> {
        let file = Self::options().open(dir.path.join(name(number)))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("is not a regular file"));
        }
        if metadata.mode() & 0o077 != 0 {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        if metadata.len() > bytes {
            file.set_len(bytes)?;
            file.sync_all()?;
        }
        Ok(Self { number, bytes, file, is_torn: false })
    }

    /// Appends all of it, or nothing.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.take_back()?;
        match self.file.write_all(lines) {
            Ok(()) => {
                self.bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.is_torn = true;
                self.take_back()?;
                Err(error)
            }
        }
    }

    /// Takes back the last lines that were appended, which could not be synchronised.
    pub(crate) fn revert(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_torn = true;
        self.take_back()
    }

    fn take_back(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.bytes)?;
            self.is_torn = false;
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// What somebody else did to it since the last write.
    pub(crate) fn interference(&self) -> io::Result<Option<Interference>> {
        let metadata = self.file.metadata()?;
        Ok(if metadata.nlink() == 0 {
            Some(Interference::Removed)
        } else if metadata.len() != self.bytes && !self.is_torn {
            Some(Interference::Changed)
        } else {
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_exact_names() {
        for at in [1, 999_999, 1_000_000] {
            assert_eq!(number(&name(at)), Some(at));
        }
        for other in ["audit-1.jsonl", "audit-+00001.jsonl", "audit-000001.jsonl~", "x"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn only_one_writes() {
        let temp = tempfile::tempdir().unwrap();
        let first = Directory::lock(temp.path()).unwrap();
        let error = Directory::lock(temp.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        Directory::lock(temp.path()).unwrap();
    }

    #[test]
    fn a_link_is_not_written_through() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Directory::lock(temp.path()).unwrap();
        let victim = temp.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, temp.path().join(name(1))).unwrap();
        Current::open(&dir, 1, 0).unwrap_err();
        Current::create(&dir, 1).unwrap_err();
        open_to_read(temp.path(), 1).unwrap_err();
        assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
        // The control: without the link.
        let current = Current::create(&dir, 2).unwrap();
        assert_eq!(current.file.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn interference_shows() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Directory::lock(temp.path()).unwrap();
        let mut current = Current::create(&dir, 1).unwrap();
        current.append(b"1\n").unwrap();
        assert_eq!(current.interference().unwrap(), None);
        std::fs::write(temp.path().join(name(1)), "").unwrap();
        assert_eq!(current.interference().unwrap(), Some(Interference::Changed));
        std::fs::remove_file(temp.path().join(name(1))).unwrap();
        assert_eq!(current.interference().unwrap(), Some(Interference::Removed));
    }
}
