//! A directory's content on its way to the supervisor, as a tar archive in [`Chunks`].
//!
//! Directories and regular files only: a link leads where the tenant likes, also for whoever unpacks
//! it. The walk is depth first, with one open directory for each level and one open file. The last,
//! empty chunk comes only after all of it: an archive that could not be read to its end breaks off.
//!
//! [`Chunks`]: vivarium_protocol::content::Chunks

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::write;
use vivarium_protocol::frame::{PREFIX_BYTES, write_prefix};
use vivarium_protocol::message::{FileKind, FileReply};

use super::tar::{Entry, padding_of, push_end, push_header};
use super::{FileError, Workdir, checked, entry, is_own_directory, kind, open_beneath, size_bytes};

/// The least bytes of a chunk, but for the last ones.
const CHUNK_BYTES: usize = 64 << 10;

/// How many levels of directories are gone into; one that is deeper breaks it off.
const DEPTH_MAX: usize = 64;

/// How many entries are looked at, or chunks sent, in one step.
const STEP_ENTRIES: usize = 256;

#[derive(Debug)]
pub(crate) struct Archive {
    socket: OwnedFd,
    levels: Vec<Level>,
    file: Option<Content>,
    /// A chunk, and how much of it was sent.
    chunk: Vec<u8>,
    sent: usize,
    ended: bool,
}

#[derive(Debug)]
struct Level {
    directory: OwnedFd,
    entries: OwningIter,
    /// Relative to the directory that is sent.
    path: PathBuf,
    /// Whether it is the root of the workdir.
    is_workdir: bool,
}

#[derive(Debug)]
struct Content {
    file: File,
    left: u64,
    padding: usize,
}

impl Level {
    fn open(parent: &impl AsFd, name: &Path, path: PathBuf) -> Result<Self, FileError> {
        let directory = open_beneath(parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let entries = Dir::from_fd(directory.try_clone()?)?.into_iter();
        Ok(Self { directory, entries, path, is_workdir: false })
    }
}

impl Archive {
    /// Begins to send the directory at `path`. Returns the reply that has to go before it, too.
    pub(crate) fn start(
        workdir: &Workdir,
        path: &str,
        socket: OwnedFd,
    ) -> Result<(Self, FileReply), FileError> {
        let path = if path.is_empty() { PathBuf::new() } else { checked(path)? };
        let is_root = path.as_os_str().is_empty();
        let name = if is_root { Path::new(".") } else { &path };
        let top = Level::open(&workdir.root, name, PathBuf::new())?;
        let top = Level { is_workdir: is_root && workdir.prefix.is_empty(), ..top };
        let stat = fstat(&top.directory)?;
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let reply = FileReply::Archive(entry(workdir.shown(&path), &stat));
        let mut chunk = vec![0; PREFIX_BYTES];
        push_header(&mut chunk, header(b"./", &stat, 0));
        let (levels, sent) = (vec![top], 0);
        write_prefix(&mut chunk);
        Ok((Self { socket, levels, file: None, chunk, sent, ended: false }, reply))
    }

    /// Sends as much as the socket takes, within one step, without files of the inodes `hidden`.
    /// Returns whether that was the end, of the archive or of what can be read of it.
    pub(crate) fn step(&mut self, hidden: &[u64]) -> bool {
        for _ in 0..STEP_ENTRIES {
            let Some(rest) = self.chunk.get(self.sent..).filter(|rest| !rest.is_empty()) else {
                if self.ended || self.fill(hidden).is_err() {
                    return true;
                }
                continue;
            };
            match write(&self.socket, rest) {
                Ok(count) => self.sent += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return false,
                Err(_) => return true,
            }
        }
        false
    }

