//! Reading and writing the files of a cgroup.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The most read of any cgroup file, in bytes. The longest (`io.stat`) has some 100 bytes for
/// each disk.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A file or directory of cgroupfs that did not do as it was told.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub struct CgroupError {
    pub operation: String,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl CgroupError {
    pub(super) fn new(operation: impl Into<String>, path: &Path, source: io::Error) -> Self {
        Self { operation: operation.into(), path: path.to_owned(), source }
    }

    /// The error and its cause in one line.
    pub(super) fn chain(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

/// The content of a file, without the last line end.
pub(super) fn read(path: &Path) -> Result<String, CgroupError> {
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
        .map_err(|source| CgroupError::new("read", path, source))?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Writes `value` in one `write(2)`, as cgroupfs wants it.
pub(super) fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    // Not fs::write: it would create a plain file where the path is not cgroupfs after all.
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|source| CgroupError::new(format!("write {value:?} to"), path, source))
}

pub(super) fn number(path: &Path) -> Option<u64> {
    read(path).ok()?.parse().ok()
}

/// The value of `key` in a file of `key value` lines.
pub(super) fn keyed(path: &Path, key: &str) -> Option<u64> {
    value_of(&read(path).ok()?, key)
}

/// The same of a file that is kept open for being read again and again.
pub(super) fn keyed_in(file: &fs::File, key: &str) -> Option<u64> {
    value_of(&read_again(file)?, key)
}

/// The content of such a file. One `pread(2)` for any that is shorter than the buffer: cgroupfs
/// gives a file whole, as far as there is room.
pub(super) fn read_again(file: &fs::File) -> Option<String> {
    let mut text = Vec::new();
    let mut part = [0; 1024];
    loop {
        let offset = text.len() as u64;
        let len = file.read_at(&mut part, offset).ok()?;
        text.extend_from_slice(part.get(..len)?);
        if len < part.len() || offset > MAX_FILE_BYTES {
            return String::from_utf8(text).ok();
        }
    }
}

fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

pub(super) fn make_dir(path: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::new("make", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes a cgroup and those below it, deepest first. None may have processes in it.
pub(super) fn remove_all(path: &Path) -> Result<(), CgroupError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|source| CgroupError::new("list", path, source))?,
    };
    for entry in entries {
        let entry = entry.map_err(|source| CgroupError::new("list", path, source))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_all(&entry.path())?;
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CgroupError::new("remove", path, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_written_and_never_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let error = write(&path, "7").unwrap_err().chain();
        assert!(error.starts_with("write \"7\" to ") && error.ends_with("(os error 2)"), "{error}");
        assert!(read(&path).is_err() && !path.exists());
        fs::write(&path, "12\n").unwrap();
        assert_eq!((read(&path).unwrap().as_str(), number(&path)), ("12", Some(12)));
        write(&path, "34").unwrap();
        assert_eq!(number(&path), Some(34));
        fs::write(&path, "ab 5\na 7\n").unwrap();
        assert_eq!((keyed(&path, "a"), keyed(&path, "b"), number(&path)), (Some(7), None, None));
        fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(read(&path).unwrap().len(), 64 << 10);
    }

    /// Shorter than the buffer, as long as it, longer, and longer than is read.
    #[test]
    fn a_file_that_is_kept_open_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for len in [0, 10, 1023, 1024, 1025, 3000, 4096] {
            let text: String = ('a'..='z').cycle().take(len).collect();
            fs::write(&path, &text).unwrap();
            let file = fs::File::open(&path).unwrap();
            assert_eq!(read_again(&file).as_deref(), Some(text.as_str()), "{len}");
            assert_eq!(read_again(&file), Some(text), "again");
        }
        fs::write(&path, "x".repeat(200_000)).unwrap();
        let read = read_again(&fs::File::open(&path).unwrap()).unwrap().len();
        assert_eq!(read, (64 << 10) + 2048, "the first part beyond the most is the last");
    }

    #[test]
    fn directories_are_made_once_and_removed_with_those_below() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        make_dir(&path).unwrap();
        make_dir(&path).unwrap();
        assert!(make_dir(&dir.path().join("none/b")).is_err());
        make_dir(&path.join("b")).unwrap();
        make_dir(&path.join("b/c")).unwrap();
        remove_all(&path).unwrap();
        assert!(!path.exists());
        remove_all(&path).unwrap();
        // What can not be listed, and what can not be removed.
        fs::write(&path, "").unwrap();
        assert_eq!(remove_all(&path).unwrap_err().operation, "list");
        fs::remove_file(&path).unwrap();
        make_dir(&path).unwrap();
        fs::write(path.join("file"), "").unwrap();
        assert_eq!(remove_all(&path).unwrap_err().operation, "remove");
    }
}
