//! What a watcher tells of, and what it is not led to.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;

use vivarium_protocol::frame::Decoder;
use vivarium_protocol::message::FileEvent;

use super::*;

struct Fixture {
    directory: tempfile::TempDir,
    workdir: Workdir,
    watcher: Watcher,
    client: UnixStream,
    decoder: Decoder,
}

impl Fixture {
    fn new(path: &str, recursive: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("d/sub")).unwrap();
        fs::create_dir_all(directory.path().join(".cache/x")).unwrap();
        fs::write(directory.path().join("d/old"), "1").unwrap();
        let workdir = Workdir::open(directory.path(), None, None).unwrap();
        let (client, theirs) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let (watcher, _) = Watcher::start(&workdir, path, recursive, theirs.into()).unwrap();
        let decoder = Decoder::new(WATCH_FRAME_BYTES);
        Self { directory, workdir, watcher, client, decoder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What was told, up to now.
    fn events(&mut self) -> Vec<FileEvent> {
        assert!(!self.watcher.step(&self.workdir));
        self.watcher.due = Some(Instant::now());
        assert!(!self.watcher.step(&self.workdir) || self.watcher.ended);
        let mut events = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while let Ok(count) = std::io::Read::read(&mut &self.client, &mut buffer) {
            if count == 0 {
                break;
            }
            self.decoder.push(&buffer[..count]);
        }
        while let Some(some) = self.decoder.next_message::<Vec<FileEvent>>().unwrap() {
            events.extend(some);
        }
        events
    }

    fn told(&mut self) -> Vec<String> {
        let events = self.events();
        let text = |event: FileEvent| {
            let kind: &str = event.kind.into();
            let from = event.from.map(|from| format!("{from} to ")).unwrap_or_default();
            format!("{kind} {from}{}", event.path)
        };
        events.into_iter().map(text).collect()
    }
}

#[test]
fn changes_are_told_by_path() {
    let mut fixture = Fixture::new("", true);
    fs::write(fixture.at("new"), "1").unwrap();
    fs::write(fixture.at("d/old"), "2").unwrap();
    fs::write(fixture.at("d/sub/gone"), "").unwrap();
    fs::remove_file(fixture.at("d/sub/gone")).unwrap();
    assert_eq!(fixture.told(), ["created new", "modified d/old"]);
    fs::rename(fixture.at("d/old"), fixture.at("d/sub/moved")).unwrap();
    fs::remove_file(fixture.at("new")).unwrap();
    assert_eq!(fixture.told(), ["moved d/old to d/sub/moved", "deleted new"]);
    // Directories that come, move and go, and what is in them.
    fs::create_dir_all(fixture.at("a/b")).unwrap();
    fs::write(fixture.at("a/b/c"), "").unwrap();
    assert_eq!(fixture.told(), ["created a", "created a/b", "created a/b/c"]);
    fs::rename(fixture.at("a"), fixture.at("z")).unwrap();
    fs::write(fixture.at("z/b/c"), "2").unwrap();
    assert_eq!(fixture.told(), ["moved a to z", "modified z/b/c"]);
    fs::remove_dir_all(fixture.at("z")).unwrap();
    assert_eq!(fixture.told(), ["deleted z/b/c", "deleted z/b", "deleted z"]);
    assert_eq!(fixture.told(), [""; 0]);
}

#[test]
fn own_directories_and_temporary_names_are_not_told_of() {
    let mut fixture = Fixture::new("", true);
    fs::write(fixture.at(".cache/x/y"), "").unwrap();
    fs::create_dir(fixture.at(".config")).unwrap();
    fs::write(fixture.at(".upload-1"), "1").unwrap();
    fs::rename(fixture.at(".upload-1"), fixture.at("put")).unwrap();
    assert_eq!(fixture.told(), ["created put"]);
}

#[test]
fn without_recursion_one_directory_is_watched() {
    let mut fixture = Fixture::new("d", false);
    fs::write(fixture.at("outside"), "").unwrap();
    fs::write(fixture.at("d/sub/deep"), "").unwrap();
    fs::create_dir(fixture.at("d/new")).unwrap();
    fs::write(fixture.at("d/new/deep"), "").unwrap();
    assert_eq!(fixture.told(), ["created d/new"]);
    fs::remove_dir_all(fixture.at("d")).unwrap();
    let told = fixture.told();
    assert!(told.contains(&"deleted d/old".to_owned()), "{told:?}");
    assert!(fixture.watcher.step(&fixture.workdir), "its directory is gone");
}

#[test]
fn no_link_is_followed() {
    let outside = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new("", true);
    symlink(outside.path(), fixture.at("link")).unwrap();
    fs::remove_dir(fixture.at("d/sub")).unwrap();
    symlink(outside.path(), fixture.at("d/sub")).unwrap();
    let _links = fixture.told();
    fs::write(outside.path().join("secret"), "").unwrap();
    assert_eq!(fixture.told(), [""; 0]);
    fs::write(fixture.at("d/here"), "").unwrap();
    assert_eq!(fixture.told(), ["created d/here"], "the control");
    let (_client, theirs) = UnixStream::pair().unwrap();
    let refused = Watcher::start(&fixture.workdir, "link", true, theirs.into());
    assert!(matches!(refused, Err(FileError::Escapes | FileError::NotDirectory)), "{refused:?}");
}

#[test]
fn watches_are_bounded_and_the_client_is_told() {
    let mut fixture = Fixture::new("", true);
    for number in 0..WATCHES_MAX {
        fs::create_dir(fixture.at(&format!("d/{number}"))).unwrap();
    }
    let events = fixture.events();
    assert!(events.iter().any(|event| event.kind == FileEventKind::Overflow));
    assert!(fixture.watcher.watched.len() <= WATCHES_MAX);
}

#[test]
fn a_client_that_is_gone_ends_it() {
    let mut fixture = Fixture::new("", true);
    drop(std::mem::replace(&mut fixture.client, UnixStream::pair().unwrap().0));
    assert!(fixture.watcher.step(&fixture.workdir));
}

#[test]
fn a_client_that_does_not_read_costs_a_bounded_amount() {
    let mut fixture = Fixture::new("", true);
    for round in 0..40 {
        for number in 0..500 {
            let name = format!("{round}-{number}-{}", "x".repeat(200));
            fs::write(fixture.at(&name), "").unwrap();
        }
        fixture.watcher.due = Some(Instant::now());
        assert!(!fixture.watcher.step(&fixture.workdir));
    }
    let is_overflow = |event: &FileEvent| event.kind == FileEventKind::Overflow;
    assert!((0..100).any(|_| fixture.events().iter().any(is_overflow)));
}
