//! On ordinary directories, which take and hold what is written, and are not cgroups.

use std::collections::BTreeMap;
use std::time::SystemTime;

use vivarium_protocol::units::Limit;

use super::*;
use crate::settings::Ceilings;

/// A file in which a first word is overwritten, and these remain.
const HAS_MEMORY_AND_PIDS: &str = "padding memory pids";

fn tree(root: &Path, controllers: &[Controller]) -> Tree {
    let lock = Flock::lock(File::open(root).unwrap(), FlockArg::LockExclusiveNonblock).unwrap();
    fs::create_dir_all(root.join(TENANTS)).unwrap();
    Tree {
        root: root.to_owned(),
        made: false,
        origin: root.to_owned(),
        controllers: controllers.to_vec(),
        fix: "delegate".to_owned(),
        ceilings: tenant::States::default(),
        lock: Some(lock),
    }
}

#[test]
fn only_controllers_that_are_offered_and_not_enabled_are_written() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(enable(dir.path()), [], "no such file");
    let offered = dir.path().join("cgroup.controllers");
    let file = dir.path().join("cgroup.subtree_control");
    fs::write(&offered, "cpuset memory pids\n").unwrap();
    fs::write(&file, HAS_MEMORY_AND_PIDS).unwrap();
    assert_eq!(enable(dir.path()), [Controller::Memory, Controller::Pids]);
    assert_eq!(fs::read_to_string(&file).unwrap(), HAS_MEMORY_AND_PIDS, "nothing is missing");

    fs::write(&offered, "cpuset io memory pids\n").unwrap();
    assert_eq!(enable(dir.path()), [Controller::Memory, Controller::Pids], "as is read back");
    assert!(fs::read_to_string(&file).unwrap().starts_with("+io"));
}

#[test]
fn only_generated_directory_names_are_recognised() {
    let uuid = "0123456789abcdef0123456789abcdef";
    assert!(is_made_by_us(Path::new(&format!("/a/{MADE_PREFIX}{uuid}"))));
    for other in [
        format!("/a/{uuid}"),
        format!("/a/{MADE_PREFIX}{uuid}0"),
        format!("/a/{MADE_PREFIX}{}", uuid.to_uppercase()),
        format!("/a/{MADE_PREFIX}service"),
        format!("/a/{MADE_PREFIX}{}", &uuid[1..]),
    ] {
        assert!(!is_made_by_us(Path::new(&other)), "{other}");
    }
}

/// What a start left that did not get far: removed when it is old enough, unless it is not ours or
/// anything is in it.
#[tokio::test]
async fn only_old_directories_of_ours_are_swept() {
    let base = tempfile::tempdir().unwrap();
    let named = |digit: &str| base.path().join(format!("{MADE_PREFIX}{}", digit.repeat(32)));
    let (new, old, used, other) = (named("1"), named("2"), named("3"), base.path().join("other"));
    for dir in [&new, &old, &used, &other] {
        fs::create_dir(dir).unwrap();
    }
    fs::write(used.join("file"), "").unwrap();
    for dir in [&old, &used, &other] {
        let hour = Duration::from_hours(1);
        File::open(dir).unwrap().set_modified(SystemTime::now() - hour).unwrap();
    }
    assert_eq!([&new, &old, &other].map(|dir| is_old(dir)), [false, true, true]);
    sweep(base.path()).await.unwrap();
    assert_eq!([&new, &old, &used, &other].map(|dir| dir.exists()), [true, false, true, true]);

    // With a supervisor's leaf in it: what nobody holds is killed, which is no file here.
    let left = named("4");
    fs::create_dir_all(left.join(SUPERVISOR)).unwrap();
    let held = Flock::lock(File::open(&left).unwrap(), FlockArg::LockExclusiveNonblock).unwrap();
    sweep(base.path()).await.unwrap();
    drop(held);
    let failed = sweep(base.path()).await.unwrap_err();
    assert_eq!(failed.path, left.join("cgroup.kill"));
}

#[tokio::test]
async fn neighbours_are_swept_by_a_tree_that_made_its_directory_and_by_no_other() {
    for made in [true, false] {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        let left = base.path().join(format!("{MADE_PREFIX}{}", "1".repeat(32)));
        for dir in [&root, &left] {
            fs::create_dir(dir).unwrap();
        }
        let hour = Duration::from_hours(1);
        File::open(&left).unwrap().set_modified(SystemTime::now() - hour).unwrap();
        let mut tree = tree(&root, &[]);
        tree.made = made;
        tree.clear_leftovers().await.unwrap();
        assert_eq!(left.exists(), !made);
    }
}

