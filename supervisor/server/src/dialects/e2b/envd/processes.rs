//! What is kept of the processes of a sandbox: how each was started, and the tag that it was given.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Processes that are kept: more than run at a time.
pub(super) const MAX: usize = 64;

/// What a process was started with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) cmd: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<String>,
}

/// The most bytes of arguments and variables that are kept of a process, and of its tag.
const MAX_CONFIG_BYTES: usize = 16 << 10;
pub(super) const MAX_TAG_BYTES: usize = 256;

impl Config {
    /// What is kept of it: without arguments and variables that are large.
    pub(super) fn kept(self) -> Self {
        let of_envs = self.envs.iter().map(|(name, value)| name.len() + value.len());
        let bytes: usize = self.args.iter().map(String::len).chain(of_envs).sum();
        let mut kept = self;
        if bytes > MAX_CONFIG_BYTES {
            (kept.args, kept.envs) = (Vec::new(), BTreeMap::new());
        }
        kept
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) config: Config,
    pub(super) tag: Option<String>,
    pub(super) has_terminal: bool,
}

/// A process by its number or tag.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Selector {
    pub(super) pid: Option<u32>,
    pub(super) tag: Option<String>,
}

/// The processes of a sandbox, by their numbers.
#[derive(Debug, Default)]
pub(in super::super) struct Processes(Mutex<BTreeMap<u32, Kept>>);

impl Processes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn started(&self, pid: u32, kept: Kept) {
        drop(self.lock().insert(pid, kept));
    }

    pub(super) fn ended(&self, pid: u32) {
        drop(self.lock().remove(&pid));
    }

    pub(super) fn is_full(&self) -> bool {
        self.lock().len() >= MAX
    }

    /// Forgets all but these.
    pub(super) fn retain(&self, running: &[u32]) {
        self.lock().retain(|pid, _| running.contains(pid));
    }

    pub(super) fn find(&self, pid: u32) -> Option<Kept> {
        self.lock().get(&pid).cloned()
    }

    /// The number of a process.
    pub(super) fn pid(&self, selector: &Selector) -> Option<u32> {
        selector.pid.or_else(|| {
            let tag = selector.tag.as_ref()?;
            let all = self.lock();
            all.iter().rev().find(|(_, kept)| kept.tag.as_ref() == Some(tag)).map(|(pid, _)| *pid)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_arguments_are_not_kept() {
        let of = |bytes: usize| Config { args: vec!["x".repeat(bytes)], ..Config::default() };
        assert_eq!(of(MAX_CONFIG_BYTES).kept(), of(MAX_CONFIG_BYTES));
        assert_eq!(of(MAX_CONFIG_BYTES + 1).kept(), Config::default());
    }

    #[test]
    fn tags_name_the_newest_process() {
        let all = Processes::default();
        let kept = |tag: &str| Kept { tag: Some(tag.to_owned()), ..Kept::default() };
        all.started(1, kept("a"));
        all.started(2, kept("a"));
        all.started(3, kept("b"));
        let of = |tag: &str| all.pid(&Selector { pid: None, tag: Some(tag.to_owned()) });
        assert_eq!((of("a"), of("b"), of("c")), (Some(2), Some(3), None));
        all.retain(&[1]);
        assert_eq!((of("a"), of("b")), (Some(1), None));
    }
}
