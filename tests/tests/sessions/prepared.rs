//! The session that is prepared before anybody asks for it.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::processes::Process;
use vivarium_tests::{Daemon, Session, Setup, wait};

/// A namespace, which is this one for as long as it is open: what is gone gives its number to another.
#[derive(Debug)]
struct Namespace(Metadata, #[expect(dead_code, reason = "held open")] File);

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        (self.0.dev(), self.0.ino()) == (other.0.dev(), other.0.ino())
    }
}

/// `None` if the process has ended.
fn namespace(of: &Process, name: &str) -> Option<Namespace> {
    let file = File::open(format!("/proc/{}/ns/{name}", of.pid)).ok()?;
    Some(Namespace(file.metadata().unwrap(), file))
}

/// Those that are made ahead.
fn namespaces(of: &Process) -> Option<Vec<Namespace>> {
    ["user", "mnt", "net", "ipc", "uts"].iter().map(|name| namespace(of, name)).collect()
}

/// It is prepared once for each session that was asked for, and ends when the host mounts something.
fn ask_again(daemon: &Daemon, looked: &mut u32) -> Option<Process> {
    *looked += 1;
    if looked.is_multiple_of(100) {
        end(&daemon.session());
    }
    None
}

#[track_caller]
fn until_prepared(daemon: &Daemon) -> Process {
    let mut looked = 0;
    wait::until("a prepared session", || {
        daemon.prepared().or_else(|| ask_again(daemon, &mut looked))
    })
}

/// The agent of the daemon's only session.
fn agent(daemon: &Daemon) -> Process {
    daemon.descendants().into_iter().find(|one| one.name == "viv-agent").unwrap()
}

#[track_caller]
fn end(session: &Session<'_>) {
    assert_eq!(session.request("DELETE", "", None).status, 204);
}

/// What a session tells of itself that is not its own alone.
fn told(session: &Session<'_>) -> [Value; 3] {
    let info = session.info();
    // What a mount has of the host's ids, or of its files, is the session's own.
    let mounts = "sorted(
 [*line.split()[3:-1], *(it for it in line.split()[-1].split(',')
  if it.split('=')[0] not in ('uid', 'gid', 'lowerdir'))] for line in open('/proc/self/mountinfo'))";
    let look =
        "[open('/proc/self/uid_map').read().split()[::3], __import__('os').uname().nodename]";
    [info["protection"].clone(), session.value(mounts).into(), session.value(look).into()]
}

/// A session that took what was prepared: the process that kept it, and its namespaces.
fn taken(daemon: &Daemon) -> (Session<'_>, Process, Vec<Namespace>) {
    let mut looked = 0;
    wait::until("a session that takes what was prepared", || {
        // The daemon may not know yet of one that is there, or may replace it by another.
        let keeper = daemon.prepared().or_else(|| ask_again(daemon, &mut looked))?;
        let (made, outside) = (namespaces(&keeper)?, namespace(&keeper, "pid")?);
        let session = daemon.session();
        let agent = agent(daemon);
        if namespaces(&agent)? != made {
            end(&session);
            return None;
        }
        assert_ne!(namespace(&agent, "pid"), Some(outside));
        Some((session, keeper, made))
    })
}

#[test]
fn a_session_that_takes_it_is_as_one_that_nothing_was_prepared_for() {
    let daemon = Setup::default().start();
    let mut seen: Vec<Namespace> = Vec::new();
    for _ in 0..3 {
        let (session, keeper, made) = taken(&daemon);
        wait::until_true("the end of what kept it", || !keeper.is_alive());
        assert!(!made.iter().any(|one| seen.contains(one)), "two sessions had one namespace");
        let told = told(&session);
        end(&session);
        // The control: another policy, which nothing was prepared for.
        let session = daemon.session_with(&json!({"limits": {"max_output_bytes": 65536}}));
        let other = namespaces(&agent(&daemon)).unwrap();
        assert!(!other.iter().any(|one| made.contains(one)));
        assert_eq!(self::told(&session), told);
        end(&session);
        seen.extend(made);
        // The next is as the last was.
        end(&daemon.session());
    }
    daemon.stop_and_check();
}

#[test]
fn one_that_ended_or_hangs_is_done_without() {
    let daemon = Setup::default().start();
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        for of_launcher in [false, true] {
            if of_launcher && signal == Signal::SIGSTOP {
                continue; // As of any launcher: its session's start takes too long.
            }
            let prepared = until_prepared(&daemon);
            let pid = if of_launcher { prepared.parent } else { prepared.pid };
            kill(Pid::from_raw(pid), signal).unwrap();
            if of_launcher {
                wait::until_true("the end of both", || !prepared.is_alive());
            }
            wait::until_true(&format!("its end, {signal} {of_launcher}"), || {
                let session = daemon.session();
                assert_eq!(session.value("6 * 7"), "42");
                end(&session);
                !prepared.is_alive()
            });
        }
    }
    daemon.until_only(0);
    daemon.stop_and_check();
}

#[test]
fn a_host_that_changes_is_seen_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let shown = dir.path().join("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("file"), "before").unwrap();
    let paths = format!("read_paths = [{:?}]", shown.display().to_string());
    let daemon = Setup::default().config("environments.default", &paths).start();
    let read = format!("open({:?}).read()", shown.join("file").display().to_string());
    for (number, text) in ["before", "after", "again"].into_iter().enumerate() {
        let _kept = until_prepared(&daemon);
        if number > 0 {
            fs::rename(&shown, dir.path().join(number.to_string())).unwrap();
            fs::create_dir(&shown).unwrap();
            fs::write(shown.join("file"), text).unwrap();
        }
        let session = daemon.session();
        assert_eq!(session.value(&read), format!("'{text}'"));
        end(&session);
    }
    daemon.stop_and_check();
}

/// What waits for the next session has nothing of the last one.
#[test]
fn nothing_of_a_session_is_in_the_next_one() {
    let daemon = Setup::default().start();
    let secret = "a-variable-of-one-session-alone";
    let session = daemon.session_with(&json!({"env": {"OWN": secret}}));
    assert_eq!(session.value("__import__('os').environ['OWN']"), format!("'{secret}'"));
    let launcher = Process::find(agent(&daemon).parent).unwrap();
    // The control: this session's own launcher has it.
    assert!(launcher.holds(secret));
    let prepared = until_prepared(&daemon);
    for process in [Process::find(prepared.parent).unwrap(), prepared] {
        assert!(!process.holds(secret), "{process:?}");
    }
    daemon.stop_and_check();
}
