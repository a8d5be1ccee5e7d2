//! Whose a file has to be, so that nobody else adds tenants.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

/// Writing for the group and for others, and the sticky bit (inode(7)).
const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why something is not trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untrusted {
    #[error("{path}: cannot be looked at", path = path.display())]
    Look { path: PathBuf, source: std::io::Error },
    #[error("{path}: belongs to uid {uid}, who is neither root nor the daemon's user", path = path.display())]
    Owner { path: PathBuf, uid: u32 },
    #[error("{path}: others than its owner can write to it (mode {mode:04o})", path = path.display())]
    Writable { path: PathBuf, mode: u32 },
}

/// Who may own what says who the tenants are: root, this process's user, and the one that the daemon
/// runs as.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) daemon: Option<User>,
}

impl Owners {
    pub(super) fn with(user: &str) -> Self {
        let found = match user.parse() {
            Ok(uid) => User::from_uid(Uid::from_raw(uid)),
            Err(_) => User::from_name(user),
        };
        Self { daemon: found.ok().flatten() }
    }

    /// Checks a file or directory of which the metadata are known.
    pub(super) fn check(&self, path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
        self.check_owner(path, metadata)?;
        let mode = metadata.mode() & 0o7777;
        if mode & WRITABLE != 0 {
            return Err(Untrusted::Writable { path: path.to_owned(), mode });
        }
        Ok(())
    }

    /// Checks what is at a path, and that nobody else can put something else there.
    pub(super) fn check_with_parents(&self, path: &Path) -> Result<(), Untrusted> {
        let look = |source| Untrusted::Look { path: path.to_owned(), source };
        let real = path.canonicalize().map_err(look)?;
        let metadata = std::fs::symlink_metadata(&real).map_err(look)?;
        self.check(&real, &metadata)?;
        // Where a link leads, and where it stands.
        let standing = path.parent().and_then(|parent| parent.canonicalize().ok());
        for path in real.ancestors().skip(1).chain(standing.iter().flat_map(|it| it.ancestors())) {
            let metadata = std::fs::symlink_metadata(path)
                .map_err(|source| Untrusted::Look { path: path.to_owned(), source })?;
            self.check_owner(path, &metadata)?;
            let mode = metadata.mode() & 0o7777;
            if mode & WRITABLE != 0 && mode & STICKY == 0 {
                return Err(Untrusted::Writable { path: path.to_owned(), mode });
            }
        }
        Ok(())
    }

    fn check_owner(&self, path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
        let uid = metadata.uid();
        let is_daemons = self.daemon.as_ref().is_some_and(|user| user.uid.as_raw() == uid);
        if uid == 0 || uid == Uid::effective().as_raw() || is_daemons {
            return Ok(());
        }
        Err(Untrusted::Owner { path: path.to_owned(), uid })
    }
}
