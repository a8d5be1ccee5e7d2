//! An archive on its way into a directory: directories and regular files only, each name beneath
//! that directory, through no link. At the first entry that is anything else the archive is
//! refused; what was written before it stays.
//!
//! Modes become 0755 or 0644, owner and time are those of any new file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use vivarium_protocol::message::FileReply;

use super::tar::{Event, Parser};
use super::{FileError, NewFile, Workdir};

#[derive(Debug)]
pub(super) struct Unpacker {
    target: Workdir,
    /// The target's path in the workdir.
    prefix: PathBuf,
    parser: Parser,
    file: Option<Open>,
    files: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Open {
    new: NewFile,
    path: PathBuf,
    executable: bool,
}

impl Unpacker {
    pub(super) fn new(target: Workdir, prefix: PathBuf) -> Self {
        Self { target, prefix, parser: Parser::default(), file: None, files: 0, bytes: 0 }
    }

    pub(super) fn inode(&self) -> Option<u64> {
        self.file.as_ref().map(|file| file.new.inode())
    }

    /// Takes more of the archive. Calls `written` with the path of each complete file.
    ///
    /// # Errors
    /// [`FileError`]; complete files stay.
    pub(super) fn take(
        &mut self,
        mut data: &[u8],
        written: &mut dyn FnMut(&Path),
    ) -> Result<(), FileError> {
        loop {
            let event = self.parser.next(&mut data);
            match event.map_err(|error| FileError::Archive(error.to_string()))? {
                Event::Nothing => return Ok(()),
                Event::Directory(name) => {
                    self.target.make_directories(&plain(&name)?)?;
                }
                Event::File { name, executable } => {
                    let path = plain(&name)?;
                    let new = NewFile::create(&self.target, &path)?;
                    self.file = Some(Open { new, path, executable });
                }
                Event::Data(data) => {
                    if let Some(file) = &mut self.file {
                        file.new.write(data)?;
                    }
                }
                Event::FileEnd => {
                    if let Some(Open { new, path, executable }) = self.file.take() {
                        self.bytes = self.bytes.saturating_add(new.written());
                        self.files = self.files.saturating_add(1);
                        new.commit(executable)?;
                        written(&self.prefix.join(path));
                    }
                }
            }
        }
    }

    pub(super) fn finish(&self) -> Result<FileReply, FileError> {
        self.parser.finish().map_err(|error| FileError::Archive(error.to_string()))?;
        Ok(FileReply::Written { files: self.files, bytes: self.bytes })
    }
}

/// A name in an archive as a path of plain components. "./name" is usual and means "name".
fn plain(name: &[u8]) -> Result<PathBuf, FileError> {
    let climbs = || {
        let name = String::from_utf8_lossy(name);
        FileError::Archive(format!("{name:?} is no path beneath the directory it is unpacked to"))
    };
    if name.contains(&0) {
        return Err(climbs());
    }
    let mut path = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            _ => return Err(climbs()),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        assert_eq!(plain(b"./a//b/./c/").unwrap(), Path::new("a/b/c"));
        assert_eq!(plain(b"./").unwrap(), Path::new(""));
        for name in [b"/etc/passwd".as_slice(), b"../x", b"a/../../x", b"a/..", b"a\0b"] {
            assert!(matches!(plain(name), Err(FileError::Archive(_))), "{name:?}");
        }
    }
}
