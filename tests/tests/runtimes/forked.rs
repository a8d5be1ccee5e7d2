//! Kernels that are forked from a template of the engine: what they have of it, and that they have nothing of each
//! other. The controls are kernels of the same program that are executed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::inside::{built, section};
use super::*;

const NAME: &str = "vivarium-wasm";

fn start(template: &str) -> Option<Daemon> {
    let lines = format!("{}\ntemplate = \"{template}\"", section(built()?));
    let daemon = Setup::default().config("environments.light", &lines).start();
    if template == "auto" {
        daemon.until_template_of("light");
    }
    Some(daemon)
}

/// The processes of the engine, the template first if there is one.
fn engines(daemon: &Daemon) -> (Option<Process>, Vec<Process>) {
    let mut all = daemon.descendants();
    all.retain(|one| one.name == NAME && one.state != 'Z');
    let (mut own, kernels): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| one.parent == daemon.pid());
    (own.pop(), kernels)
}

/// A session, and its kernel.
#[track_caller]
fn begun(daemon: &Daemon) -> (Session<'_>, Process) {
    let before: BTreeSet<_> = engines(daemon).1.into_iter().collect();
    let session = light(daemon);
    assert_eq!(session.value("1 + 1"), "2");
    let new: Vec<_> = engines(daemon).1.into_iter().filter(|one| !before.contains(one)).collect();
    assert_eq!(new.len(), 1, "{new:?}");
    (session, new[0].clone())
}

/// What a process has open, by number.
fn open_files(process: &Process) -> BTreeMap<u32, String> {
    let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| {
        let number = entry.file_name().to_str().unwrap().parse().unwrap();
        (number, fs::read_link(entry.path()).unwrap().display().to_string())
    });
    named.collect()
}

fn maps(process: &Process) -> String {
    fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap()
}

