//! Delegates a part of the cgroup v2 tree to the user the daemon will become, as systemd's
//! `Delegate=` does for a unit ("Delegation" in `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! The daemon can not remove the directory at its end: the parent is root's, and the daemon is inside
//! it. The next start as root removes it, as [`cgroup::sweep`] does for all of a daemon that is gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::chown;
use vivarium_engine::cgroup::{self, Mounts};

use crate::Account;

/// The files delegated with the directory: the right to move processes and to enable controllers
/// below. The limits of the directory stay root's.
const FILES: [&str; 3] = ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"];

/// Controllers that limits of a session need.
const CONTROLLERS: [&str; 4] = ["memory", "pids", "cpu", "io"];

/// The prefix of the directories' names, which [`cgroup::sweep`] expects.
const PREFIX: &str = "vivarium-";

const ATTEMPTS: usize = 5;

/// Makes a directory below the daemon's cgroup, gives it to `account` and moves the daemon into it.
///
/// `None` if that is not possible: the engine then finds out itself what there is, and reports why
/// the layer is missing.
pub(super) fn delegate(account: &Account) -> Option<PathBuf> {
    let base = own_directory()?;
    sweep(&base);
    for _ in 0..ATTEMPTS {
        match make(&base, account) {
            Ok(dir) => return Some(dir),
            // Another start took it for a left-over before the daemon was in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(base = %base.display(), %error, "no cgroup could be delegated");
                return None;
            }
        }
    }
    None
}

fn own_directory() -> Option<PathBuf> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    Mounts::parse(&mountinfo, &own).own
}

fn make(base: &Path, account: &Account) -> io::Result<PathBuf> {
    let dir = base.join(format!("{PREFIX}{}", uuid::Uuid::new_v4().simple()));
    fs::create_dir(&dir)?;
    let fill = || -> io::Result<()> {
        // Clone into a cgroup needs write access to the common ancestor's cgroup.procs too
        // (cgroups(7)), so we have to be inside before we are somebody else.
        fs::write(dir.join("cgroup.procs"), "0")?;
        for controller in CONTROLLERS {
            // Refused where processes are left in `base`, and for controllers that are not
            // there. What the sessions then have is read back by the engine.
            if let Err(error) =
                fs::write(base.join("cgroup.subtree_control"), format!("+{controller}"))
            {
                tracing::debug!(controller, %error, "controller not enabled");
            }
        }
        chown(&dir, Some(account.uid), Some(account.gid))?;
        for file in FILES {
            chown(&dir.join(file), Some(account.uid), Some(account.gid))?;
        }
        Ok(())
    };
    fill().inspect_err(|_| {
        // Best effort: an empty directory in cgroupfs is swept by the next start as well.
        if fs::write(base.join("cgroup.procs"), "0").is_ok() {
            fs::remove_dir(&dir).unwrap_or_default();
        }
    })?;
    Ok(dir)
}

/// Removes what earlier daemons have left in `base`.
fn sweep(base: &Path) {
    // rmdir(2) refuses a cgroup that has processes or children, and so every one in use.
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Err(error) = fs::remove_dir(entry.path())
        {
            tracing::trace!(%error, cgroup = %entry.path().display(), "in use, or not empty");
        }
    }
    // A daemon that was killed leaves more. A current-thread runtime, since there must be no other
    // thread before root is given up.
    let swept = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map(|runtime| runtime.block_on(cgroup::sweep(base)));
    match swept {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a left-over cgroup stays"),
        Err(error) => tracing::debug!(%error, "left-over cgroups stay"),
    }
}