    /// Makes the next chunk; none if it has only looked at entries that are not sent.
    fn fill(&mut self, hidden: &[u64]) -> Result<(), FileError> {
        self.chunk.clear();
        self.sent = 0;
        self.chunk.resize(PREFIX_BYTES, 0);
        for _ in 0..STEP_ENTRIES {
            if self.chunk.len() >= CHUNK_BYTES {
                break;
            }
            if let Some(content) = &mut self.file {
                if content.copy_to(&mut self.chunk)? {
                    self.file = None;
                }
            } else if let Some(level) = self.levels.last_mut() {
                match level.entries.next() {
                    Some(found) => {
                        let found = found?;
                        let name = OsStr::from_bytes(found.file_name().to_bytes());
                        if name != "." && name != ".." && !hidden.contains(&found.ino()) {
                            self.add(Path::new(name))?;
                        }
                    }
                    None => drop(self.levels.pop()),
                }
            } else {
                push_end(&mut self.chunk);
                write_prefix(&mut self.chunk);
                // The empty chunk.
                self.chunk.extend([0; PREFIX_BYTES]);
                self.ended = true;
                return Ok(());
            }
        }
        if self.chunk.len() == PREFIX_BYTES {
            self.chunk.clear();
        } else {
            write_prefix(&mut self.chunk);
        }
        Ok(())
    }

    /// Adds an entry of the innermost directory, unless it is gone or nothing that is sent.
    fn add(&mut self, name: &Path) -> Result<(), FileError> {
        let Some(level) = self.levels.last() else { return Ok(()) };
        let about = match open_beneath(&level.directory, name, OFlag::O_PATH) {
            Err(FileError::NotFound | FileError::Escapes) => return Ok(()),
            found => fstat(&found?)?,
        };
        let path = level.path.join(name);
        match kind(&about) {
            FileKind::Directory if level.is_workdir && is_own_directory(name.as_os_str()) => Ok(()),
            FileKind::Directory => {
                let next = match Level::open(&level.directory, name, path) {
                    Err(FileError::NotFound | FileError::NotDirectory | FileError::Escapes) => {
                        return Ok(());
                    }
                    next => next?,
                };
                if self.levels.len() >= DEPTH_MAX {
                    return Err(FileError::Aborted("it is too deep"));
                }
                let name = [next.path.as_os_str().as_bytes(), b"/"].concat();
                let stat = fstat(&next.directory)?;
                push_header(&mut self.chunk, header(&name, &stat, 0));
                self.levels.push(next);
                Ok(())
            }
            FileKind::File => {
                let opened =
                    open_beneath(&level.directory, name, OFlag::O_RDONLY | OFlag::O_NOCTTY);
                let opened = match opened {
                    Err(FileError::NotFound | FileError::NotRegular | FileError::Escapes) => {
                        return Ok(());
                    }
                    opened => opened?,
                };
                let stat = fstat(&opened)?;
                if kind(&stat) != FileKind::File {
                    return Ok(());
                }
                let left = size_bytes(&stat);
                push_header(&mut self.chunk, header(path.as_os_str().as_bytes(), &stat, left));
                let padding = padding_of(left);
                self.file = Some(Content { file: opened.into(), left, padding });
                Ok(())
            }
            FileKind::Link | FileKind::Other => Ok(()),
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Content {
    /// Appends some of it. Returns whether that was the rest.
    ///
    /// # Errors
    /// If it has become shorter.
    fn copy_to(&mut self, chunk: &mut Vec<u8>) -> Result<bool, FileError> {
        let start = chunk.len();
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        chunk.resize(start + wanted, 0);
        let count = self.file.read(chunk.get_mut(start..).unwrap_or_default())?;
        chunk.truncate(start + count);
        self.left = self.left.saturating_sub(u64::try_from(count).unwrap_or(0));
        if self.left > 0 && count == 0 {
            return Err(FileError::Aborted("a file has become shorter"));
        }
        if self.left == 0 {
            chunk.resize(chunk.len() + self.padding, 0);
        }
        Ok(self.left == 0)
    }
}

fn header<'a>(name: &'a [u8], stat: &FileStat, size: u64) -> Entry<'a> {
    let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
    Entry { name, mode: stat.st_mode & 0o777, size, modified }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;

    use vivarium_protocol::content::{Chunks, Piece};

    use super::*;

    fn sent(workdir: &Workdir, path: &str) -> (Vec<u8>, bool) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut archive, _) = Archive::start(workdir, path, theirs.into()).unwrap();
        let reader = std::thread::spawn(move || {
            let (mut chunks, mut content, mut whole) = (Chunks::default(), Vec::<u8>::new(), false);
            let mut wire = Vec::new();
            (&ours).read_to_end(&mut wire).unwrap();
            let mut input = wire.as_slice();
            loop {
                match chunks.next(&mut input).unwrap() {
                    Piece::Data(data) => content.extend(data),
                    Piece::End => whole = true,
                    Piece::Nothing => return (content, whole),
                }
            }
        });
        while !archive.step(&[]) {
            std::thread::yield_now();
        }
        drop(archive);
        reader.join().unwrap()
    }

