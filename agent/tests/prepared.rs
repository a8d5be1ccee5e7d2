//! A launcher that prepares a session before it is told which.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use std::fs;
use std::path::Path;

use harness::{Session, policy, until};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vivarium_protocol::policy::Policy;

/// The user namespace of a session, and the one that was prepared.
fn namespaces(prepared: Policy, policy: Policy) -> (String, String) {
    namespaces_after(prepared, policy, || {})
}

/// The same, with a change of the host before it is known which session is wanted.
fn namespaces_after(prepared: Policy, policy: Policy, change: impl FnOnce()) -> (String, String) {
    let mut ahead = String::new();
    let mut kept = None;
    let note = |keeper: Pid| {
        let link = format!("/proc/{keeper}/ns/user");
        ahead = fs::read_link(&link).unwrap().display().to_string();
        // Its number is no other's for as long as it is open.
        kept = fs::File::open(link).ok();
        change();
    };
    let mut session = Session::launch_prepared(prepared, policy, note).unwrap();
    let look = session.execute("__import__('os').readlink('/proc/self/ns/user')");
    assert_eq!(session.execute("1 + 1").repr.as_deref(), Some("2"));
    drop(kept);
    (look.repr.unwrap().trim_matches('\'').to_owned(), ahead)
}

#[test]
fn a_session_of_the_same_policy_is_made_of_it() {
    let (session, prepared) = namespaces(policy(), policy());
    assert_eq!(session, prepared);
    let own = Policy { env: vec![("OWN".to_owned(), "1".to_owned())], ..policy() };
    let (session, prepared) = namespaces(policy(), own);
    assert_eq!(session, prepared);
}

#[test]
fn one_of_another_policy_is_not() {
    let mut other = policy();
    other.limits.max_open_fds = "77".parse().unwrap();
    let elsewhere = Policy { workdir: "/elsewhere".into(), ..policy() };
    for other in [other, elsewhere] {
        let (session, prepared) = namespaces(other, policy());
        assert_ne!(session, prepared);
    }
}

#[test]
fn one_that_was_prepared_before_a_path_of_the_host_changed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let [shown, other] = ["shown", "other"].map(|name| dir.path().join(name));
    fs::write(&shown, "before").unwrap();
    let policy = || Policy { read_paths: vec![shown.clone()], ..policy() };
    let replace = |path: &Path| {
        fs::write(path.with_extension("new"), "after").unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    };
    let (session, prepared) = namespaces_after(policy(), policy(), || replace(&other));
    assert_eq!(session, prepared, "another path has");
    let (session, prepared) = namespaces_after(policy(), policy(), || replace(&shown));
    assert_ne!(session, prepared);
}

#[test]
fn what_was_killed_is_done_without() {
    let end = |keeper| kill(keeper, Signal::SIGKILL).unwrap();
    let mut session = Session::launch_prepared(policy(), policy(), end).unwrap();
    assert_eq!(session.execute("1 + 1").repr.as_deref(), Some("2"));
}

/// It holds copies of all mounts, so a file system that the host unmounts would stay in use. Only root can
/// mount.
#[test]
fn it_ends_once_the_hosts_mounts_change() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let change = |keeper: Pid| {
        mount(Some("tmpfs"), "/mnt", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        let entry = format!("/proc/{keeper}");
        until("the end of the keeper", || (!Path::new(&entry).exists()).then_some(()));
    };
    let mut session = Session::launch_prepared(policy(), policy(), change).unwrap();
    assert_eq!(session.execute("1 + 1").repr.as_deref(), Some("2"));
}
