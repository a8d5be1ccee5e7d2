//! There is no inotify in a session (attacks/seccomp): what watches files goes on by polling.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::session::Session;
use vivarium_tests::{Daemon, Setup};

/// Copies of watchdog and watchfiles, and what they import, which every user can read.
fn packages() -> tempfile::TempDir {
    let python = host::tool("python").unwrap();
    let find = "import watchdog, os; print(os.path.dirname(os.path.dirname(watchdog.__file__)))";
    let found = Command::new(python).args(["-c", find]).output().unwrap().stdout;
    let installed = Path::new(std::str::from_utf8(&found).unwrap().trim());
    let copies = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r");
    for name in ["watchdog", "watchfiles", "anyio", "idna", "typing_extensions.py"] {
        copy.arg(installed.join(name));
    }
    assert!(copy.arg(copies.path()).status().unwrap().success());
    let readable = ["-R", "a+rX"];
    assert!(Command::new("chmod").args(readable).arg(copies.path()).status().unwrap().success());
    copies
}

#[test]
fn watchdog_and_watchfiles_see_a_file_that_is_made() {
    if !host::has(&[Requirement::FileWatchers]) {
        return;
    }
    let packages = packages();
    let at = packages.path().display().to_string();
    let daemon =
        Setup::default().config("environments.default", &format!("read_paths = [{at:?}]")).start();
    let session = daemon.session();
    let _path = session.execute(&format!("import sys; sys.path.insert(0, {at:?})")).ok();
    let watchdog = "
import os, queue
from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer
seen = queue.Queue()
class Handler(FileSystemEventHandler):
    def on_created(self, event): seen.put(os.path.basename(event.src_path))
observer = Observer(timeout=0.05)
observer.schedule(Handler(), '.', recursive=True)
observer.start()
open('made', 'w').close()
try: found = seen.get(timeout=60)
finally: observer.stop(); observer.join()
found";
    assert_eq!(session.value(watchdog), "'made'");
    // The observer that it has elsewhere does not work here, and does not go on by polling.
    let refused = "
from watchdog.observers.inotify import InotifyObserver
try:
    observer = InotifyObserver()
    observer.schedule(Handler(), '.')
    observer.start()
except OSError as error: refusal = error.errno
import errno; refusal == errno.ENOSYS";
    assert_eq!(session.value(refused), "True");
    let watchfiles = "
import threading, watchfiles
done = threading.Event()
def write():
    while not done.wait(0.05): open('watched', 'a').write('x')
writer = threading.Thread(target=write); writer.start()
try: found = next(watchfiles.watch('.', debounce=50, step=10))
finally: done.set(); writer.join()
import os
'watched' in {os.path.basename(path) for _, path in found}";
    assert_eq!(session.value(watchfiles), "True");
    daemon.stop_and_check();
}

/// fs.watch has nothing to go on with, and says so; fs.watchFile, and what is built on it, polls.
#[test]
fn node_watches_files_by_polling() {
    if !host::has(&[Requirement::Node]) {
        return;
    }
    // Node takes much address space, which counts where no cgroup limits memory.
    let daemon = Setup::default().limits(&json!({"max_memory_mb": 65536})).start();
    let session = daemon.session();
    assert_eq!(run_node(&session, "fs.watch('.', () => {})"), "ENOSYS");
    let poll = "
fs.writeFileSync('watched', '1');
fs.watchFile('watched', {interval: 20}, () => { console.log('changed'); process.exit(); });
let count = 0;
setInterval(() => fs.appendFileSync('watched', String(count++)), 20);";
    assert_eq!(run_node(&session, poll), "changed");
}

/// What a program prints, or the code of the error that ends it.
#[track_caller]
fn run_node(session: &Session<'_>, program: &str) -> String {
    let caught = format!("try {{ {program} }} catch (error) {{ console.log(error.code) }}");
    session.command(&json!({"argv": ["node", "-e", caught]})).ok().stdout().trim().to_owned()
}

/// Streamlit, chokidar and webpack watch by what they were configured to, whichever program of the
/// session they run in.
#[test]
fn programs_that_ask_their_environment_are_told_to_poll() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let names = ["STREAMLIT_SERVER_FILE_WATCHER_TYPE", "CHOKIDAR_USEPOLLING", "WATCHPACK_POLLING"];
    let print = names.map(|name| format!("${name}")).join(" ");
    let told = session.command(&json!({"shell": format!("echo {print}")})).ok();
    assert_eq!(told.stdout(), "poll true true\n");
    assert_eq!(
        session.value("import os; os.environ['STREAMLIT_SERVER_FILE_WATCHER_TYPE']"),
        "'poll'"
    );
}
