//! Clearing what an earlier life of the daemon left, before a new one begins.
//!
//! Cgroups are cleared by their own module, which alone writes cgroupfs. Left here are the
//! workdirs on the host that templates, and sessions without the mounts layer, have: directories whose names
//! begin with [`WORKDIR_PREFIX`] in the runtime directory, each with a lock held by its owner.
//! Nothing else in that directory is ever touched.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use vivarium_protocol::one_python::{self, Entry};
use vivarium_protocol::policy::Interpreter;

/// Begins the names of workdirs' parents, one per daemon.
pub const WORKDIR_PREFIX: &str = "workdirs-";

/// Where one daemon's workdirs are. Removed with it.
#[derive(Debug)]
pub struct Workdirs {
    dir: PathBuf,
    _lock: Flock<File>,
}

/// A directory that could not be made or cleared.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub struct WorkdirError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl WorkdirError {
    fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { operation, path, source }
    }
}

impl Workdirs {
    /// Clears what is stale in `runtime_dir` and makes a new, empty directory there.
    pub fn open(runtime_dir: &Path) -> Result<Self, WorkdirError> {
        fs::create_dir_all(runtime_dir).map_err(WorkdirError::at("make", runtime_dir))?;
        clear_stale(runtime_dir);
        let name = uuid::Uuid::new_v4().simple().to_string();
        // It gets the name that others look for only once it is locked.
        let unlocked = runtime_dir.join(format!("new-{name}"));
        let dir = runtime_dir.join(format!("{WORKDIR_PREFIX}{name}"));
        make_private(&unlocked).map_err(WorkdirError::at("make", &unlocked))?;
        let file = File::open(&unlocked).map_err(WorkdirError::at("open", &unlocked))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| WorkdirError::at("lock", &unlocked)(errno.into()))?;
        fs::rename(&unlocked, &dir).map_err(WorkdirError::at("rename", &unlocked))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Makes a workdir. Its name is random: session ids are no path components.
    pub fn make(&self) -> Result<PathBuf, WorkdirError> {
        let dir = self.dir.join(uuid::Uuid::new_v4().simple().to_string());
        make_private(&dir).map_err(WorkdirError::at("make", &dir))?;
        Ok(dir)
    }

    /// Makes a workdir for a session, and beside it the directory of its `python` and `pip`.
    ///
    /// # Errors
    /// [`WorkdirError`].
    pub fn make_for_session(&self, interpreter: &Interpreter) -> Result<PathBuf, WorkdirError> {
        let workdir = self.make()?;
        let bin = one_python::beside_workdir(&workdir);
        write_python(&bin, interpreter, &workdir).map_err(WorkdirError::at("make", &bin))?;
        Ok(workdir)
    }
}

impl Drop for Workdirs {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.dir) {
            tracing::warn!(%error, "workdirs are left in {}", self.dir.display());
        }
    }
}

fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(dir)
}

fn write_python(bin: &Path, interpreter: &Interpreter, workdir: &Path) -> io::Result<()> {
    make_private(bin)?;
    for (name, entry) in one_python::entries(interpreter, &interpreter.path, workdir) {
        let path = bin.join(name);
        match entry {
            Entry::Link(to) => std::os::unix::fs::symlink(to, path)?,
            Entry::Script(text) => {
                fs::write(&path, text)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o555))?;
            }
        }
    }
    Ok(())
}

/// Removes the workdirs of daemons that are no more. What can not be removed is logged, and
/// does not keep a daemon from starting.
pub fn clear_stale(runtime_dir: &Path) {
    match try_clear_stale(runtime_dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "stale workdirs are left in {}", runtime_dir.display());
        }
        _ => {}
    }
}

/// Removes a directory that tenant code may have filled with anything. std descends into it by
/// descriptor and follows no link (CVE-2022-21658), but not into a directory whose owner took
/// the right to from itself. Nothing of the session may be running any more.
pub(crate) fn remove_tree(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir)?;
            fs::remove_dir_all(dir)
        }
        removed => removed,
    }
}

/// Gives the owner every right to the directories in `dir`.
fn open_up(dir: &Path) -> io::Result<()> {
    let mut next = vec![dir.to_owned()];
    while let Some(dir) = next.pop() {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            // Of the entry itself: a link is not followed.
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            }
        }
    }
    Ok(())
}

fn try_clear_stale(runtime_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runtime_dir)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(WORKDIR_PREFIX);
        if !is_ours || !entry.file_type()?.is_dir() {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        if let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            tracing::info!("removing workdirs that an earlier life left");
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_workdirs_go_and_living_ones_stay() {
        let runtime = tempfile::tempdir().unwrap();
        let stale = runtime.path().join(format!("{WORKDIR_PREFIX}dead"));
        fs::create_dir_all(stale.join("a/b")).unwrap();
        fs::create_dir(runtime.path().join("other")).unwrap();
        let first = Workdirs::open(runtime.path()).unwrap();
        let workdir = first.make().unwrap();
        let second = Workdirs::open(runtime.path()).unwrap();
        assert!(!stale.exists());
        assert!(workdir.exists());
        assert!(runtime.path().join("other").exists());
        drop(second);
        drop(first);
        assert!(!workdir.exists());
        assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 1);
    }
}
