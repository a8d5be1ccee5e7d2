//! The session that is prepared before anybody asks for it.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::processes::Process;
use vivarium_tests::{Daemon, Session, Setup, wait};

/// A namespace of a process, such as `net:[4026531840]`.
fn namespace(of: &Process, name: &str) -> String {
    fs::read_link(format!("/proc/{}/ns/{name}", of.pid)).unwrap().display().to_string()
}

/// Those that are made ahead.
const AHEAD: [&str; 5] = ["user", "mnt", "net", "ipc", "uts"];

fn namespaces(of: &Process) -> Vec<String> {
    AHEAD.iter().map(|name| namespace(of, name)).collect()
}

#[track_caller]
fn until_prepared(daemon: &Daemon) -> Process {
    wait::until("a prepared session", || daemon.prepared())
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
    let mounts = "sorted(line.split()[3:] for line in open('/proc/self/mountinfo'))";
    let look =
        "[open('/proc/self/uid_map').read().split()[::3], __import__('os').uname().nodename]";
    [info["protection"].clone(), session.value(mounts).into(), session.value(look).into()]
}

#[test]
fn each_session_takes_it_and_is_as_one_that_nothing_was_prepared_for() {
    let daemon = Setup::default().start();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let prepared = until_prepared(&daemon);
        let (made, outside) = (namespaces(&prepared), namespace(&prepared, "pid"));
        // The daemon may not know of it yet, though it is there.
        let session = wait::until("a session that takes it", || {
            let session = daemon.session();
            let takes = namespaces(&agent(&daemon)) == made;
            if !takes {
                end(&session);
            }
            takes.then_some(session)
        });
        assert_ne!(namespace(&agent(&daemon), "pid"), outside);
        wait::until_true("the end of what kept it", || !prepared.is_alive());
        let told = told(&session);
        end(&session);
        // The control: another policy, which nothing was prepared for.
        let session = daemon.session_with(&json!({"limits": {"max_output_bytes": 65536}}));
        let other = agent(&daemon);
        assert!(namespaces(&other).iter().all(|one| !made.contains(one)));
        assert_eq!(self::told(&session), told);
        end(&session);
        seen.extend(made);
        // The next is as the last was.
        end(&daemon.session());
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all, "two sessions had one namespace");
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
    assert!(holds(&launcher, secret));
    let prepared = until_prepared(&daemon);
    for process in [Process::find(prepared.parent).unwrap(), prepared] {
        assert!(!holds(&process, secret), "{process:?}");
    }
    daemon.stop_and_check();
}

/// Whether a text is somewhere in the memory of a process.
fn holds(process: &Process, text: &str) -> bool {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap();
    let memory = fs::File::open(format!("/proc/{}/mem", process.pid)).unwrap();
    maps.lines().any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        let mut part = vec![0; usize::try_from(to - from).unwrap()];
        memory.read_exact_at(&mut part, from).is_ok()
            && part.windows(text.len()).any(|window| window == text.as_bytes())
    })
}
