//! Single entries: what is there, new directories, other names, permissions.
//!
//! What is changed is named by an open directory and one name in it, or is itself open, so a link that
//! is put in its place meanwhile is never followed.

use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod, fstat, fstatat};
use vivarium_protocol::message::{FileEntry, FileKind};

use super::{FileError, Workdir, checked, entry, kind, open_beneath};

impl Workdir {
    /// What is at `path`; the directory itself if it is empty.
    pub(crate) fn entry(&self, path: &str) -> Result<FileEntry, FileError> {
        if path.is_empty() {
            return Ok(entry(self.shown(Path::new("")), &fstat(&self.root)?));
        }
        let path = checked(path)?;
        Ok(entry(self.shown(&path), &self.stat(&path)?))
    }

    /// Makes a directory, and those it lies in where they are missing. Returns whether it is new.
    pub(crate) fn make_directory(&self, path: &str) -> Result<bool, FileError> {
        let path = checked(path)?;
        let is_new = matches!(self.stat(&path), Err(FileError::NotFound));
        self.make_directories(&path)?;
        Ok(is_new)
    }

    /// Gives what is at `path` another name. A link is moved itself.
    pub(crate) fn rename(
        &self,
        path: &str,
        to: &str,
        replace: bool,
    ) -> Result<FileEntry, FileError> {
        let (path, to) = (checked(path)?, checked(to)?);
        let (from, name) = self.open_parent(&path)?;
        // Before directories are made for it.
        fstatat(&from, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let new_name = to.file_name().ok_or(FileError::Name)?;
        let parent = self.make_directories(to.parent().unwrap_or(Path::new("")))?;
        let renamed = if replace {
            renameat(&from, name, &parent, new_name)
        } else {
            renameat2(&from, name, &parent, new_name, RenameFlags::RENAME_NOREPLACE)
        };
        match renamed {
            Ok(()) => Ok(entry(
                self.shown(&to),
                &fstatat(&parent, new_name, AtFlags::AT_SYMLINK_NOFOLLOW)?,
            )),
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::EISDIR | Errno::ENOTDIR) => {
                Err(FileError::Exists)
            }
            Err(Errno::EINVAL) => Err(FileError::IntoItself),
            // A mount in the workdir.
            Err(Errno::EXDEV | Errno::EBUSY) => Err(FileError::OtherRoot),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Changes the permissions of a regular file or directory: nothing else is opened to be changed.
    pub(crate) fn set_mode(&self, path: &str, mode: u32) -> Result<FileEntry, FileError> {
        let path = checked(path)?;
        let before = self.stat(&path)?;
        match kind(&before) {
            FileKind::File | FileKind::Directory => {}
            FileKind::Link => return Err(FileError::Escapes),
            FileKind::Other => return Err(FileError::NotRegular),
        }
        let opened = open_beneath(&self.root, &path, OFlag::O_RDONLY | OFlag::O_NOCTTY)?;
        // It may have become something else.
        if !matches!(kind(&fstat(&opened)?), FileKind::File | FileKind::Directory) {
            return Err(FileError::NotRegular);
        }
        fchmod(&opened, Mode::from_bits_truncate(mode & 0o777))?;
        Ok(entry(self.shown(&path), &fstat(&opened)?))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn workdir() -> (tempfile::TempDir, Workdir) {
        let directory = tempfile::tempdir().unwrap();
        let workdir = Workdir::open(directory.path(), None, None).unwrap();
        (directory, workdir)
    }

    #[test]
    fn entries_are_moved_and_replaced_only_on_request() {
        let (directory, workdir) = workdir();
        workdir.put("a", b"a").unwrap();
        workdir.put("b", b"bb").unwrap();
        assert!(matches!(workdir.rename("a", "b", false), Err(FileError::Exists)));
        assert_eq!(workdir.rename("a", "d/e/b", false).unwrap().path, "d/e/b");
        assert_eq!(workdir.rename("b", "d/e/b", true).unwrap().size_bytes, 2);
        assert!(matches!(workdir.rename("b", "n/c", true), Err(FileError::NotFound)));
        assert!(!directory.path().join("n").exists(), "nothing is made for nothing");
        assert!(matches!(workdir.rename("d", "d/e/f", true), Err(FileError::IntoItself)));
        workdir.put("f", b"").unwrap();
        for replace in [false, true] {
            assert!(matches!(workdir.rename("f", "d", replace), Err(FileError::Exists)));
            assert!(matches!(workdir.rename("d", "f", replace), Err(FileError::Exists)));
        }
        for bad in ["", "..", "/x", "a/.."] {
            assert!(matches!(workdir.rename("f", bad, true), Err(FileError::Name)), "{bad:?}");
            assert!(matches!(workdir.rename(bad, "g", true), Err(FileError::Name)), "{bad:?}");
        }
    }

    #[test]
    fn no_entry_is_changed_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "host").unwrap();
        let before = fs::metadata(outside.path().join("kept")).unwrap().permissions();
        let (directory, workdir) = workdir();
        symlink(outside.path().join("kept"), directory.path().join("link")).unwrap();
        symlink(outside.path(), directory.path().join("dir")).unwrap();
        workdir.put("mine", b"").unwrap();
        for path in ["link", "dir/kept"] {
            assert!(matches!(workdir.set_mode(path, 0o777), Err(FileError::Escapes)), "{path}");
        }
        for (from, to) in [("dir/kept", "x"), ("mine", "dir/x"), ("mine", "dir/kept")] {
            let moved = workdir.rename(from, to, true);
            assert!(
                matches!(moved, Err(FileError::Escapes | FileError::NotDirectory)),
                "{moved:?}"
            );
        }
        assert!(workdir.make_directory("dir/new").is_err());
        assert_eq!(workdir.entry("link").unwrap().kind, FileKind::Link);
        assert!(workdir.entry("dir/kept").is_err());
        // A link is moved, and not what it leads to.
        assert_eq!(workdir.rename("link", "moved", false).unwrap().kind, FileKind::Link);
        let after = fs::metadata(outside.path().join("kept")).unwrap().permissions();
        assert_eq!(before, after);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn permissions_are_only_permissions() {
        let (directory, workdir) = workdir();
        workdir.put("f", b"").unwrap();
        assert!(workdir.make_directory("d/e").unwrap());
        assert!(!workdir.make_directory("d/e").unwrap());
        assert!(matches!(workdir.make_directory("f"), Err(FileError::NotDirectory)));
        assert_eq!(workdir.set_mode("f", 0o6741).unwrap().mode, 0o741);
        let mode = fs::metadata(directory.path().join("f")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o741);
        assert_eq!(workdir.set_mode("d/e", 0o700).unwrap().mode, 0o700);
        assert_eq!(workdir.entry("d/e").unwrap().mode, 0o700);
        assert_eq!(workdir.entry("").unwrap().kind, FileKind::Directory);
        nix::unistd::mkfifo(&directory.path().join("pipe"), Mode::S_IRWXU).unwrap();
        assert!(matches!(workdir.set_mode("pipe", 0o700), Err(FileError::NotRegular)));
    }
}
