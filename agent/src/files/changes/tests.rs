//! Which changes of a workdir are reported.

use std::fs;
use std::io::Write;

use super::*;

struct Fixture {
    directory: tempfile::TempDir,
    workdir: Workdir,
    tracker: ChangeTracker,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("old")).unwrap();
        fs::write(directory.path().join("old/file"), "1").unwrap();
        wait_for_tick();
        let workdir = Workdir::open(directory.path(), None, None).unwrap();
        let tracker = ChangeTracker::new(&workdir);
        Self { directory, workdir, tracker }
    }

    fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workdir = Workdir::open(directory.path(), None, None).unwrap();
        let tracker = ChangeTracker::new(&workdir);
        Self { directory, workdir, tracker }
    }

    /// As where there is no inotify instance left.
    fn missed_events() -> Self {
        let mut fixture = Self::new();
        fixture.tracker.inotify = None;
        fixture.tracker.missed_events = true;
        wait_for_tick();
        fixture.tracker.begin(&fixture.workdir);
        fixture
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "data").unwrap();
    }

    fn take(&mut self) -> (Vec<String>, bool) {
        let changes = self.tracker.take(&self.workdir, &[]);
        (changes.files.into_iter().map(|file| file.path).collect(), changes.more)
    }

    fn deleted(&mut self) -> Vec<String> {
        let changes = self.tracker.take(&self.workdir, &[]);
        assert!(!changes.more);
        changes.deleted
    }

    fn names(&mut self) -> Vec<String> {
        let (names, more) = self.take();
        assert!(!more);
        names
    }
}

/// Until the clock that files are stamped by has passed the present: it moves in ticks, and by whole
/// ones, so that after a late tick it is still behind what the finer clock showed before.
fn wait_for_tick() {
    let before = time(ClockId::CLOCK_REALTIME);
    while now() <= before {}
}

#[test]
fn new_changed_and_moved_files_are_reported_once() {
    for mut fixture in [Fixture::new(), Fixture::missed_events()] {
        assert_eq!(fixture.names(), [""; 0]);
        fixture.write("a");
        fixture.write("new/deep/er/b");
        fs::OpenOptions::new()
            .append(true)
            .open(fixture.at("old/file"))
            .unwrap()
            .write_all(b"2")
            .unwrap();
        fixture.write("gone");
        fs::remove_file(fixture.at("gone")).unwrap();
        fixture.write("before");
        fs::rename(fixture.at("before"), fixture.at("old/after")).unwrap();
        std::os::unix::fs::symlink("a", fixture.at("link")).unwrap();
        fs::create_dir(fixture.at("empty")).unwrap();
        assert_eq!(fixture.names(), ["a", "new/deep/er/b", "old/after", "old/file"]);
        wait_for_tick();
        fixture.tracker.begin(&fixture.workdir);
        assert_eq!(fixture.names(), [""; 0]);
        // Directories that came meanwhile are watched from then on.
        fixture.write("new/deep/er/c");
        assert_eq!(fixture.names(), ["new/deep/er/c"]);
    }
}

#[test]
fn nothing_is_watched_before_an_execution_finds_files() {
    let mut fixture = Fixture::empty();
    assert_eq!(fixture.names(), [""; 0]);
    fixture.tracker.begin(&fixture.workdir);
    fixture.write("first");
    assert_eq!(fixture.names(), ["first"]);
    assert!(fixture.tracker.inotify.is_none(), "it may have been the last execution");
    fixture.write("between");
    fixture.tracker.begin(&fixture.workdir);
    assert!(fixture.tracker.inotify.is_some());
    fixture.write("first");
    assert_eq!(fixture.names(), ["between", "first"]);
    assert_eq!(fixture.names(), [""; 0]);
}

#[test]
fn files_over_the_maximum_of_a_report_are_not_reported_later() {
    let mut fixture = Fixture::empty();
    for number in 0..Changes::FILES_MAX + 10 {
        fixture.write(&format!("{number:06}"));
    }
    let (names, more) = fixture.take();
    assert_eq!((names.len(), more), (Changes::FILES_MAX, true));
    fixture.tracker.begin(&fixture.workdir);
    assert_eq!(fixture.names(), [""; 0]);
    fixture.write("later");
    assert_eq!(fixture.names(), ["later"]);
}

