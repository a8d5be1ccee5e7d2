//! Whose memory was used up when tenant code was killed for want of it.
//!
//! `memory.events.local` counts in `oom` how often the limit of that very cgroup was reached and
//! nothing could be reclaimed, where `memory.events` adds up those below it
//! (`Documentation/admin-guide/cgroup-v2.rst`).

use std::path::{Path, PathBuf};

use super::files;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OomOrigin {
    /// The session's own. So too where the kernel does not say.
    #[default]
    Session,
    /// What all sessions of the tenant may use together.
    Tenant {
        /// Its ceiling now, in bytes, if it still has one.
        max_bytes: Option<u64>,
    },
    Host,
}

/// What has been asked about so far. The default knows nothing. Each leaf and each command has its
/// own: one limit that was reached may have cost several of them a process.
#[derive(Debug, Clone, Default)]
pub struct OomAttribution {
    scope: OomCounter,
    tenant: OomCounter,
}

/// A cgroup, and how often its limit was reached when last asked.
#[derive(Debug, Clone, Default)]
struct OomCounter {
    dir: PathBuf,
    ooms: u64,
}

impl OomAttribution {
    /// From now on. `scope` is a session's directory, in that of its tenant.
    pub(super) fn from_now(scope: &Path) -> Self {
        let counter = |dir: &Path| {
            let mut counter = OomCounter { dir: dir.to_owned(), ooms: 0 };
            counter.increased();
            counter
        };
        Self { scope: counter(scope), tenant: scope.parent().map(counter).unwrap_or_default() }
    }

    /// What was used up since this was last asked, after a process of the session was killed.
    pub fn origin(&mut self) -> OomOrigin {
        // Both are asked, so that neither is told of again.
        match (self.scope.increased(), self.tenant.increased()) {
            (Some(true) | None, _) | (_, None) => OomOrigin::Session,
            (_, Some(true)) => {
                OomOrigin::Tenant { max_bytes: files::number(&self.tenant.dir.join("memory.max")) }
            }
            (_, Some(false)) => OomOrigin::Host,
        }
    }
}

impl OomCounter {
    /// Whether its limit was reached since this was last asked.
    fn increased(&mut self) -> Option<bool> {
        let now = files::keyed(&self.dir.join("memory.events.local"), "oom")?;
        let before = std::mem::replace(&mut self.ooms, now);
        Some(now > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_limit_that_was_reached_is_told_once() {
        let tenant = tempfile::tempdir().unwrap();
        let scope = tenant.path().join("s");
        fs::create_dir(&scope).unwrap();
        let count = |dir: &Path, ooms: u64| {
            let text = format!("low 0\nhigh 0\nmax 9\noom {ooms}\noom_kill 7\noom_group_kill 0\n");
            fs::write(dir.join("memory.events.local"), text).unwrap();
        };
        fs::write(tenant.path().join("memory.max"), "1048576\n").unwrap();
        count(&scope, 0);
        count(tenant.path(), 3);
        let mut oom = OomAttribution::from_now(&scope);
        assert_eq!(oom.origin(), OomOrigin::Host, "what was before the session is not its own");
        count(tenant.path(), 4);
        assert_eq!(oom.origin(), OomOrigin::Tenant { max_bytes: Some(1 << 20) });
        assert_eq!(oom.origin(), OomOrigin::Host);
        count(&scope, 1);
        count(tenant.path(), 5);
        assert_eq!(oom.origin(), OomOrigin::Session);
        assert_eq!(oom.origin(), OomOrigin::Host);
        fs::write(tenant.path().join("memory.max"), "max\n").unwrap();
        count(tenant.path(), 6);
        assert_eq!(oom.origin(), OomOrigin::Tenant { max_bytes: None });
        fs::remove_file(scope.join("memory.events.local")).unwrap();
        assert_eq!(oom.origin(), OomOrigin::Session);
        assert_eq!(OomAttribution::default().origin(), OomOrigin::Session);
    }
}
