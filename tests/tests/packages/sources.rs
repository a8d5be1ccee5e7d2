//! Where packages come from: a directory of the operator's, or an index that the session reaches; and what
//! tenants do to each other's packages.

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::{Daemon, Setup, program};

use crate::gate::PIP_MAY_TAKE;
use crate::{raises, run, wheels};

/// A daemon with a directory of wheels for its sessions: `app` needs `tiny`, of which there are two versions.
fn with_wheels() -> (Daemon, tempfile::TempDir) {
    let dir = program::temp_dir();
    for (name, version, requires) in
        [("tiny", "1.0", &[][..]), ("tiny", "2.0", &[]), ("app", "1.0", &["tiny<2"])]
    {
        assert!(wheels::write(dir.path(), name, version, requires).exists());
    }
    let path = dir.path().display();
    let lines = format!(
        "interpreter = \"/usr/bin/python3\"\nread_paths = [\"{path}\"]\n\
         extra_env = [\"PIP_FIND_LINKS\", \"UV_FIND_LINKS\"]"
    );
    let daemon = Setup::default()
        .config("environments.default", &lines)
        .config("session", PIP_MAY_TAKE)
        .env("PIP_FIND_LINKS", &path.to_string())
        .env("UV_FIND_LINKS", &path.to_string())
        .start();
    (daemon, dir)
}

