//! Who runs it, and what they become.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::unistd::User;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::processes::Process;
use vivarium_tests::program::{self, Runner, nobody};
use vivarium_tests::{Daemon, Setup};

use crate::Family;

/// The user of daemons, who starts one itself.
fn service() -> Runner {
    Runner::User(host::user_of_daemons())
}

#[test]
fn a_daemon_started_by_root_gives_root_up_for_good() {
    if !host::has(&[Requirement::Root]) {
        return;
    }
    let daemon = Daemon::start();
    let own = daemon.process();
    let user = host::service_user();
    assert_eq!(own.user_ids(), [user.uid.as_raw(); 4]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", own.pid)).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    assert_eq!(field("Gid:").split_whitespace().next().unwrap(), user.gid.to_string());
    assert!(["".to_owned(), user.gid.to_string()].contains(&field("Groups:")), "{status}");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    daemon.stop_and_check();
}

#[test]
fn root_is_never_what_it_becomes() {
    if !host::has(&[Requirement::Root]) {
        return;
    }
    for user in ["root", "0", "no-such-user"] {
        let started = Setup::default().config("server", &format!("user = {user:?}")).try_start();
        let (status, log) = started.err().unwrap();
        assert!(!status.success());
        assert!(log.contains("server.user"), "{log}");
    }
}

#[test]
fn an_ordinary_user_can_serve() {
    let daemon = Setup::default().runner(nobody()).start();
    let session = daemon.session();
    assert_eq!(session.value("6 * 7"), "42");
    for layer in ["namespaces", "mounts", "network", "rlimits", "seccomp", "env_scrub"] {
        assert_eq!(session.layer(layer)["status"], "enforced", "{layer}");
    }
    let cgroup = session.layer("cgroup");
    if cgroup["status"] == "unavailable" {
        assert!(cgroup["detail"].as_str().unwrap().contains("cgroup"), "{cgroup}");
        assert!(cgroup["fix"].as_str().unwrap().contains("Delegate=yes"), "{cgroup}");
    }
    // Without a cgroup everything still ends with its session.
    let scatter =
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True) and None";
    let _scattered = session.execute(scatter).ok();
    assert_eq!(session.processes(), 2);
    session.reset();
    assert_eq!(session.processes(), 1);
    daemon.stop_and_check();
}

/// proc_pid(5): the files of a process that is not dumpable are root's, so that nobody of its own id
/// reads its memory.
#[test]
fn the_daemon_is_not_dumpable_whoever_starts_it() {
    for runner in [Runner::Self_, nobody()] {
        let daemon = Setup::default().runner(runner).start();
        assert_eq!(daemon.session().value("6 * 7"), "42");
        let owner = |pid: i32| std::fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
        assert_eq!(owner(daemon.pid()), 0);
        // The control: another process of its id.
        assert_ne!(owner(daemon.fork_server().unwrap().pid), 0);
        daemon.stop_and_check();
    }
}

#[test]
fn an_ordinary_user_that_is_killed_leaves_nothing_running() {
    let daemon = Setup::default().runner(nobody()).start();
    let session = daemon.session();
    let scatter =
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True) and None";
    let _scattered = session.execute(scatter).ok();
    let dir = daemon.kill_and_check();
    Setup::default().runner(nobody()).in_place_of(dir).start().stop_and_check();
}