#[test]
fn a_file_changed_after_a_scan_is_reported_once() {
    for _ in 0..20 {
        let mut fixture = Fixture::empty();
        let mut file = fs::File::create(fixture.at("a")).unwrap();
        for _ in 0..2 {
            file.metadata().unwrap(); // from now on it is stamped by a finer clock
            file.write_all(b"x").unwrap();
        }
        assert_eq!(fixture.names(), ["a"]);
        fixture.tracker.begin(&fixture.workdir);
        assert_eq!(fixture.names(), [""; 0]);
    }
}

#[test]
fn a_file_written_for_the_api_into_an_empty_workdir_is_not_reported() {
    let mut fixture = Fixture::empty();
    fixture.write("input");
    fixture.tracker.exclude(&fixture.workdir, Path::new("input"));
    fixture.tracker.begin(&fixture.workdir);
    fixture.write("output");
    assert_eq!(fixture.names(), ["output"]);
    fixture.write("input");
    assert_eq!(fixture.names(), ["input"]);
}

#[test]
fn many_directories_without_files_are_watched_and_not_scanned_again() {
    let mut fixture = Fixture::empty();
    for number in 0..=RESCANNED_MAX {
        fs::create_dir(fixture.at(&format!("{number}"))).unwrap();
    }
    assert_eq!(fixture.names(), [""; 0]);
    fixture.tracker.begin(&fixture.workdir);
    assert!(fixture.tracker.inotify.is_some());
}

#[test]
fn directories_that_are_moved_are_followed() {
    let mut fixture = Fixture::new();
    fixture.write("d/e/f");
    assert_eq!(fixture.names(), ["d/e/f"]);
    fs::rename(fixture.at("d"), fixture.at("x")).unwrap();
    fs::rename(fixture.at("x"), fixture.at("y")).unwrap();
    assert_eq!(fixture.names(), ["y/e/f"]);
    fixture.write("y/e/g");
    assert_eq!(fixture.names(), ["y/e/g"]);
    fs::remove_dir_all(fixture.at("y")).unwrap();
    fixture.write("y/h");
    assert_eq!(fixture.names(), ["y/h"]);
}

#[test]
fn files_of_tools_are_not_reported() {
    let mut fixture = Fixture::new();
    for name in
        [".cache/x", ".config/matplotlib/y", "pkg/__pycache__/m.pyc", "pkg/m.py", "d/.hidden/z"]
    {
        fixture.write(name);
    }
    fixture.write(".profile");
    assert_eq!(fixture.names(), [".profile", "d/.hidden/z", "pkg/m.py"]);
}

#[test]
fn a_file_written_for_the_api_is_reported_only_once_it_is_changed() {
    let mut fixture = Fixture::new();
    fixture.write("in/put");
    fixture.tracker.exclude(&fixture.workdir, Path::new("in/put"));
    fixture.write("in/other");
    assert_eq!(fixture.names(), ["in/other"]);
    fixture.write("in/put");
    assert_eq!(fixture.names(), ["in/put"]);
}

#[test]
fn changes_over_the_maximum_are_reported_as_more() {
    let mut fixture = Fixture::new();
    for number in 0..NAMES_MAX + 10 {
        fixture.write(&format!("{number:06}"));
    }
    let (names, more) = fixture.take();
    assert_eq!((names.len(), more), (Changes::FILES_MAX, true));
    assert_eq!(fixture.names(), [""; 0]);
}

#[test]
fn changes_are_found_though_events_were_lost() {
    let mut fixture = Fixture::new();
    wait_for_tick();
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    fixture.write("a");
    fixture.write("b");
    for _ in 0..=limit / 2 {
        for name in ["a", "b"] {
            fs::OpenOptions::new()
                .append(true)
                .open(fixture.at(name))
                .unwrap()
                .write_all(b".")
                .unwrap();
        }
    }
    fixture.write("lost/after/the/flood");
    assert_eq!(fixture.names(), ["a", "b", "lost/after/the/flood"]);
    wait_for_tick();
    assert_eq!(fixture.names(), [""; 0]);
    fixture.write("lost/after/the/calm");
    assert_eq!(fixture.names(), ["lost/after/the/calm"]);
    assert!(!fixture.tracker.missed_events, "events are enough again");
}