#[test]
fn a_forked_kernel_is_confined_as_one_that_is_executed() {
    let (Some(forking), Some(executing)) = (start("auto"), start("off")) else { return };
    let (forked, executed) = (light(&forking), light(&executing));
    assert_eq!(forked.info()["kernel_origin"], "forked");
    assert_eq!(executed.info()["kernel_origin"], "executed");
    for layer in
        ["namespaces", "mounts", "network", "credentials", "rlimits", "landlock", "seccomp", "wasm"]
    {
        let [ours, theirs] = [&forked, &executed].map(|session| session.layer(layer));
        assert_eq!(
            (&ours["status"], &ours["detail"]),
            (&theirs["status"], &theirs["detail"]),
            "{layer}"
        );
    }
    // And as the host sees it.
    let seen = |daemon: &Daemon| {
        let (_session, kernel) = begun(daemon);
        let status = fs::read_to_string(format!("/proc/{}/status", kernel.pid)).unwrap();
        let fields =
            ["NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Threads"];
        let lines = status.lines().filter_map(|line| line.split_once(':'));
        let lines = lines.filter(|(name, _)| fields.contains(name));
        let lines: Vec<_> = lines.map(|(name, value)| format!("{name} {}", value.trim())).collect();
        assert_eq!(lines.len(), fields.len(), "{status}");
        let limits = fs::read_to_string(format!("/proc/{}/limits", kernel.pid)).unwrap();
        (lines, limits)
    };
    assert_eq!(seen(&forking), seen(&executing));
    // The session's and the program's own; one that is executed has its launcher's too.
    let filters = |daemon: &Daemon| {
        let (_session, kernel) = begun(daemon);
        let status = fs::read_to_string(format!("/proc/{}/status", kernel.pid)).unwrap();
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix("Seccomp_filters:")).unwrap().trim().to_owned()
    };
    assert_eq!([filters(&forking), filters(&executing)], ["2", "3"]);
    let code = "import os; sorted(os.environ), os.getcwd(), os.listdir(), sorted(__import__('sys').modules)";
    assert_eq!(forked.value(code), executed.value(code));
    // What Python reads at its start is of no kernel of the engine's.
    let variables =
        json!({"environment": "light", "env": {"LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "7"}});
    let session = forking.any_session(&variables);
    assert_eq!(session.info()["kernel_origin"], "forked");
    assert_eq!(session.value("__import__('os').environ['LANG']"), "'de_DE.UTF-8'");
}

#[test]
fn nothing_that_the_template_has_open_is_open_in_a_kernel() {
    let (Some(forking), Some(executing)) = (start("auto"), start("off")) else { return };
    let (_session, kernel) = begun(&forking);
    let template = engines(&forking).0.unwrap();
    assert_eq!(kernel.parent, template.pid);
    let ours = open_files(&kernel);
    let (control, rest): (Vec<_>, Vec<_>) = ours.iter().partition(|(number, _)| **number < 4);
    let control: Vec<_> = control.iter().map(|(_, name)| name.split(':').next().unwrap()).collect();
    assert_eq!(control, ["/dev/null", "pipe", "pipe", "socket"]);
    // The session's directories, which the kernel itself has opened.
    assert!(
        rest.iter().all(|(_, name)| ["/workspace", "/tmp"].contains(&name.as_str())),
        "{ours:?}"
    );
    assert!(!maps(&kernel).contains(" rw-s "), "memory that sessions would share");
    assert!(maps(&kernel).contains(" rw-p "), "control");
    // The controls: the template has more, and a kernel that is executed its component.
    let (_other, _) = begun(&forking);
    let templates = open_files(&template);
    assert!(
        templates.values().filter(|name| name.starts_with("socket")).count() >= 3,
        "{templates:?}"
    );
    let (_session, kernel) = begun(&executing);
    assert!(open_files(&kernel)[&4].contains("memfd:vivarium-kernel"), "the component");
}

const STREAMS: &str = "
import json, os, random, secrets, tempfile, uuid
streams = {
    'random.random': random.random(), 'random.Random': random.Random().random(),
    'random.SystemRandom': random.SystemRandom().random(), 'random.sample': random.sample(range(10**9), 4),
    'secrets': secrets.token_hex(16), 'os.urandom': os.urandom(16).hex(), 'uuid1': str(uuid.uuid1()),
    'uuid.getnode': uuid.getnode(), 'uuid4': str(uuid.uuid4()), 'tempfile.mkdtemp': tempfile.mkdtemp(),
    'a second os.urandom': os.urandom(4096)[-16:].hex(),
}
print(json.dumps([streams, hash('vivarium')]))";

#[test]
fn kernels_of_one_template_share_no_stream() {
    let Some(daemon) = start("auto") else { return };
    let draw = |session: &Session<'_>| -> (BTreeMap<String, serde_json::Value>, i64) {
        serde_json::from_value(session.execute(STREAMS).ok().printed_json()).unwrap()
    };
    let sessions: Vec<_> = (0..6).map(|_| light(&daemon)).collect();
    let mut drawn: Vec<_> = sessions.iter().map(draw).collect();
    for session in &sessions[..2] {
        let _reset = session.reset();
        drawn.push(draw(session));
    }
    for name in drawn[0].0.keys() {
        let values: BTreeSet<_> =
            drawn.iter().map(|(streams, _)| streams[name].to_string()).collect();
        assert_eq!(values.len(), drawn.len(), "{name}: {values:?}");
    }
    // The control, and what docs/runtimes.md says: the seed of `hash` is a part of the component.
    assert!(drawn.iter().all(|(_, hash)| *hash == drawn[0].1), "{drawn:?}");
}

fn canary(kind: &str) -> String {
    format!("canary-{kind}-of-a-test")
}

/// The kinds of the canaries in all of a process's memory that can be written to.
fn canaries(process: &Process) -> BTreeSet<String> {
    let memory = File::open(format!("/proc/{}/mem", process.pid)).unwrap();
    let (mut found, mut read) = (BTreeSet::new(), 0);
    for line in maps(process).lines().filter(|line| line.contains(" rw")) {
        let (low, high) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [low, high] = [low, high].map(|end| u64::from_str_radix(end, 16).unwrap());
        let mut data = vec![0; usize::try_from(high - low).unwrap()];
        if memory.read_exact_at(&mut data, low).is_err() {
            continue; // [vvar] and its kin
        }
        read += data.len();
        for piece in data.split(|byte| *byte == b'c') {
            let Some(rest) = piece.strip_prefix(b"anary-") else { continue };
            let kind: Vec<_> = rest.iter().copied().take_while(u8::is_ascii_lowercase).collect();
            if rest[kind.len()..].starts_with(b"-of-a-test") {
                found.insert(String::from_utf8(kind).unwrap());
            }
        }
    }
    assert!(read > 16 << 20, "{read} bytes were read");
    found
}

/// Looked for from outside: a guest reads no memory but its own.
#[test]
fn nothing_of_one_session_is_in_the_template_or_in_the_next() {
    let Some(daemon) = start("auto").filter(|_| host::is_root()) else { return };
    let env = json!({"PLANTED": canary("env")});
    let first = json!({"environment": "light", "id": canary("first"), "env": env});
    let full = daemon.any_session(&first);
    let code = format!(
        "kept = '{}'\nopen('/workspace/{}', 'w').write('{}')\nprint('{}')",
        canary("variable"),
        canary("file"),
        canary("text"),
        canary("output")
    );
    let _planted = full.execute(&code).ok();
    let (template, mut kernels) = engines(&daemon);
    let of_full = canaries(&kernels.pop().unwrap());
    for kind in ["variable", "env", "file", "text", "output"] {
        assert!(of_full.contains(kind), "control: {kind}: {of_full:?}");
    }
    // Its cgroup, which the process knew as it became the kernel, has its name.
    let next = json!({"environment": "light", "id": canary("next")});
    let next = daemon.any_session(&next);
    assert_eq!(next.value("1 + 1"), "2");
    let (_, after) = engines(&daemon);
    let own = after.into_iter().max_by_key(|one| one.started).unwrap();
    assert_eq!(canaries(&own), BTreeSet::new());
    assert_eq!(canaries(&template.unwrap()), BTreeSet::new());
    let _reset = full.reset();
    let (_, after) = engines(&daemon);
    let again = after.into_iter().max_by_key(|one| (one.started, one.pid)).unwrap();
    assert_eq!(
        canaries(&again),
        BTreeSet::from(["env".to_owned()]),
        "its variables are the session's"
    );
}

#[test]
fn a_trap_ends_a_forked_kernel_alone_and_as_one_that_is_executed() {
    let (Some(forking), Some(executing)) = (start("auto"), start("off")) else { return };
    let neighbour = light(&forking);
    let _set = neighbour.execute("kept = 7").ok();
    for trap in TRAPS {
        for daemon in [&forking, &executing] {
            let session = light(daemon);
            let outcome = session.execute(trap).ended("killed", "exited", "lost");
            assert_eq!(outcome.detail(), "the kernel exited by itself with code 70", "{outcome}");
            assert_eq!(session.value("1 + 1"), "2", "another kernel");
        }
    }
    assert_eq!(neighbour.value("kept"), "7");
    // What is no trap is none: the stack ends in an exception.
    let deep = neighbour.execute("import sys\nsys.setrecursionlimit(20000)\ndef f(): f()\nf()");
    assert_eq!(deep.0["exception"]["type"], "RecursionError", "{deep}");
    assert_eq!(neighbour.value("kept"), "7");
}

/// Code of Python's with what no compiler makes: it takes more from its stack than is there, which ends in memory that
/// is not the guest's, and it is an instruction that is none, which has Python abort.
const TRAPS: [&str; 2] = [
    "
import dis
def f(): pass
f.__code__ = f.__code__.replace(co_stacksize=1, co_code=bytes([dis.opmap['POP_TOP'], 0] * 400))
f()",
    "exec((lambda: 0).__code__.replace(co_code=bytes(4)))",
];

#[test]
fn sessions_outlive_a_template_and_the_next_ones_come_from_another() {
    let Some(daemon) = start("auto") else { return };
    let (session, kernel) = begun(&daemon);
    let _set = session.execute("kept = 7").ok();
    let template = engines(&daemon).0.unwrap();
    kill(Pid::from_raw(template.pid), Signal::SIGKILL).unwrap();
    wait::until_true("its end", || !template.is_alive());
    assert_eq!(session.value("kept"), "7");
    assert!(kernel.is_alive());
    assert_eq!(light(&daemon).value("1 + 1"), "2", "one without a template");
    wait::until_true("another", || {
        daemon.environment_of("light")["template"]["state"] == "ready"
            && engines(&daemon).0.is_some_and(|new| new.pid != template.pid)
    });
    assert_eq!(light(&daemon).info()["kernel_origin"], "forked");
    let _reset = session.reset();
    assert_eq!(session.value("'kept' in dir()"), "False");
    drop(daemon);
    wait::until_true("the end of all", || !kernel.is_alive());
}

#[test]
fn limits_and_interrupts_are_of_the_session_and_not_of_the_template() {
    let Some(daemon) = start("auto") else { return };
    let small = json!({"environment": "light", "limits": {"max_memory_mb": 128}});
    let small = daemon.any_session(&small);
    let _set = small.execute("kept = 7").ok();
    let large = small.execute("len(bytearray(512 << 20))");
    assert_eq!(large.0["exception"]["type"], "MemoryError", "{large}");
    assert_eq!(light(&daemon).value("len(bytearray(512 << 20))"), "536870912", "control");
    let endless = small.execute_for(300, "while True: pass");
    let _over = endless.ended("timed_out", "wall_time", "preserved");
    assert_eq!(small.value("kept"), "7");
    let handled = "import signal, time\ncame = []\n\
                   signal.signal(signal.SIGALRM, lambda *_: came.append(print('came')))\n\
                   signal.setitimer(signal.ITIMER_REAL, 0.05)\nwhile not came: time.sleep(0.01)";
    assert_eq!(small.execute(handled).ok().stdout(), "came\n");
}
