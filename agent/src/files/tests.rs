//! Names that lead out of the workdir are refused, and regular files are written.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

impl Workdir {
    /// Writes a file whose content does not matter.
    fn put_some(&self, name: &str) -> Result<(), FileError> {
        self.put(name, b"data")
    }
}

fn workdir() -> (tempfile::TempDir, Workdir) {
    let directory = tempfile::tempdir().unwrap();
    let workdir = Workdir::open(directory.path(), None, Some(1 << 20)).unwrap();
    (directory, workdir)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_lands_where_it_says() {
    let (directory, workdir) = workdir();
    workdir.put_some("a/b/c.txt").unwrap();
    assert_eq!(fs::read(directory.path().join("a/b/c.txt")).unwrap(), b"data");
    workdir.put("a/b/c.txt", b"2").unwrap();
    assert_eq!(fs::read(directory.path().join("a/b/c.txt")).unwrap(), b"2");
    assert_eq!(names(&directory.path().join("a/b")), ["c.txt"]);
}

#[test]
fn names_that_climb_are_refused() {
    let (_directory, workdir) = workdir();
    for name in ["", "/etc/x", "../x", "a/../../x", "a/..", ".", "a/", "a//b", "./a", "a\0b"] {
        assert!(matches!(workdir.put_some(name), Err(FileError::Name)), "{name:?}");
    }
    assert!(matches!(workdir.put_some(&"x".repeat(300)), Err(FileError::Name)));
}

#[test]
fn planted_links_and_pipes_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    let (directory, workdir) = workdir();
    let target = outside.path().join("target");
    fs::write(&target, "host").unwrap();
    symlink(&target, directory.path().join("link")).unwrap();
    symlink(outside.path(), directory.path().join("dir")).unwrap();
    nix::unistd::mkfifo(&directory.path().join("fifo"), Mode::S_IRWXU).unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    let before = names(directory.path());
    for (name, escapes) in [("link", true), ("dir/target", true), ("fifo", false), ("sub", false)] {
        let read = workdir.open_file(Path::new(name)).unwrap_err();
        for error in [workdir.put_some(name).unwrap_err(), read] {
            match error {
                FileError::Escapes => assert!(escapes, "{name}"),
                FileError::NotRegular => assert!(!escapes, "{name}"),
                other => panic!("{name}: {other}"),
            }
        }
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "host");
    assert_eq!(names(outside.path()), ["target"]);
    assert_eq!(names(directory.path()), before, "nothing half done is left");
    // The control: the same file by a plain name.
    fs::hard_link(&target, directory.path().join("plain")).unwrap();
    let (file, _) = workdir.open_file(Path::new("plain")).unwrap();
    assert_eq!(std::io::read_to_string(file).unwrap(), "host");
}

#[test]
fn a_new_file_appears_whole_or_not_at_all() {
    let (directory, workdir) = workdir();
    fs::write(directory.path().join("f"), "old").unwrap();
    let mut new = NewFile::create(&workdir, Path::new("f")).unwrap();
    new.write(b"new").unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("f")).unwrap(), "old");
    drop(new);
    assert_eq!(names(directory.path()), ["f"]);
    assert_eq!(fs::read_to_string(directory.path().join("f")).unwrap(), "old");
    let mut new = NewFile::create(&workdir, Path::new("f")).unwrap();
    new.write(b"new").unwrap();
    let inode = new.inode();
    new.commit(true).unwrap();
    let found = fs::metadata(directory.path().join("f")).unwrap();
    assert_eq!((found.ino(), found.mode() & 0o777), (inode, 0o755));
    assert_eq!(names(directory.path()), ["f"]);
}

#[test]
fn a_link_planted_while_a_file_comes_is_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("target"), "host").unwrap();
    let (directory, workdir) = workdir();
    let mut new = NewFile::create(&workdir, Path::new("d/f")).unwrap();
    new.write(b"tenant").unwrap();
    // In place of the file, and in place of the directory.
    symlink(outside.path().join("target"), directory.path().join("d/f")).unwrap();
    assert!(matches!(new.commit(false), Err(FileError::Escapes)));
    let new = NewFile::create(&workdir, Path::new("e/target")).unwrap();
    fs::rename(directory.path().join("e"), directory.path().join("moved")).unwrap();
    symlink(outside.path(), directory.path().join("e")).unwrap();
    new.commit(false).unwrap();
    assert_eq!(names(&directory.path().join("moved")), ["target"]);
    assert_eq!(fs::read_to_string(outside.path().join("target")).unwrap(), "host");
}

