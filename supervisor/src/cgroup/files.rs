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
    /// What was tried.
    pub operation: String,
    /// On which file.
    pub path: PathBuf,
    /// What the kernel said.
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

/// The value of a file that holds one.
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

/// Makes a directory unless it is there.
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
