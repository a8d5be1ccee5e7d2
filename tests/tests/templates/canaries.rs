//! Nothing of the supervisor or of other sessions is to be found in a kernel that was forked:
//! searched for through all that the kernel can read of itself.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Session, Setup};

use crate::template;

/// Finds what was planted anywhere, by its kind. No canary is spelt out in here, nor is one made by
/// looking: what is kept of a find is its middle.
const SEARCH: &str = "
def search():
    import glob, os, re
    pattern = re.compile(rb'c[a]nary-([a-z]+)-of-a-test')
    kinds, places, mapped = set(), 0, 0
    def look(data):
        for found in pattern.finditer(data):
            kinds.add(found.group(1)[:])
    for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path, 'rb') as file:
                look(file.read())
            places += 1
        except OSError:
            pass
    with open('/proc/self/maps') as maps:
        lines = maps.readlines()
    memory = os.open('/proc/self/mem', os.O_RDONLY)
    for line in lines:
        span, flags, *rest = line.split()
        if flags[0] != 'r' or rest[-1] in ('[vvar]', '[vvar_vclock]', '[vsyscall]'):
            continue
        low, high = (int(end, 16) for end in span.split('-'))
        while low < high:
            # Overlapping, so that none is cut in two.
            data = os.pread(memory, min(high - low, 1 << 22), low)
            look(data)
            mapped += len(data)
            if len(data) < 1 << 22: break
            low += (1 << 22) - 64
    os.close(memory)
    assert places >= 2 and mapped > 1 << 22, (places, mapped)
    for fd in os.listdir('/proc/self/fd'):
        try: look(os.readlink('/proc/self/fd/' + fd).encode())
        except OSError: pass
    return sorted(kind.decode() for kind in kinds)
";

fn canary(kind: &str) -> String {
    format!("canary-{kind}-of-a-test")
}

/// Code that makes a canary of its pieces.
fn made(kind: &str) -> String {
    format!("'-'.join(['canary', '{kind}', 'of-a-test'])")
}

/// What is found in a session, which has planted one of its own.
fn found(session: &Session<'_>) -> String {
    let _planted = session.execute(&format!("own = {}", made("own"))).ok();
    let _defined = session.execute(SEARCH).ok();
    session.value("search()")
}

/// A session that has a canary everywhere.
fn full_of_canaries(daemon: &Daemon) -> Session<'_> {
    let env = json!({ "PLANTED": canary("env") });
    let session =
        daemon.session_with(&json!({ "env": env, "metadata": {"m": canary("metadata")} }));
    let code = format!(
        "variable = '{}'\nopen('file', 'w').write('{}')\nopen('/tmp/file', 'w').write('{}')\n\
         print(variable)\nimport os, subprocess\n\
         child = subprocess.Popen(['sleep', '1000'], env=dict(os.environ, MORE='{}'))",
        canary("variable"),
        canary("file"),
        canary("scratch"),
        canary("child"),
    );
    let _planted = session.execute(&code).ok();
    let command = json!({"argv": ["cat", "-", "file"], "stdin": canary("stdin")});
    let _run = session.command(&command).ok();
    let upload = session.request("PUT", "/files/uploaded", Some(&json!(canary("upload"))));
    assert!((200..300).contains(&upload.status));
    let bearer = format!("Bearer {}", canary("token"));
    let path = session.path("");
    let answer =
        Client::connect(&daemon.unix()).send("GET", &path, &[("Authorization", &bearer)], None);
    assert_eq!(answer.status, 200);
    session
}

#[test]
fn of_supervisor_and_other_sessions_nothing_is_found() {
    let warmup = format!("import sys; sys.planted = {}", made("warmup"));
    let daemon = template(&["json"], &warmup)
        .env("PLANTED", &canary("daemon"))
        .env("VIVARIUM_TOKEN", &canary("variabletoken"))
        .start();
    let early = daemon.session();
    let other = full_of_canaries(&daemon);
    let late = daemon.session();
    // The controls: what the template and the session itself have planted.
    let right = "['own', 'warmup']";
    assert_eq!(found(&early), right, "in one that was there before");
    assert_eq!(found(&late), right, "in one that came afterwards");
    late.reset();
    assert_eq!(found(&late), right, "after a reset");
    // And the search finds all there is where it is.
    let all = found(&other);
    for kind in ["env", "own", "variable", "warmup"] {
        assert!(all.contains(kind), "{kind}: {all}");
    }
    assert!(!all.contains("token") && !all.contains("daemon"), "{all}");
    daemon.stop_and_check();
}

#[test]
fn a_reset_leaves_nothing_of_what_was_there() {
    let daemon = template(&[], "").start();
    let session = full_of_canaries(&daemon);
    session.reset();
    // Its variables are the session's, and remain.
    assert_eq!(found(&session), "['env', 'own']");
    daemon.stop_and_check();
}

/// What the process knew that became the kernel: the cgroup to start in, and what the template was
/// executed with.
#[test]
fn the_paths_that_a_kernel_started_with_are_forgotten() {
    let runtime = canary("runtime");
    let dir = vivarium_tests::program::temp_dir();
    let lines = format!("runtime_dir = \"{}/{runtime}\"", dir.path().display());
    let warmup = format!("import sys; sys.planted = {}", made("warmup"));
    let modules = ["json", "site", "sysconfig", "tempfile"];
    let daemon = template(&modules, &warmup).config("server", &lines).start();
    let session = daemon.session_with(&json!({"id": canary("session")}));
    assert_eq!(found(&session), "['own', 'warmup']");
    session.reset();
    assert_eq!(found(&session), "['own', 'warmup']", "after a reset");
    let base = "import site; site.USER_BASE, open('/proc/self/environ').read().strip('\\0')";
    assert_eq!(session.value(base), "('/workspace/.local', '')");
    daemon.stop_and_check();
    // The control: the same search finds what an executed kernel has in its environment.
    let daemon = Setup::with_start_mode(StartMode::Executed).start();
    let session = daemon.session_with(&json!({"env": {"PLANTED": canary("env")}}));
    assert_eq!(found(&session), "['env', 'own']");
    daemon.stop_and_check();
}

#[test]
fn descriptors_are_the_kernels_own() {
    let daemon = template(&["json"], "").start();
    let _other = full_of_canaries(&daemon);
    let session = daemon.session();
    let look = "
import os
def links():
    found = []
    for name in sorted(os.listdir('/proc/self/fd'), key=int):
        try: found.append((int(name), os.readlink('/proc/self/fd/' + name).split(':')[0]))
        except OSError: pass  # what the directory itself was listed by
    return found
links()";
    let right = "[(0, '/dev/null'), (1, 'pipe'), (2, 'pipe'), (3, 'socket')]";
    assert_eq!(session.value(look), right);
    // The control: one more is seen.
    assert_eq!(session.value("more = open('/dev/zero'); len(links())"), "5");
    daemon.stop_and_check();
}
