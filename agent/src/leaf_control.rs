//! Control of a leaf of the session's cgroup: to kill all that is in it, and to see it empty.
//!
//! The supervisor opens the files, which are in no session's root. What they belong to can not be told
//! from them: whoever passes them on says which leaf it is.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The longest time between two kills of what goes on arriving.
const CLEAR_INTERVAL_MS: u16 = 50;

#[derive(Debug)]
pub(crate) struct LeafControl {
    /// `cgroup.kill` (cgroups(7), Linux 5.14).
    kill: File,
    /// `cgroup.events`.
    events: File,
}

impl LeafControl {
    /// # Errors
    /// If `events` is no such file.
    pub(crate) fn new(kill: OwnedFd, events: OwnedFd) -> io::Result<Self> {
        let leaf = Self { kill: kill.into(), events: events.into() };
        leaf.is_populated().map(|_| leaf)
    }

    /// What [`Self::new`] takes, in that order.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.kill.as_fd(), self.events.as_fd()]
    }

    /// Kills every process that is in it, and those that these fork meanwhile. Not one that is being
    /// started in it from outside: see [`Self::clear`].
    pub(crate) fn kill(&self) -> io::Result<()> {
        match (&self.kill).write_all(b"1") {
            Err(error) if is_gone(&error) => Ok(()),
            written => written,
        }
    }

    /// Kills until nothing is left in it, whatever arrives meanwhile.
    pub(crate) fn clear(&self) -> io::Result<()> {
        loop {
            self.kill()?;
            if !self.is_populated()? {
                return Ok(());
            }
            // The host's kernel says by POLLPRI that the file has changed since it was read.
            let mut fds = [PollFd::new(self.events.as_fd(), PollFlags::POLLPRI)];
            match poll(&mut fds, PollTimeout::from(CLEAR_INTERVAL_MS)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a process is in it that has not ended. One that nobody has waited for has.
    fn is_populated(&self) -> io::Result<bool> {
        let mut buffer = [0; 256];
        let count = match self.events.read_at(&mut buffer, 0) {
            Err(error) if is_gone(&error) => return Ok(false),
            read => read?,
        };
        let text = String::from_utf8_lossy(buffer.get(..count).unwrap_or_default());
        match text.lines().find_map(|line| line.strip_prefix("populated ")) {
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            _ => Err(io::Error::other("these are no events of a cgroup")),
        }
    }
}

/// Whether its cgroup was removed, which only an empty one can be.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENODEV as i32)
}

#[cfg(test)]
pub(crate) mod fake {
    //! A directory in place of a leaf.

    use std::fs::{self, File, OpenOptions};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;

    use tempfile::TempDir;

    pub(crate) struct FakeLeaf(TempDir);

    impl FakeLeaf {
        /// An empty one.
        pub(crate) fn new() -> Self {
            let leaf = Self(tempfile::tempdir().unwrap());
            fs::write(leaf.0.path().join("cgroup.kill"), "").unwrap();
            leaf.set_populated(false);
            leaf
        }

        pub(crate) fn set_populated(&self, populated: bool) {
            let text = format!("populated {}\nfrozen 0\n", u8::from(populated));
            let events = self.0.path().join("cgroup.events");
            // In place: somebody may read it.
            let events = OpenOptions::new().create(true).truncate(false).write(true).open(events);
            events.unwrap().write_all_at(text.as_bytes(), 0).unwrap();
        }

        /// What the supervisor sends.
        pub(crate) fn files(&self) -> [OwnedFd; 2] {
            let kill = self.0.path().join("cgroup.kill");
            let kill = OpenOptions::new().append(true).open(kill).unwrap();
            [kill.into(), File::open(self.0.path().join("cgroup.events")).unwrap().into()]
        }

        /// How often all in it was killed.
        pub(crate) fn kills(&self) -> usize {
            fs::read_to_string(self.0.path().join("cgroup.kill")).unwrap().len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::FakeLeaf;
    use super::*;

    fn control(leaf: &FakeLeaf) -> LeafControl {
        let [kill, events] = leaf.files();
        LeafControl::new(kill, events).unwrap()
    }

    #[test]
    fn an_empty_leaf_is_cleared_by_one_kill() {
        let leaf = FakeLeaf::new();
        let control = control(&leaf);
        control.kill().unwrap();
        control.clear().unwrap();
        assert_eq!(leaf.kills(), 2);
    }

    #[test]
    fn a_leaf_is_killed_again_until_nothing_is_left_in_it() {
        let leaf = FakeLeaf::new();
        let control = control(&leaf);
        leaf.set_populated(true);
        std::thread::scope(|scope| {
            let clearing = scope.spawn(|| control.clear());
            while leaf.kills() < 3 {
                std::thread::yield_now();
            }
            assert!(!clearing.is_finished(), "something is left in it");
            leaf.set_populated(false);
            clearing.join().unwrap().unwrap();
        });
    }

    #[test]
    fn files_that_are_no_leafs_are_refused() {
        let leaf = FakeLeaf::new();
        let [kill, _] = leaf.files();
        let other = File::open("/dev/null").unwrap();
        assert!(LeafControl::new(kill, other.into()).is_err());
    }
}
