//! Waits until tenants may have changed: inotify(7) tells of the directory, a timer of all else.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep, sleep_until};
use vivarium_engine::settings::TenantSources;

/// How long it is waited for more, as files are often changed together.
const SETTLE: Duration = Duration::from_millis(100);

/// inotify, as the runtime wants it.
#[derive(Debug)]
struct Watching(Inotify);

impl AsRawFd for Watching {
    fn as_raw_fd(&self) -> RawFd {
        let fd: BorrowedFd<'_> = self.0.as_fd();
        fd.as_raw_fd()
    }
}

/// What is watched; nothing where there are no other sources.
#[derive(Debug)]
pub struct TenantWatch {
    directory: Option<(PathBuf, Option<AsyncFd<Watching>>)>,
    /// When to look without being told.
    next: Option<Instant>,
    interval: Duration,
}

impl TenantWatch {
    /// Begins to watch these: what changes from now on is told.
    #[must_use]
    pub fn new(sources: &TenantSources) -> Self {
        let directory = sources.directory.clone();
        Self {
            directory: directory.map(|directory| (directory.clone(), watch(&directory))),
            next: sources.is_configured().then(|| Instant::now() + sources.interval),
            interval: sources.interval,
        }
    }

    /// Returns once tenants may have changed.
    pub async fn changed(&mut self) {
        tokio::select! {
            () = told(self.directory.as_ref().and_then(|(_, watching)| watching.as_ref())) => {
                sleep(SETTLE).await;
            }
            () = reached(self.next) => {}
        }
        self.next = self.next.map(|_| Instant::now() + self.interval);
        if let Some((path, watching)) = &mut self.directory {
            // Another directory may be there now, of which this one tells nothing. What happens until
            // the caller has read it is told again.
            *watching = watch(path);
        }
    }
}

fn watch(directory: &PathBuf) -> Option<AsyncFd<Watching>> {
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    let begin = || -> std::io::Result<_> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(directory, flags)?;
        #[expect(
            deprecated,
            reason = "the replacement is unsafe for the sake of types whose as_raw_fd lies; Watching's does not"
        )]
        AsyncFd::with_interest(Watching(inotify), Interest::READABLE)
    };
    begin()
        .inspect_err(|error| {
            let path = directory.display();
            tracing::warn!(%error, "{path} is not watched, and read every tenants.interval");
        })
        .ok()
}

async fn told(watching: Option<&AsyncFd<Watching>>) {
    match watching {
        Some(watching) => {
            let readable = watching.readable().await;
            if readable.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(directory: PathBuf, interval: Duration) -> TenantSources {
        TenantSources { directory: Some(directory), interval, ..TenantSources::default() }
    }

    #[tokio::test]
    async fn changes_are_told_also_of_a_directory_that_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join("d");
        std::fs::create_dir(&directory).unwrap();
        let mut watch = TenantWatch::new(&sources(directory.clone(), Duration::from_secs(3600)));
        let is_told = tokio::time::timeout(Duration::from_millis(50), watch.changed()).await;
        assert!(is_told.is_err(), "nothing has changed");
        std::fs::write(directory.join("a.toml"), "").unwrap();
        watch.changed().await;
        std::fs::create_dir(temp.path().join("e")).unwrap();
        std::fs::rename(&directory, temp.path().join("old")).unwrap();
        std::fs::rename(temp.path().join("e"), &directory).unwrap();
        watch.changed().await;
        std::fs::write(directory.join("b.toml"), "").unwrap();
        watch.changed().await;
    }

    #[tokio::test]
    async fn what_can_not_be_watched_is_looked_at_in_intervals() {
        let missing = sources("/nonexistent/x".into(), Duration::from_millis(20));
        TenantWatch::new(&missing).changed().await;
        let mut none = TenantWatch::new(&TenantSources::default());
        assert!(tokio::time::timeout(Duration::from_millis(50), none.changed()).await.is_err());
    }
}
