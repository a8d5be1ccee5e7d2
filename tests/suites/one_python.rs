//! A session has one Python: `python`, `python3` and `pip` are those of its environment, whoever
//! executes them and whatever the host has on its PATH.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use vivarium_tests::{Daemon, Session, program};

use crate::every_way::{daemon, setup};

/// Prints which Python it is.
const WHICH: &str = "import sys; print(sys.executable, sys.prefix)";

/// What each name on PATH is, from code, a line of IPython's syntax, a child of a child, and commands.
#[track_caller]
fn is_one(session: &Session<'_>, names: &[&str], expected: &str) {
    let own = session.execute(WHICH).ok();
    assert_eq!(own.stdout(), expected);
    for name in names {
        let argv = json!([name, "-c", WHICH]);
        let from_code = session.execute(&format!("import subprocess; _p = subprocess.run({argv})"));
        assert_eq!(from_code.ok().stdout(), expected, "{name} from code");
        let line = format!("{name} -c '{WHICH}'");
        let from_line = session.execute(&format!("!{line}"));
        assert_eq!(from_line.ok().stdout(), expected, "{name} from a line");
        let child = format!("import subprocess; subprocess.run({argv})");
        let nested = session.command(&json!({"argv": [name, "-c", child]}));
        assert_eq!(nested.ok().stdout(), expected, "{name} from a child");
        for request in [json!({"argv": argv}), json!({"shell": line})] {
            assert_eq!(session.command(&request).ok().stdout(), expected, "{name}: {request}");
        }
    }
}

/// A daemon for this interpreter, whose own PATH leads to other programs.
fn of(interpreter: &Path) -> Daemon {
    let line = format!("interpreter = \"{}\"", interpreter.display());
    setup()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/planted")
        .config("environments.default", &line)
        .start()
}

#[test]
fn python_and_pip_are_the_systems_where_the_environment_is() {
    let daemon = of(Path::new("/usr/bin/python3"));
    let session = daemon.session();
    is_one(&session, &["python", "python3"], "/usr/bin/python3 /usr\n");
    let path = session.value("import os\nos.environ['PATH'].split(':', 1)[1]");
    let expected = "/.vivarium/packages/bin:/usr/local/bin:/usr/bin:/bin'";
    assert!(path.ends_with(expected), "{path}");
    let pip = session.command(&json!({"argv": ["pip", "--version"]}));
    if session.value("import importlib.util\nimportlib.util.find_spec('pip') is None") == "True" {
        assert_eq!(pip.0["exit_code"], 1);
        let said = "pip: the Python of this session, /usr/bin/python3, has no pip\n";
        assert_eq!(pip.stderr(), said);
    } else {
        assert!(pip.ok().stdout().contains("python 3"));
    }
    daemon.stop_and_check();
}

#[test]
fn python_is_the_virtual_environments_with_its_programs() {
    let dir = program::temp_dir();
    let root = dir.path().join("it's a venv");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&root)
        .status()
        .unwrap();
    assert!(made.success());
    let tool = root.join("bin/tool");
    std::fs::write(&tool, "#!/bin/sh\necho a program of the environment\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = of(&root.join("bin/python3"));
    let session = daemon.session();
    let expected = format!("{0}/bin/python3 {0}\n", root.display());
    is_one(&session, &["python", "python3"], &expected);
    let tool = session.command(&json!({"argv": ["tool"]}));
    assert_eq!(tool.ok().stdout(), "a program of the environment\n");
    let pip = session.command(&json!({"shell": "pip install x"}));
    assert_eq!(pip.0["exit_code"], 1);
    assert!(pip.stderr().ends_with("has no pip\n"), "{pip}");
    daemon.stop_and_check();
}

/// What tenant code tries with the directory that comes first in PATH.
const CHANGES: &str = "
import os
bin = os.environ['PATH'].split(':')[0]
def attempt(function, *arguments):
    try: function(*arguments)
    except OSError as error: return type(error).__name__
outcomes = [
    attempt(os.chmod, bin + '/python', 0o777), attempt(open, bin + '/python', 'a'),
    attempt(open, bin + '/new', 'w'), attempt(os.symlink, '/bin/true', bin + '/tool'),
    attempt(os.remove, bin + '/python'), attempt(os.rename, bin, bin + '2'),
]
print(all(outcomes), outcomes)";

#[test]
fn tenants_cannot_change_their_python() {
    let daemon = daemon();
    let session = daemon.session();
    let outcome = session.execute(CHANGES).ok();
    // Landlock has no right for chmod(2): where there are no mounts the directory is the tenant's.
    let is_restricted = session.layer("mounts")["status"] != "enforced";
    let refused = if is_restricted { 5 } else { 6 };
    assert_eq!(outcome.stdout().matches("Error'").count(), refused, "{outcome}");
    is_one(&session, &["python"], "/usr/bin/python3 /usr\n");
    is_one(&daemon.session(), &["python"], "/usr/bin/python3 /usr\n");
    daemon.stop_and_check();

    let without = setup().without(&["mounts", "landlock"]).start();
    let outcome = without.session().execute(CHANGES).ok();
    assert_eq!(outcome.stdout().matches("None").count(), 6, "{outcome}");
    // One session's are not another's.
    is_one(&without.session(), &["python"], "/usr/bin/python3 /usr\n");
    without.stop_and_check();
}

#[test]
fn a_session_may_have_a_path_of_its_own() {
    let daemon = daemon();
    let session = daemon.session_with(&json!({"env": {"PATH": "/bin"}}));
    assert_eq!(session.value("import os\nos.environ['PATH']"), "'/bin'");
    daemon.stop_and_check();
}