#[test]
fn the_tenants_largest_file_is_the_largest_for_the_api() {
    let (directory, workdir) = workdir();
    let mut new = NewFile::create(&workdir, Path::new("f")).unwrap();
    new.write(&vec![0; 1 << 20]).unwrap();
    assert!(matches!(new.write(b"x"), Err(FileError::TooLarge(_))));
    drop(new);
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn mounts_in_the_workdir_are_left_alone() {
    // /proc is a mount beneath / on every host. The control is a file that is not beyond one.
    let root = Workdir::open(Path::new("/"), None, None).unwrap();
    let error = root.open_file(Path::new("proc/version")).unwrap_err();
    assert!(matches!(error, FileError::Escapes), "{error}");
    let proc = Workdir::open(Path::new("/proc"), None, None).unwrap();
    proc.open_file(Path::new("version")).unwrap();
}

mod listing {
    use super::*;
    use vivarium_protocol::message::FileReply;

    fn list(workdir: &Workdir, path: &str, recursive: bool, after: &str, limit: u32) -> FileReply {
        let mut listing =
            Listing::start(workdir, path, recursive, after.to_owned(), limit).unwrap();
        loop {
            if let Some(reply) = listing.step(workdir, &[]) {
                return reply;
            }
        }
    }

    fn page_of(reply: FileReply) -> (Vec<String>, bool) {
        let FileReply::Listed { entries, more } = reply else { panic!("{reply:?}") };
        (entries.into_iter().map(|entry| entry.path).collect(), more)
    }

    #[test]
    fn a_directory_is_listed_in_byte_order_page_by_page() {
        let (directory, workdir) = workdir();
        for name in ["b/c/d", "b/c0", "b.txt", "a", "b/x"] {
            workdir.put_some(name).unwrap();
        }
        symlink("/etc", directory.path().join("link")).unwrap();
        let (all, more) = page_of(list(&workdir, "", true, "", 100));
        assert_eq!(all, ["a", "b", "b.txt", "b/c", "b/c/d", "b/c0", "b/x", "link"]);
        assert!(!more);
        for limit in 1..4 {
            let (mut pages, mut after) = (Vec::new(), String::new());
            loop {
                let (page, more) = page_of(list(&workdir, "", true, &after, limit));
                pages.extend(page);
                if !more {
                    break;
                }
                after.clone_from(pages.last().unwrap());
            }
            assert_eq!(pages, all, "pages of {limit}");
        }
        let (top, _) = page_of(list(&workdir, "", false, "", 100));
        assert_eq!(top, ["a", "b", "b.txt", "link"]);
        let (below, _) = page_of(list(&workdir, "b/c", false, "", 100));
        assert_eq!(below, ["b/c/d"]);
    }

    #[test]
    fn links_are_listed_and_not_followed() {
        let (directory, workdir) = workdir();
        symlink("/etc", directory.path().join("link")).unwrap();
        let FileReply::Listed { entries, .. } = list(&workdir, "", true, "", 9) else {
            panic!("not listed");
        };
        let kinds: Vec<_> = entries.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [FileKind::Link]);
        let error = Listing::start(&workdir, "link", true, String::new(), 9).unwrap_err();
        assert!(matches!(error, FileError::Escapes), "{error}");
    }

    #[test]
    fn a_listing_keeps_only_one_page_in_memory() {
        let (directory, workdir) = workdir();
        for number in 0..3000 {
            fs::write(directory.path().join(format!("{number:05}")), "").unwrap();
        }
        let (page, more) = page_of(list(&workdir, "", true, "00999", u32::MAX));
        assert_eq!((page.len(), more), (1000, true));
        assert_eq!((page[0].as_str(), page[999].as_str()), ("01000", "01999"));
    }

    #[test]
    fn a_page_is_bounded_in_bytes_and_none_is_left_out() {
        let (directory, workdir) = workdir();
        let mut deep = std::path::PathBuf::new();
        for _ in 0..14 {
            deep.push("d".repeat(250));
        }
        let files = ["a", "0", "z"].map(|first| deep.join(first)).into_iter().chain(
            (0..400).map(|number| deep.join(format!("{number:03}-{}", "f".repeat(number % 200)))),
        );
        fs::create_dir_all(directory.path().join(&deep)).unwrap();
        let mut expected: Vec<_> = files
            .map(|file| {
                fs::write(directory.path().join(&file), "").unwrap();
                file.to_string_lossy().into_owned()
            })
            .chain(deep.ancestors().filter_map(|path| path.to_str()).map(str::to_owned))
            .filter(|path| !path.is_empty())
            .collect();
        fs::write(directory.path().join("short"), "").unwrap();
        expected.push("short".to_owned());
        expected.sort();
        let (mut found, mut pages): (Vec<String>, usize) = Default::default();
        loop {
            let after = found.last().cloned().unwrap_or_default();
            let (page, more) = page_of(list(&workdir, "", true, &after, 1000));
            assert!(page.iter().map(String::len).sum::<usize>() <= 1 << 20);
            found.extend(page);
            pages += 1;
            if !more {
                break;
            }
        }
        assert!(found == expected, "{} and not {}", found.len(), expected.len());
        assert!(pages > 2, "{pages} page");
    }

    #[test]
    fn an_upload_appears_only_when_it_is_complete() {
        let (_directory, workdir) = workdir();
        let new = NewFile::create(&workdir, Path::new("f")).unwrap();
        let mut listing = Listing::start(&workdir, "", true, String::new(), 9).unwrap();
        let reply = listing.step(&workdir, &[new.inode()]).unwrap();
        assert_eq!(page_of(reply).0, [""; 0]);
        let mut listing = Listing::start(&workdir, "", true, String::new(), 9).unwrap();
        assert_eq!(page_of(listing.step(&workdir, &[]).unwrap()).0.len(), 1, "the control");
    }
}

