//! Files put into the workdir on a client's behalf.
//!
//! The workdir is the tenant's, so any name in it may be a trap: a symbolic link out of it, a
//! FIFO that blocks, a directory swapped while we look. Every open is one openat2(2) beneath
//! the workdir through no link at all, never blocks, and is used only if it turns out to be a
//! regular file.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::fchown;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use vivarium_protocol::message::InputFile;

/// Why a file could not be put there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The name is no path beneath the workdir.
    #[error("the name must be a relative path without \"..\" or \".\"")]
    Name,
    /// What stands at the name is not a regular file.
    #[error("there is something that is not a regular file at this name")]
    NotRegular,
    /// A link, or something else the path must not go through.
    #[error("the path goes through a symbolic link, or out of the workdir")]
    Escapes,
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ELOOP | Errno::EXDEV => Self::Escapes,
            // A FIFO without a reader, a socket, a directory.
            Errno::ENXIO | Errno::EISDIR => Self::NotRegular,
            other => Self::Io(other.into()),
        }
    }
}

/// Writes `file` beneath `workdir`, making the directories it lies in, all owned by `owner`.
///
/// # Errors
/// [`FileError`]; nothing outside the workdir has then been touched.
pub(crate) fn put(workdir: &Path, file: &InputFile, owner: Option<u32>) -> Result<(), FileError> {
    let name = checked_name(&file.name)?;
    let directory = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(workdir, OFlag::O_PATH | directory, Mode::empty())?;
    make_parents(&root, &name, owner)?;
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let opened = openat2(&root, &name, beneath(flags).mode(Mode::from_bits_truncate(0o644)))?;
    let kind = SFlag::from_bits_truncate(fstat(&opened)?.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG {
        return Err(FileError::NotRegular);
    }
    give(&opened, owner)?;
    let mut opened = File::from(opened);
    opened.set_len(0)?;
    opened.write_all(&file.data)?;
    Ok(())
}

/// How every path of a tenant's is resolved.
fn beneath(flags: OFlag) -> OpenHow {
    OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    )
}

/// The name as a path of plain components.
fn checked_name(name: &str) -> Result<PathBuf, FileError> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || name.contains('\0') || name.ends_with('/') || !plain {
        return Err(FileError::Name);
    }
    Ok(path.to_owned())
}

/// Makes the directories that `name` lies in, those that are missing.
fn make_parents(root: &OwnedFd, name: &Path, owner: Option<u32>) -> Result<(), FileError> {
    let parents = name.parent().into_iter().flat_map(Path::components);
    let mut at = root.try_clone()?;
    for part in parents {
        let part = Path::new(part.as_os_str());
        let made = match mkdirat(&at, part, Mode::from_bits_truncate(0o755)) {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let next = openat2(&at, part, beneath(flags))?;
        if made {
            give(&next, owner)?;
        }
        at = next;
    }
    Ok(())
}

/// Makes `owner` the owner, where it is not the agent's own id.
fn give(file: &impl AsFd, owner: Option<u32>) -> io::Result<()> {
    owner.map_or(Ok(()), |id| fchown(file, Some(id), Some(id)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn input(name: &str) -> InputFile {
        InputFile { name: name.to_owned(), data: b"data".to_vec() }
    }

    #[test]
    fn a_file_lands_where_it_says() {
        let workdir = tempfile::tempdir().unwrap();
        put(workdir.path(), &input("a/b/c.txt"), None).unwrap();
        assert_eq!(fs::read(workdir.path().join("a/b/c.txt")).unwrap(), b"data");
        put(workdir.path(), &InputFile { data: b"2".to_vec(), ..input("a/b/c.txt") }, None)
            .unwrap();
        assert_eq!(fs::read(workdir.path().join("a/b/c.txt")).unwrap(), b"2");
    }

    #[test]
    fn names_that_climb_are_refused() {
        let workdir = tempfile::tempdir().unwrap();
        for name in ["", "/etc/x", "../x", "a/../../x", "a/..", ".", "a/", "a\0b"] {
            assert!(matches!(put(workdir.path(), &input(name), None), Err(FileError::Name)));
        }
    }

    #[test]
    fn planted_links_and_pipes_are_refused() {
        let outside = tempfile::tempdir().unwrap();
        let workdir = tempfile::tempdir().unwrap();
        let target = outside.path().join("target");
        fs::write(&target, "host").unwrap();
        symlink(&target, workdir.path().join("link")).unwrap();
        symlink(outside.path(), workdir.path().join("dir")).unwrap();
        nix::unistd::mkfifo(&workdir.path().join("fifo"), Mode::S_IRWXU).unwrap();
        fs::create_dir(workdir.path().join("sub")).unwrap();
        for (name, escapes) in [("link", true), ("dir/x", true), ("fifo", false), ("sub", false)] {
            let error = put(workdir.path(), &input(name), None).unwrap_err();
            match error {
                FileError::Escapes => assert!(escapes, "{name}"),
                FileError::NotRegular => assert!(!escapes, "{name}"),
                other => panic!("{name}: {other}"),
            }
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "host");
        assert!(!outside.path().join("x").exists());
    }
}