    fn workdir() -> (tempfile::TempDir, Workdir) {
        let directory = tempfile::tempdir().unwrap();
        let workdir = Workdir::open(directory.path(), None, None).unwrap();
        (directory, workdir)
    }

    fn unpacked(archive: &[u8]) -> tempfile::TempDir {
        let (directory, workdir) = workdir();
        let mut unpacker = super::super::unpack::Unpacker::new(workdir, PathBuf::new());
        unpacker.take(archive, &mut |_| {}).unwrap();
        unpacker.finish().unwrap();
        directory
    }

    #[test]
    fn a_directory_comes_out_as_it_went_in() {
        let (directory, workdir) = workdir();
        let large: Vec<u8> = (0..3_000_001_u32).map(|at| at.to_le_bytes()[0]).collect();
        workdir.put("d/large", &large).unwrap();
        workdir.put(&format!("d/{}/{}", "x".repeat(200), "y".repeat(200)), b"deep").unwrap();
        workdir.put("d/\u{fc}", b"u").unwrap();
        workdir.put("other", b"").unwrap();
        fs::create_dir_all(directory.path().join("d/empty")).unwrap();
        let (archive, whole) = sent(&workdir, "d");
        assert!(whole);
        let out = unpacked(&archive);
        assert!(fs::read(out.path().join("large")).unwrap() == large);
        assert_eq!(fs::read(out.path().join("\u{fc}")).unwrap(), b"u");
        assert!(out.path().join("empty").is_dir());
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 4);
        let (archive, whole) = sent(&workdir, "d/empty");
        assert!(whole);
        assert_eq!(fs::read_dir(unpacked(&archive).path()).unwrap().count(), 0);
    }

    #[test]
    fn links_pipes_and_own_directories_are_left_out() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "of the host").unwrap();
        let (directory, workdir) = workdir();
        symlink(outside.path(), directory.path().join("dir")).unwrap();
        symlink(outside.path().join("secret"), directory.path().join("link")).unwrap();
        nix::unistd::mkfifo(&directory.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["f", ".cache/a", ".tmp/a", ".mine/a", "sub/.cache/a"] {
            workdir.put(name, b"mine").unwrap();
        }
        let (archive, whole) = sent(&workdir, "");
        assert!(whole);
        let out = unpacked(&archive);
        let mut names: Vec<_> = fs::read_dir(out.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".mine", "f", "sub"]);
        assert!(out.path().join("sub/.cache/a").exists());
        assert!(!archive.windows(11).any(|bytes| bytes == b"of the host"));
        let (archive, _) = sent(&workdir, ".cache");
        assert!(unpacked(&archive).path().join("a").exists(), "who asks for it gets it");
    }

    #[test]
    fn an_archive_of_a_tree_that_is_too_deep_breaks_off() {
        let (_directory, workdir) = workdir();
        workdir.put(&format!("{}f", "d/".repeat(62)), b"").unwrap();
        assert!(sent(&workdir, "").1, "the control");
        workdir.put(&format!("{}f", "d/".repeat(70)), b"").unwrap();
        assert!(!sent(&workdir, "").1);
    }
}