mod deleting {
    use super::*;

    fn delete(workdir: &Workdir, path: &str) -> Result<(), FileError> {
        let mut deleting = Deletion::start(workdir, path)?;
        loop {
            if let Some(done) = deleting.step() {
                return done;
            }
        }
    }

    #[test]
    fn a_tree_is_deleted_and_what_it_links_to_is_not() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "host").unwrap();
        let (directory, workdir) = workdir();
        for name in ["d/a/b/c", "d/a/x", "d/e/f", "other"] {
            workdir.put_some(name).unwrap();
        }
        symlink(outside.path(), directory.path().join("d/a/link")).unwrap();
        delete(&workdir, "d").unwrap();
        assert_eq!(names(directory.path()), ["other"]);
        assert_eq!(names(outside.path()), ["kept"]);
        assert!(matches!(delete(&workdir, "d"), Err(FileError::NotFound)));
        for name in ["", ".", "..", "/", "../other"] {
            assert!(matches!(delete(&workdir, name), Err(FileError::Name)), "{name:?}");
        }
    }

    #[test]
    fn a_tree_that_is_too_deep_to_name_is_deleted() {
        let (directory, workdir) = workdir();
        let mut at = workdir.beneath(Path::new("deep")).unwrap();
        for _ in 0..3000 {
            at = at.beneath(Path::new("deeper")).unwrap();
        }
        at.put_some("file").unwrap();
        drop(at);
        delete(&workdir, "deep").unwrap();
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_directory_that_is_moved_away_is_all_that_is_spared() {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("d")).unwrap();
        fs::write(outside.path().join("d/kept"), "host").unwrap();
        let (directory, workdir) = workdir();
        for number in 0..1000 {
            workdir.put_some(&format!("top/d/{number}")).unwrap();
        }
        let mut deleting = Deletion::start(&workdir, "top").unwrap();
        assert!(deleting.step().is_none());
        // It is in the midst of it. Its directory goes, and a link comes in its place.
        fs::rename(directory.path().join("top/d"), directory.path().join("spared")).unwrap();
        symlink(outside.path().join("d"), directory.path().join("top/d")).unwrap();
        while deleting.step().is_none() {}
        assert!(!directory.path().join("top").exists());
        assert_eq!(names(&outside.path().join("d")), ["kept"]);
    }
}
