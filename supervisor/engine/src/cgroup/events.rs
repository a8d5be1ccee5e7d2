//! What the kernel counts against tenant code: kills for want of memory, forks refused.

use std::fs::File;
use std::future;
use std::io;
use std::path::Path;
use std::sync::Once;

use super::files;
use super::watch::Watched;

/// What `memory.events` and `pids.events` have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupEventCounts {
    pub oom_kills: u64,
    pub forks_refused: u64,
}

impl CgroupEventCounts {
    pub const fn since(self, before: Self) -> Self {
        Self {
            oom_kills: self.oom_kills.saturating_sub(before.oom_kills),
            forks_refused: self.forks_refused.saturating_sub(before.forks_refused),
        }
    }
}

/// The files, open. Either is absent without its controller; the default has none.
#[derive(Debug, Default)]
pub struct Events {
    memory: Option<Source>,
    pids: Option<Source>,
}

/// A file that is read, and waited for where that can be.
#[derive(Debug)]
enum Source {
    Watched(Watched),
    Unwatched(File),
}

impl Events {
    /// Opens what there is: kills are counted by leaf, refused forks with all leaves together. Has
    /// to be called where tokio runs.
    pub(crate) fn open(leaf: &Path, kernel: &Path) -> Self {
        let open = |dir: &Path, name: &str| File::open(dir.join(name)).ok().map(Source::of);
        Self { memory: open(leaf, "memory.events"), pids: open(kernel, "pids.events") }
    }

    /// What has been counted so far. What can not be read is as it was when last read.
    pub fn read(&self, last: CgroupEventCounts) -> CgroupEventCounts {
        let value = |source: &Option<Source>, key| files::keyed_in(source.as_ref()?.file(), key);
        CgroupEventCounts {
            oom_kills: value(&self.memory, "oom_kill").unwrap_or(last.oom_kills),
            forks_refused: value(&self.pids, "max").unwrap_or(last.forks_refused),
        }
    }

    /// Waits until something may have been counted since this was last asked; for ever where
    /// the kernel tells nothing. May be dropped and asked again without missing anything.
    pub async fn changed(&self) {
        tokio::select! {
            () = changed(self.memory.as_ref()) => {}
            () = changed(self.pids.as_ref()) => {}
        }
    }
}

impl Source {
    fn of(file: File) -> Self {
        Watched::new(file).map_or_else(
            |(file, error)| {
                warn_once(&error);
                Self::Unwatched(file)
            },
            Self::Watched,
        )
    }

    fn file(&self) -> &File {
        match self {
            Self::Watched(watched) => watched.file(),
            Self::Unwatched(file) => file,
        }
    }
}

async fn changed(source: Option<&Source>) {
    // It fails when the runtime is going, and with it whoever waits.
    match source {
        Some(Source::Watched(watched)) if watched.changed().await.is_ok() => {}
        _ => future::pending().await,
    }
}

/// It would be the same for every session.
fn warn_once(error: &io::Error) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            %error,
            "cgroup events can not be watched: limits that are reached are counted when the \
             execution ends"
        );
    });
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    use futures_util::FutureExt;
    use nix::sys::socket::{self, MsgFlags};

    use super::*;

    fn leaf(memory: &str, pids: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("memory.events"), memory).unwrap();
        std::fs::write(dir.path().join("pids.events"), pids).unwrap();
        dir
    }

    /// epoll(7) refuses ordinary files, as it would all files were its limit reached.
    #[tokio::test]
    async fn unwatchable_file_is_still_read() {
        let dir = leaf("low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n", "max 3\n");
        let events = Events::open(dir.path(), dir.path());
        assert!(matches!(events.pids, Some(Source::Unwatched(_))));
        let first = events.read(CgroupEventCounts::default());
        assert_eq!(first, CgroupEventCounts { oom_kills: 2, forks_refused: 3 });
        std::fs::write(dir.path().join("pids.events"), "max 70\n").unwrap();
        let second = events.read(first);
        assert_eq!(second.since(first), CgroupEventCounts { oom_kills: 0, forks_refused: 67 });
    }

    /// On a socket, whose urgent data epoll(7) tells as it tells of changes of cgroup files.
    #[tokio::test]
    async fn whoever_waits_is_woken_by_a_change_and_not_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (watched, _) = listener.accept().unwrap();
        let source = Source::of(File::from(OwnedFd::from(watched)));
        assert!(matches!(source, Source::Watched(_)));
        let events = Events { memory: None, pids: Some(source) };
        assert_eq!(events.changed().now_or_never(), None);
        socket::send(other.as_raw_fd(), b"!", MsgFlags::MSG_OOB).unwrap();
        tokio::time::timeout(Duration::from_secs(60), events.changed()).await.unwrap();
        assert_eq!(events.changed().now_or_never(), None);
        assert_eq!(Events::default().changed().now_or_never(), None);
    }

    #[tokio::test]
    async fn missing_event_file_counts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let last = CgroupEventCounts { oom_kills: 1, forks_refused: 2 };
        for events in [Events::open(dir.path(), dir.path()), Events::default()] {
            assert_eq!(events.read(last), last);
        }
        let dir = leaf("", "nonsense");
        assert_eq!(Events::open(dir.path(), dir.path()).read(last), last);
    }
}