#[test]
fn directories_over_the_maximum_of_watches_are_scanned() {
    let mut fixture = Fixture::new();
    for number in 0..1200 {
        fs::create_dir(fixture.at(&format!("{number}"))).unwrap();
    }
    fixture.take();
    assert!(fixture.tracker.missed_events);
    wait_for_tick();
    fixture.tracker.begin(&fixture.workdir);
    for number in 0..1200 {
        fixture.write(&format!("{number}/f"));
    }
    let (names, more) = fixture.take();
    assert_eq!((names.len(), more), (Changes::FILES_MAX, true));
}

#[test]
fn endless_events_are_read_in_parts() {
    let mut fixture = Fixture::new();
    let end = std::sync::atomic::AtomicBool::new(false);
    let (one, other) = (fixture.at("one"), fixture.at("other"));
    for number in 0..16 {
        fs::create_dir_all(one.join(number.to_string())).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(&one, &other).unwrap();
                fs::rename(&other, &one).unwrap();
            }
        });
        // To watch what is in a directory that was moved takes longer than to move it.
        for _ in 0..3 {
            fixture.tracker.read(&fixture.workdir);
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    fs::write(fixture.at("old/new"), "1").unwrap();
    let changes = fixture.tracker.take(&fixture.workdir, &[]);
    let is_told = changes.files.iter().any(|file| file.path == "old/new");
    assert!(is_told || changes.more, "{changes:?}");
}

#[test]
fn files_that_were_there_before_and_are_gone_are_reported() {
    let mut fixture = Fixture::new();
    for name in ["a", "b", "old/sub/c", "moved/d", "replaced"] {
        fixture.write(name);
    }
    fixture.names();
    fixture.tracker.begin(&fixture.workdir);
    fs::remove_file(fixture.at("a")).unwrap();
    fs::rename(fixture.at("b"), fixture.at("b2")).unwrap();
    fs::remove_dir_all(fixture.at("old")).unwrap();
    fs::rename(fixture.at("moved"), fixture.at("elsewhere")).unwrap();
    // Changed, made and gone in between, and gone and back again.
    fixture.write("new");
    fs::remove_file(fixture.at("new")).unwrap();
    fixture.write("dir/new");
    fs::remove_dir_all(fixture.at("dir")).unwrap();
    fs::remove_file(fixture.at("replaced")).unwrap();
    fixture.write("replaced");
    assert_eq!(fixture.deleted(), ["a", "b", "moved", "old/file", "old/sub/c"]);
    assert_eq!(fixture.deleted(), [""; 0]);
}

#[test]
fn files_of_the_first_report_are_missed_when_they_go() {
    let mut fixture = Fixture::empty();
    for name in ["a", "b", "c"] {
        fixture.write(name);
    }
    assert_eq!(fixture.names(), ["a", "b", "c"]);
    fixture.tracker.exclude_deletion(&fixture.workdir, Path::new("c"));
    for name in ["a", "c"] {
        fs::remove_file(fixture.at(name)).unwrap();
    }
    fixture.tracker.begin(&fixture.workdir);
    fs::remove_file(fixture.at("b")).unwrap();
    assert_eq!(fixture.deleted(), ["a", "b"]);
}

#[test]
fn what_is_deleted_for_the_api_is_not_reported() {
    let mut fixture = Fixture::new();
    fixture.write("dir/a");
    fixture.write("b");
    fixture.write(".upload-0123456789abcdef");
    fixture.names();
    fixture.tracker.begin(&fixture.workdir);
    for name in ["dir/a", "b", ".upload-0123456789abcdef"] {
        fs::remove_file(fixture.at(name)).unwrap();
    }
    fixture.tracker.exclude_deletion(&fixture.workdir, Path::new("dir"));
    assert_eq!(fixture.deleted(), ["b"]);
}

#[test]
fn deletions_are_bounded() {
    let mut fixture = Fixture::new();
    for number in 0..Changes::FILES_MAX + 1 {
        fixture.write(&format!("d/{number}"));
    }
    let _changes = fixture.take();
    fs::remove_dir_all(fixture.at("d")).unwrap();
    let changes = fixture.tracker.take(&fixture.workdir, &[]);
    assert_eq!((changes.deleted.len(), changes.more), (Changes::FILES_MAX, true));
}