#[test]
fn a_directory_of_wheels_is_enough_without_a_network() {
    let (daemon, dir) = with_wheels();
    let session = daemon.session_with(&json!({"network": "none"}));
    let said =
        run(&session, "%pip install app\nimport app, tiny\nprint(app.VERSION, tiny.VERSION)");
    assert!(said.ends_with("1.0 1.0\n"), "{said}");
    // Nobody else has them.
    raises(&daemon.session(), "import app", "ModuleNotFoundError");
    if host::has(&[Requirement::Uv]) {
        // uv is not in this environment.
        let uv = session.command(&json!({"argv": ["uv", "pip", "install", "app"]}));
        assert_eq!(uv.0["exit_code"], 127, "{uv}");
    }
    // The directory can be read, and not changed.
    let code = format!(
        "import os\ndir = {:?}\nprint(len(os.listdir(dir)))\n\
         for change in (lambda: open(dir + '/new', 'w'), lambda: os.remove(dir + '/' + os.listdir(dir)[0])):\n\
         \x20   try: change(); print('changed')\n\
         \x20   except OSError as error: print(error.strerror)",
        dir.path().display().to_string()
    );
    let said = run(&session, &code);
    assert!(said.starts_with("3\n") && !said.contains("changed"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    daemon.stop_and_check();
}

#[test]
fn a_lock_file_with_hashes_is_kept_to() {
    let (daemon, _dir) = with_wheels();
    let session = daemon.session();
    let lock = "
import hashlib, os
def lock(name, spoil):
    directory = os.environ['PIP_FIND_LINKS']
    digest = hashlib.sha256(open(directory + '/' + name, 'rb').read()).hexdigest()
    digest = digest[::-1] if spoil else digest
    open('lock.txt', 'w').write('tiny==2.0 --hash=sha256:' + digest)
lock('tiny-2.0-py3-none-any.whl', SPOIL)
%pip install --require-hashes -r lock.txt
_exit_code";
    let spoiled = session.execute(&lock.replace("SPOIL", "True")).ok();
    assert_ne!(spoiled.result(), "0");
    assert!(spoiled.stderr().contains("DO NOT MATCH"), "{spoiled}");
    raises(&session, "import tiny", "ModuleNotFoundError");
    assert_eq!(session.execute(&lock.replace("SPOIL", "False")).ok().result(), "0");
    assert_eq!(session.value("import tiny\ntiny.VERSION"), "'2.0'");
    daemon.stop_and_check();
}

/// An index on the session's own loopback: with a hash, with another one, without, yanked, by a redirect.
const INDEX: &str = "
import hashlib, http.server, os, threading
wheels = os.environ['PIP_FIND_LINKS']
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        head, _, project = self.path.strip('/').partition('/')
        kind = head.partition('-')[2]
        if head.startswith('files'):
            body = open(wheels + '/' + project, 'rb').read()
        elif kind == 'redirect':
            self.send_response(301)
            self.send_header('Location', '/simple-good/' + project + '/')
            self.end_headers()
            return
        else:
            body = b''
            for name in os.listdir(wheels):
                if name.startswith(project.strip('/') + '-'):
                    digest = hashlib.sha256(open(wheels + '/' + name, 'rb').read()).hexdigest()
                    hash = {'bad': '#sha256=' + '0' * 64, 'none': ''}.get(kind, '#sha256=' + digest)
                    yanked = ' data-yanked=\"old\"' if kind == 'yanked' and '2.0' in name else ''
                    body += b'<a href=\"/files/%s%s\"%s>%s</a>' % tuple(
                        text.encode() for text in (name, hash, yanked, name))
        self.send_response(200)
        self.send_header('Content-Type', 'text/html' if head[0] == 's' else 'application/zip')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()";

#[test]
fn an_index_that_the_session_reaches_is_used() {
    let (daemon, _dir) = with_wheels();
    let session = daemon.session();
    run(&session, INDEX);
    for (kind, expected) in
        [("good", "2.0"), ("none", "2.0"), ("redirect", "2.0"), ("yanked", "1.0"), ("bad", "")]
    {
        let shell = format!(
            "env -u PIP_NO_INDEX -u PIP_FIND_LINKS pip install --retries 0 --force-reinstall \
             --index-url http://127.0.0.1:8000/simple-{kind}/ tiny"
        );
        let said = session.command(&json!({"shell": shell}));
        if expected.is_empty() {
            assert_eq!(said.0["exit_code"], 1, "{kind}: {said}");
            assert!(said.stderr().contains("DO NOT MATCH"), "{kind}: {said}");
        } else {
            let version = session.command(&json!({"argv": ["tiny"]})).ok();
            assert_eq!(version.stdout(), format!("tiny {expected}\n"), "{kind}: {said}");
        }
    }
    daemon.stop_and_check();
}

/// A package is code of its session's: what it does as it is found, in a `.pth` file, happens behind the layers and
/// costs nobody else anything.
#[test]
fn what_a_package_does_at_start_is_confined_and_ends_with_its_execution() {
    let (daemon, _dir) = with_wheels();
    let session = daemon.session();
    let plant = "
import glob, os
%pip install -q tiny
site, = glob.glob(os.environ['VIVARIUM_PACKAGES'] + '/lib/*/site-packages')
def plant(line):
    open(site + '/planted.pth', 'w').write('import os, sys, time; ' + line)";
    run(&session, plant);
    let look =
        "sys.modules['__main__'].seen = [os.getuid(), os.path.exists('/root'), os.getppid()]";
    run(&session, &format!("plant({look:?})"));
    session.reset();
    assert_eq!(
        session.value("seen"),
        session.value("import os\n[os.getuid(), False, os.getppid()]")
    );
    run(
        &session,
        &format!("{}\nplant('time.sleep(600)')", plant.replace("%pip install -q tiny", "")),
    );
    session.reset();
    let slow = session.execute_for(500, "1").ended("timed_out", "wall_time", "preserved");
    assert_eq!(slow.result(), "");
    assert_eq!(session.value("1 + 1"), "2");
    run(&session, &format!("{}\nplant('os._exit(7)')", plant.replace("%pip install -q tiny", "")));
    session.reset();
    let _dead = session.execute("1").ended("killed", "exited", "lost");
    assert_eq!(
        session.command(&json!({"shell": "rm -rf .vivarium; echo gone"})).ok().stdout(),
        "gone\n"
    );
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    assert_eq!(daemon.session().value("1 + 1"), "2");
    daemon.stop_and_check();
}
