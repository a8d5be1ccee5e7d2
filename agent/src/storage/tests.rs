use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::*;
use crate::sandbox::fixture;

fn directory(path: &Path) -> OwnedFd {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty()).unwrap()
}

fn usage(path: &Path, max_inodes: u64) -> (u64, u64, bool) {
    let usage = measure::usage(&directory(path), max_inodes).unwrap();
    (usage.bytes, usage.inodes, usage.is_cut)
}

#[test]
fn what_takes_blocks_counts_once() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let (empty, ..) = usage(home.path(), 100);
    fs::write(at("one"), vec![1; 64 << 10]).unwrap();
    fs::hard_link(at("one"), at("two")).unwrap();
    fs::File::create(at("sparse")).unwrap().set_len(1 << 30).unwrap();
    symlink("/usr", at("link")).unwrap();
    let (bytes, inodes, is_cut) = usage(home.path(), 100);
    let grown = bytes - empty;
    assert!((64 << 10..128 << 10).contains(&grown), "{grown}");
    assert_eq!((inodes, is_cut), (5, false));
    let (_, inodes, is_cut) = usage(home.path(), 3);
    assert_eq!((inodes, is_cut), (4, true));
}

#[test]
fn trees_that_are_too_deep_count_as_too_large() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("d/".repeat(250));
    fs::create_dir_all(deep).unwrap();
    assert!(usage(home.path(), 1000).2);
    clear(&directory(home.path())).unwrap();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn clearing_follows_no_link_and_keeps_the_directory() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "host").unwrap();
    let home = tempfile::tempdir().unwrap();
    symlink(outside.path(), home.path().join("link")).unwrap();
    fs::create_dir_all(home.path().join("a/b/c")).unwrap();
    fs::write(home.path().join("a/f"), "").unwrap();
    clear(&directory(home.path())).unwrap();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    assert!(outside.path().join("kept").exists());
}

#[test]
fn all_of_a_directory_is_given_away_and_nothing_behind_a_link() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    symlink(outside.path(), home.path().join("link")).unwrap();
    fs::create_dir_all(home.path().join("a/b")).unwrap();
    fs::write(home.path().join("a/f"), "").unwrap();
    owner::give(&directory(home.path()), 12_345, 54_321).unwrap();
    for name in ["", "link", "a", "a/b", "a/f"] {
        let found = fs::symlink_metadata(home.path().join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (12_345, 54_321), "{name:?}");
    }
    assert_eq!(fs::metadata(outside.path()).unwrap().uid(), 0);
    // Who has it already is not looked for any further.
    fs::write(home.path().join("new"), "").unwrap();
    owner::give(&directory(home.path()), 12_345, 54_321).unwrap();
    assert_eq!(fs::metadata(home.path().join("new")).unwrap().uid(), 0);
}

/// In a process of its own, which stays confined.
#[test]
fn a_confined_process_reaches_its_directory_alone() {
    let name = "::a_confined_process_reaches_its_directory_alone";
    fixture::in_child(&format!("{}{name}", module_path!()), || {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("f"), "mine").unwrap();
        let other = home.path().join("f");
        let opened = directory(home.path());
        let elsewhere = Path::new("/etc/passwd");
        assert!(fs::File::open(elsewhere).is_ok(), "the control");
        sandbox::confine_to_store(&opened, false).unwrap();
        assert!(fs::File::open(elsewhere).is_err());
        assert!(std::net::TcpListener::bind("127.0.0.1:0").is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        assert!(fs::remove_file(&other).is_err(), "it is to read alone");
        assert!(fs::write(home.path().join("new"), "").is_err());
        // The directory cannot be removed by who is confined.
        std::mem::forget(home);
    });
}

#[test]
fn content_follows_its_answer() {
    let home = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
    fs::write(home.path().join("f"), &content).unwrap();
    fs::set_permissions(home.path().join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let opened = directory(home.path());
    let sender = std::thread::spawn(move || {
        let operation = FileOperation::Read { path: "f".to_owned(), offset: 0, length: None };
        serve_file(opened, operation, &theirs).unwrap();
    });
    let reply: StorageReply = stream::receive(&ours, MAX_FRAME_BYTES).unwrap();
    let StorageReply::File(Ok(FileReply::Content { length, .. })) = reply else {
        panic!("{reply:?}");
    };
    let mut received = Vec::new();
    ours.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert_eq!((length, received), (content.len() as u64, content));
}