/// The permitted and effective capabilities of a process, whatever user namespace it is in.
fn capabilities(pid: i32) -> [String; 2] {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    ["CapPrm:", "CapEff:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    })
}

#[test]
fn a_user_with_subordinate_ids_gives_each_session_its_own() {
    if !host::has(&[Requirement::SubordinateIds]) {
        return;
    }
    let daemon = Setup::default().runner(service()).start();
    let session = daemon.session();
    let layer = session.layer("credentials");
    assert_eq!(layer["status"], "enforced", "{layer}");
    let own = daemon.process().user_ids()[0];
    let kernel = daemon.descendants().into_iter().find(|p| p.name.starts_with("python")).unwrap();
    assert!(!kernel.user_ids().contains(&own), "{kernel:?}");
    // Whoever mapped the ids had the right to map all of them, and gave it up. That the agent has
    // some for its session shows that they would be seen.
    let Family { launcher, agent, .. } = Family::of(&daemon);
    assert_ne!(capabilities(agent.pid), ["0000000000000000"; 2]);
    assert_eq!(capabilities(launcher.pid), ["0000000000000000"; 2]);
    // What it writes and leaves is gone all the same.
    let _left = session.execute("open('x', 'w').write('x'); import os; os.chmod('.', 0)").ok();
    daemon.stop_and_check();
}

#[test]
fn the_command_line_runs_code_for_root_and_for_others() {
    let mut runners = vec![Runner::Self_];
    if host::is_root() {
        runners.extend([nobody(), service()]);
    }
    for runner in runners {
        let dir = program::temp_dir();
        if let Runner::User(user) = &runner {
            nix::unistd::chown(dir.path(), Some(user.uid), Some(user.gid)).unwrap();
        }
        let ran = program::embedded(&runner, dir.path(), &["-c", "print(6*7)"], "").expect_code(0);
        assert_eq!((ran.stdout().as_str(), ran.stderr().as_str()), ("42\n", ""), "{runner:?}");
    }
}

/// The host ids of a daemon's sessions: of their kernels and of their agents.
fn host_ids(daemon: &Daemon) -> BTreeSet<u32> {
    let own = daemon.process().user_ids()[0];
    let all = daemon.descendants();
    all.iter().flat_map(Process::user_ids).filter(|uid| *uid != own).collect()
}

/// Claims all ids that there are, as a daemon of its user does.
const CLAIM_ALL: &str = "
import fcntl, os, signal
file = os.memfd_create('claims')
fcntl.lockf(file, fcntl.LOCK_EX, 1 << 32, 0x7669_7661_0000_0000)
os.write(1, b'!')
while True: signal.pause()";

/// A process of another user than daemons have, which claims all ids.
fn stranger() -> Child {
    let User { uid, gid, .. } = host::nobody();
    let mut stranger = Command::new("/usr/bin/setpriv")
        .args([&format!("--reuid={uid}"), &format!("--regid={gid}"), "--clear-groups", "--"])
        .args(["/usr/bin/python3", "-c", CLAIM_ALL])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    stranger.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    stranger
}

#[test]
fn daemons_of_one_user_never_have_the_same_host_ids() {
    if !host::has(&[Requirement::SubordinateIds]) {
        return;
    }
    // Somebody else's claims are none.
    let stranger = host::is_root().then(stranger);
    // Each has directories of its own; they start at one time.
    let runners = [Runner::Self_, Runner::Self_, service()];
    let mut daemons: Vec<_> = thread::scope(|scope| {
        let started = runners.map(|runner| scope.spawn(|| Setup::default().runner(runner).start()));
        started.into_iter().map(|daemon| daemon.join().unwrap()).collect()
    });
    let all_apart = |daemons: &[Daemon]| {
        let mut all = BTreeSet::new();
        for daemon in daemons {
            let (one, other) = (daemon.session(), daemon.session());
            for session in [&one, &other] {
                assert_eq!(session.layer("credentials")["status"], "enforced");
            }
            let ids = host_ids(daemon);
            assert_eq!(ids.len() % 4, 0, "{ids:?}");
            assert!(all.is_disjoint(&ids), "{ids:?} and {all:?}");
            all.extend(ids);
        }
    };
    all_apart(&daemons);
    // One that is killed has no claims any more, and the others keep theirs.
    let dir = daemons.remove(0).kill_and_check();
    daemons.push(Setup::default().in_place_of(dir).start());
    all_apart(&daemons);
    for daemon in daemons {
        daemon.stop_and_check();
    }
    if let Some(mut stranger) = stranger {
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
