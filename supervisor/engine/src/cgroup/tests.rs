//! Against this host's own cgroupfs, where it lets us. One at a time, since taking a tree moves
//! the whole process.
#![allow(clippy::print_stderr)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::watch::Watched;
use super::{Controller, Support, Tree, acquire, files};
use crate::engine::testing::settings;

static ALONE: Mutex<()> = Mutex::const_new(());

/// A tree, or the reason why this host has none for us.
fn tree() -> Option<Arc<Tree>> {
    match acquire(None) {
        Support::Available(tree) => Some(tree),
        Support::Unavailable(missing) => {
            assert!(!missing.why.is_empty() && !missing.fix.is_empty());
            eprintln!("SKIP: needs a writable cgroup v2 directory: {}", missing.why);
            None
        }
    }
}

#[tokio::test]
async fn a_scope_is_made_killed_and_removed() {
    let _alone = ALONE.lock().await;
    let Some(tree) = tree() else { return };
    let limits = settings().sandbox.limits;
    let scope = tree.make_scope("t", "s", &limits).unwrap();
    let placement = scope.placement();
    let held = [Controller::Memory, Controller::Pids, Controller::Cpu];
    let all = held.iter().all(|controller| tree.controllers().contains(controller));
    assert_eq!(placement.missing.is_empty(), all, "{placement:?}");
    assert_eq!(placement.missing.is_empty(), placement.fix.is_empty());
    assert!(tree.make_scope("t", "s", &limits).is_err(), "one scope per session");

    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(placement.kernel.join("cgroup.procs"), child.id().to_string()).unwrap();
    assert!(scope.usage().cpu_us.is_some());
    scope.remove().await.unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(!placement.kernel.exists() && !placement.agent.exists());
}

#[tokio::test]
async fn leftovers_are_cleared_and_living_trees_are_not() {
    let _alone = ALONE.lock().await;
    let Some(first) = tree() else { return };
    let limits = settings().sandbox.limits;
    let left = first.make_scope("t", "left", &limits).unwrap().placement();
    first.clear_leftovers().await.unwrap();
    assert!(!left.kernel.exists(), "its own, from an earlier life");
    let alive = first.make_scope("t", "alive", &limits).unwrap();
    let Some(second) = tree() else { return };
    second.clear_leftovers().await.unwrap();
    assert!(alive.placement().kernel.exists(), "another's, which is in use");
}

#[test]
fn removed_tree_leaves_no_directory() {
    let _alone = ALONE.blocking_lock();
    let Some(tree) = tree() else { return };
    let root = tree.root().to_owned();
    let before = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(before.contains("/supervisor"), "{before}");
    drop(tree);
    let after = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(!after.contains("/supervisor"), "{after}");
    assert!(!root.join("supervisor").exists());
}

/// A change that nobody asked about and one that comes while waiting; a wait that ended without
/// a change would find the old value.
#[tokio::test]
async fn changes_are_waited_for() {
    let _alone = ALONE.lock().await;
    let Some(tree) = tree() else { return };
    let scope = tree.make_scope("t", "watched", &settings().sandbox.limits).unwrap();
    let leaf = scope.placement().kernel;
    let events = Watched::new(fs::File::open(leaf.join("cgroup.events")).unwrap()).unwrap();
    let populated = || files::keyed_in(events.file(), "populated");
    assert_eq!(populated(), Some(0));
    for _ in 0..3 {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        fs::write(leaf.join("cgroup.procs"), child.id().to_string()).unwrap();
        events.changed().await.unwrap();
        assert_eq!(populated(), Some(1));
        drop(child.stdin.take());
        events.changed().await.unwrap();
        assert_eq!(populated(), Some(0));
        child.wait().unwrap();
    }
    scope.remove().await.unwrap();
}