/// What it made is removed, controllers are given back where the directory is not ours, and this
/// process goes back where it was.
#[test]
fn a_tree_is_given_back() {
    for made in [true, false] {
        let base = tempfile::tempdir().unwrap();
        let (root, origin) = (base.path().join("root"), base.path().join("origin"));
        for dir in [&root.join(SUPERVISOR), &origin] {
            fs::create_dir_all(dir).unwrap();
        }
        let (control, procs) = (root.join("cgroup.subtree_control"), origin.join("cgroup.procs"));
        fs::write(&procs, "").unwrap();
        if !made {
            fs::write(&control, "").unwrap();
        }
        let mut tree = tree(&root, &[Controller::Pids]);
        (tree.made, tree.origin) = (made, origin);
        drop(tree);
        assert_eq!(fs::read_to_string(procs).unwrap(), "0");
        assert_eq!(root.exists(), !made);
        assert!(!root.join(SUPERVISOR).exists() && !root.join(TENANTS).exists());
        assert!(made || fs::read_to_string(control).unwrap() == "-pids");
    }
}

/// What a start finds unlocked it kills: a daemon that was on its way out was.
#[test]
fn a_tree_that_cannot_be_left_stays_locked_until_this_process_ends() {
    for can_leave in [true, false] {
        let base = tempfile::tempdir().unwrap();
        let (root, origin) = (base.path().join("root"), base.path().join("origin"));
        fs::create_dir_all(root.join(SUPERVISOR)).unwrap();
        if can_leave {
            fs::create_dir(&origin).unwrap();
            fs::write(origin.join("cgroup.procs"), "").unwrap();
        }
        let mut tree = tree(&root, &[]);
        tree.origin = origin;
        drop(tree);
        let found = Flock::lock(File::open(&root).unwrap(), FlockArg::LockExclusiveNonblock);
        assert_eq!(found.is_ok(), can_leave);
    }
}

#[tokio::test]
async fn processes_of_an_earlier_daemon_are_killed() {
    let root = tempfile::tempdir().unwrap();
    let tree = tree(root.path(), &[]);
    tree.clear_leftovers().await.unwrap();
    let left = root.path().join(TENANTS).join("t");
    fs::create_dir(&left).unwrap();
    fs::write(root.path().join(TENANTS).join("file"), "").unwrap();
    let failed = tree.clear_leftovers().await.unwrap_err();
    assert_eq!(failed.path, left.join("cgroup.kill"));
    assert_eq!(children(&root.path().join(TENANTS)).unwrap(), [left]);
    assert!(children(&root.path().join("none")).is_err());
}

#[test]
fn a_tenants_ceilings_are_written_when_they_are_new_and_read_back() {
    let root = tempfile::tempdir().unwrap();
    let tree = tree(root.path(), &[Controller::Pids]);
    assert_eq!((tree.controllers(), tree.fix()), (&[Controller::Pids][..], "delegate"));
    let dir = root.path().join(TENANTS).join("t");
    let file = dir.join("pids.max");
    let ask = |procs| {
        let max_procs = Limit::new(procs).unwrap();
        let ceilings = Ceilings { max_procs, ..Ceilings::default() };
        tree.set_ceilings(&BTreeMap::from([("t".to_owned(), ceilings)]));
    };
    let held = || fs::read_to_string(&file).unwrap();
    tree.hold("t").unwrap();
    assert!(dir.is_dir(), "made without ceilings");
    ask(7);
    assert!(tree.hold("t").is_err(), "there is no file to write to");
    fs::write(&file, "").unwrap();
    tree.hold("t").unwrap();
    assert_eq!(held(), "7");
    // Once written they are not written again, unless they have changed or the directory is new.
    fs::write(&file, "8").unwrap();
    tree.hold("t").unwrap();
    ask(7);
    tree.hold("t").unwrap();
    assert_eq!(held(), "8");
    ask(9);
    tree.hold("t").unwrap();
    assert_eq!(held(), "9");
    fs::remove_dir_all(&dir).unwrap();
    assert!(tree.hold("t").is_err(), "a new directory, with no file");
    assert!(
        tree.make_scope("t2/s", "s", &crate::engine::testing::settings().sandbox.limits).is_err()
    );
}

#[test]
fn the_least_that_is_left_counts_and_only_of_cgroups() {
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let limited = |dir: &Path, max: &str| {
        fs::write(dir.join("cgroup.controllers"), "memory").unwrap();
        fs::write(dir.join("memory.max"), max).unwrap();
        fs::write(dir.join("memory.current"), "100").unwrap();
    };
    let tree = tree(&inner, &[]);
    assert_eq!(tree.headroom(), None);
    limited(&inner, "1000");
    assert_eq!(tree.headroom().map(|room| room.left_bytes), Some(900));
    limited(root.path(), "300");
    assert_eq!(tree.headroom().map(|room| room.left_bytes), Some(200));
}

#[test]
fn each_tenants_use_is_read_from_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let tree = tree(root.path(), &[]);
    assert!(tree.tenants().is_empty());
    let dir = root.path().join(TENANTS).join("t");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("cpu.stat"), "usage_usec 7\n").unwrap();
    fs::write(dir.join("memory.current"), "8\n").unwrap();
    let tenants = tree.tenants();
    let found = tenants.iter().map(|one| {
        (one.tenant.as_str(), one.cpu, one.memory_bytes, one.processes, one.stalls.len())
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [("t", Some(Duration::from_micros(7)), Some(8), None, 0)]
    );
}
