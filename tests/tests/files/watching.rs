//! Changes of files, as they come.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use vivarium_tests::Setup;
use vivarium_tests::events::{Event, Events};
use vivarium_tests::host::{self, Requirement};

use super::Files;

/// A watcher that sees what changes from now on.
fn watch(files: &Files<'_>, query: &str) -> Events {
    let path = files.session.path(&format!("/watch?{query}"));
    let mut events = Events::open(&files.daemon.unix(), "GET", &path, &[], None);
    assert_eq!(events.head.status, 200);
    let _ready = events.expect("ready");
    events
}

fn told(event: &Event) -> String {
    let from = event.data["from"].as_str().map(|from| format!("{from} to ")).unwrap_or_default();
    format!("{} {from}{}", event.name, event.data["path"].as_str().unwrap_or_default())
}

/// Code that is held up between opening a file and closing it has it told of twice.
#[track_caller]
fn expect(events: &mut Events, expected: &[&str]) {
    let mut before = String::new();
    for expected in expected {
        let event = loop {
            let event = events.next_event().unwrap_or_else(|| panic!("no {expected}"));
            let is_again = event.name == "modified" && event.data["path"] == before;
            if !is_again || told(&event) == *expected {
                break event;
            }
        };
        assert_eq!(told(&event), *expected);
        event.data["path"].as_str().unwrap_or_default().clone_into(&mut before);
    }
}

#[test]
fn changes_come_as_events() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run("import os; os.makedirs('d/sub'); open('d/old', 'w').close()");
    let mut all = watch(&files, "");
    let mut one = watch(&files, "path=/mnt/data/d&recursive=false");
    let mut tmp = watch(&files, "path=/tmp");
    files.run("open('d/old', 'w').write('1'); open('d/sub/new', 'w').write('2')");
    expect(&mut all, &["modified d/old", "created d/sub/new"]);
    expect(&mut one, &["modified d/old"]);
    files.run("os.rename('d/old', 'd/sub/moved'); os.makedirs('a/b'); open('a/b/c', 'w').close()");
    expect(&mut all, &["moved d/old to d/sub/moved", "created a", "created a/b", "created a/b/c"]);
    expect(&mut one, &["deleted d/old"]);
    files.run(
        "import shutil; shutil.rmtree('a'); os.makedirs('.cache'); open('/tmp/x', 'w').close()",
    );
    expect(&mut all, &["deleted a/b/c", "deleted a/b", "deleted a"]);
    expect(&mut tmp, &["created /tmp/x"]);
    // What is written through the API is an event too, when it is whole.
    assert_eq!(files.put("up/load", b"content").status, 201);
    expect(&mut all, &["created up", "created up/load"]);
    // The directory goes, and with it the watcher; the session goes, and with it the others.
    files.run("shutil.rmtree('d')");
    assert!(one.rest().iter().any(|event| told(event) == "deleted d/sub"));
    assert_eq!(files.session.request("DELETE", "", None).status, 204);
    assert!(all.rest().iter().any(|event| told(event) == "deleted d"));
    let _end = tmp.rest();
    daemon.release();
}

#[test]
fn watchers_are_bounded_and_end_with_their_client() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let mut watchers: Vec<_> = (0..4).map(|_| watch(&files, "")).collect();
    let refused = || files.session.request("GET", "/watch", None);
    refused().expect_problem(429, "too_many_transfers");
    // They take nothing from transfers, nor from other sessions.
    assert_eq!(files.put("a", b"1").status, 201);
    let other = Files::of(&daemon);
    drop(watch(&other, ""));
    drop(watchers.pop());
    vivarium_tests::wait::until_true("room for another", || {
        let path = files.session.path("/watch");
        Events::open(&daemon.unix(), "GET", &path, &[], None).head.status == 200
    });
    for (query, status, code) in [
        ("path=none", 404, "unknown_file"),
        ("path=../x", 422, "bad_path"),
        ("path=/etc", 422, "bad_path"),
    ] {
        let answer = other.session.request("GET", &format!("/watch?{query}"), None);
        answer.expect_problem(status, code);
    }
    assert_eq!(other.put("a", b"").status, 201);
    other.session.request("GET", "/watch?path=a", None).expect_problem(409, "not_a_file");
    // A daemon that stops does not wait for them.
    daemon.release();
}

#[test]
fn more_events_than_are_kept_are_an_overflow() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let mut events = watch(&files, "");
    files.run(
        "import os\n\
         for number in range(30000):\n    \
             name = f'{number:0200}'; open(name, 'w').close()\n    \
             if number % 2: os.unlink(name)",
    );
    let found = std::iter::from_fn(|| events.next_event()).find(|event| event.name == "overflow");
    assert!(found.is_some());
    // It goes on.
    files.run("open('last', 'w').close()");
    assert!(std::iter::from_fn(|| events.next_event()).any(|event| told(&event) == "created last"));
    daemon.release();
}

#[test]
fn nothing_outside_is_watched_through_links() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run("import os; os.mkdir('/tmp/out'); os.mkdir('d'); os.symlink('/tmp/out', 'link')");
    let answer = files.session.request("GET", "/watch?path=link", None);
    assert!([409, 422].contains(&answer.status), "{}", answer.status);
    let mut events = watch(&files, "");
    files.run(
        "os.rmdir('d'); os.symlink('/tmp/out', 'd')\n\
         os.symlink('/tmp/out', 'other'); open('/tmp/out/secret', 'w').close()",
    );
    files.run("open('here', 'w').close()");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "created here") {
        seen.push(told(&events.next_event().unwrap()));
    }
    assert!(seen.iter().all(|event| !event.contains("secret")), "{seen:?}");
    daemon.release();
}

/// What watchfiles says, a line for each change: kind and path.
const WATCHFILES: &str = "
import sys, watchfiles
print('ready', flush=True)
for changes in watchfiles.watch(sys.argv[1], step=20, debounce=100, yield_on_timeout=False,
                                watch_filter=None):
    for kind, path in changes:
        print(kind.raw_str(), path, flush=True)
    print('batch', flush=True)
";

/// Directories one by one: watchfiles misses what is made in a new one before it watches that.
const SERIES: [&str; 7] = [
    "open('a', 'w').write('1')",
    "open('a', 'a').write('2')",
    "os.mkdir('d')",
    "os.mkdir('d/e')",
    "open('d/e/f', 'w').write('3')",
    "os.rename('a', 'b')",
    "os.remove('d/e/f')",
];

#[test]
fn the_same_changes_are_told_as_by_watchfiles() {
    if !host::has(&[Requirement::FileWatchers]) {
        return;
    }
    // Where the workdir is a directory of the host's, so that both can see it.
    let daemon = Setup::default().without(&["mounts"]).start();
    let files = Files::of(&daemon);
    let workdir = files.session.value("import os; os.getcwd()");
    let workdir = workdir.trim_matches('\'');
    let mut judge = Command::new(host::tool("python").unwrap())
        .args(["-c", WATCHFILES, workdir])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(judge.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    // It says so before it watches.
    vivarium_tests::wait::until_true("its watches", || has_watches(judge.id()));
    let mut events = watch(&files, "");
    for (number, change) in SERIES.iter().enumerate() {
        let mark = format!("mark{number}");
        files.run(&format!("{change}\nimport time; time.sleep(0.3)\nopen({mark:?}, 'w').close()"));
        // A batch has no order: the change may stand behind the mark.
        let (mut theirs, mut is_marked) = (BTreeSet::new(), false);
        for line in lines.by_ref() {
            is_marked |= line.contains(&mark);
            if line == "batch" && is_marked {
                break;
            }
            if !["batch", "mark", ".tmp"].iter().any(|name| line.contains(name)) {
                theirs.insert(line.replace(&format!("{workdir}/"), ""));
            }
        }
        let mut ours = BTreeSet::new();
        loop {
            let event = events.next_event().unwrap();
            let path = event.data["path"].as_str().unwrap();
            if path.contains(&mark) {
                break;
            }
            if path.starts_with("mark") {
                continue;
            }
            match event.name.as_str() {
                "moved" => ours.extend([
                    format!("deleted {}", event.data["from"].as_str().unwrap()),
                    format!("added {path}"),
                ]),
                "created" => drop(ours.insert(format!("added {path}"))),
                name => drop(ours.insert(format!("{name} {path}"))),
            }
        }
        // It tells that a directory has another time, and of the content of a new file.
        let added = |line: &str| theirs.contains(&line.replace("modified ", "added "));
        let directories = ["modified d", "modified d/e"];
        let theirs: BTreeSet<String> = theirs
            .iter()
            .filter(|line| !directories.contains(&line.as_str()))
            .filter(|line| !(line.starts_with("modified ") && added(line)))
            .cloned()
            .collect();
        assert_eq!(ours, theirs, "{change}");
    }
    judge.kill().unwrap();
    let _ended = judge.wait().unwrap();
    daemon.stop_and_check();
}

/// Whether a process watches any directory.
fn has_watches(pid: u32) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
    let texts = entries.flatten().filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts.into_iter().any(|text| text.contains("inotify wd:"))
}
