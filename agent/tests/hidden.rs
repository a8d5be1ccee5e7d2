//! Distributions that are hidden from a session are not in its root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Session, policy};

/// A directory as pip fills it: a package and a module that are hidden, and one of each that are not.
fn site() -> tempfile::TempDir {
    let site = tempfile::tempdir().unwrap();
    for package in ["gone", "stays"] {
        fs::create_dir(site.path().join(package)).unwrap();
        fs::write(site.path().join(package).join("__init__.py"), "x = 1").unwrap();
        fs::write(site.path().join(format!("{package}_module.py")), "x = 2").unwrap();
    }
    site
}

/// Looks for the names in a directory in each way there is: imports them, opens, lists and watches for them.
fn look(session: &mut Session, directory: &Path, names: [&str; 2]) -> String {
    let code = format!(
        "import importlib, importlib.util, os, sys\n\
        directory, names = {:?}, {names:?}\n\
        sys.path.insert(0, directory)\n\
        def found(name):\n\
        \x20   try: importlib.import_module(name)\n\
        \x20   except ModuleNotFoundError: yield 'not found'\n\
        \x20   else: yield 'imported'\n\
        \x20   yield importlib.util.find_spec(name) is not None\n\
        \x20   path = directory + '/' + name\n\
        \x20   yield any(map(os.path.lexists, (path, path + '.py')))\n\
        \x20   yield any(it in os.listdir(directory) for it in (name, name + '.py'))\n\
        [list(found(name)) for name in names]",
        directory.display().to_string(),
    );
    let outcome = session.execute(&code);
    outcome.repr.unwrap_or_else(|| panic!("{:?}", outcome.exception))
}

const FOUND: &str = "['imported', True, True, True]";
const NOT_FOUND: &str = "['not found', False, False, False]";

#[test]
fn hidden_packages_and_modules_are_not_there_and_others_are() {
    let site = site();
    let path = site.path().canonicalize().unwrap();
    let shown = harness_policy(&path, vec![]);
    let mut control = Session::launch(shown).unwrap();
    for names in [["gone", "stays"], ["gone_module", "stays_module"]] {
        assert_eq!(look(&mut control, &path, names), format!("[{FOUND}, {FOUND}]"));
    }
    let hidden = vec![path.join("gone"), path.join("gone_module.py"), path.join("never_was")];
    let mut session = Session::launch(harness_policy(&path, hidden)).unwrap();
    for names in [["gone", "stays"], ["gone_module", "stays_module"]] {
        assert_eq!(look(&mut session, &path, names), format!("[{NOT_FOUND}, {FOUND}]"));
    }
}

/// What is bound as it is, and not through overlayfs, too; and by a path that leads through links.
#[test]
fn modules_of_the_interpreter_are_hidden_from_links_too() {
    let mut control = Session::launch(policy()).unwrap();
    let library = control.execute("import os; os.path.dirname(os.__file__)").repr.unwrap();
    let library = PathBuf::from(library.trim_matches('\''));
    let look_up = ["wsgiref", "colorsys"];
    assert_eq!(look(&mut control, &library, look_up), format!("[{FOUND}, {FOUND}]"));
    let links = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&library, links.path().join("link")).unwrap();
    let mut policy = policy();
    policy.hidden_paths = vec![links.path().join("link/wsgiref"), library.join("colorsys.py")];
    let mut session = Session::launch(policy).unwrap();
    assert_eq!(look(&mut session, &library, look_up), format!("[{NOT_FOUND}, {NOT_FOUND}]"));
    assert_eq!(session.execute("import json; json.dumps(1)").repr.as_deref(), Some("'1'"));
}

/// At each path at which it is shown: what an interpreter reads is bound both as named and as resolved.
#[test]
fn packages_are_hidden_at_paths_through_linked_directories() {
    let (site, links) = (site(), tempfile::tempdir().unwrap());
    let path = site.path().canonicalize().unwrap();
    let current = links.path().canonicalize().unwrap().join("current");
    std::os::unix::fs::symlink(path.parent().unwrap(), &current).unwrap();
    let named = current.join(path.file_name().unwrap());
    let both = vec![named.clone(), path.clone()];
    let hidden = vec![path.join("gone"), path.join("gone_module.py")];
    let read = |hidden_paths: &[PathBuf]| {
        let mut policy = policy();
        (policy.read_paths, policy.hidden_paths) = (both.clone(), hidden_paths.to_vec());
        policy
    };
    let bound = |hidden_paths: &[PathBuf]| {
        let mut policy = policy();
        policy.interpreter.prefixes.extend(both.clone());
        policy.hidden_paths = hidden_paths.to_vec();
        policy
    };
    for policy in [&read as &dyn Fn(&[PathBuf]) -> _, &bound] {
        for directory in [&named, &path] {
            let mut control = Session::launch(policy(&[])).unwrap();
            let found = look(&mut control, directory, ["gone", "gone_module"]);
            assert_eq!(found, format!("[{FOUND}, {FOUND}]"));
            let mut session = Session::launch(policy(&hidden)).unwrap();
            for names in [["gone", "stays"], ["gone_module", "stays_module"]] {
                let found = look(&mut session, directory, names);
                assert_eq!(found, format!("[{NOT_FOUND}, {FOUND}]"), "{}", directory.display());
            }
        }
    }
}

/// In one overlay, as a second one in the first would be one more than overlayfs stacks: what is read is shown by one already.
#[test]
fn files_in_nested_directories_are_hidden_together() {
    let site = site();
    let path = site.path().canonicalize().unwrap();
    fs::create_dir_all(path.join("shared/inner")).unwrap();
    for name in
        ["shared/gone.py", "shared/stays.py", "shared/inner/gone.py", "shared/inner/stays.py"]
    {
        fs::write(path.join(name), "x = 3").unwrap();
    }
    let look_in = ["shared", "shared/inner"].map(|name| path.join(name));
    let mut control = Session::launch(harness_policy(&path, vec![])).unwrap();
    assert_eq!(look(&mut control, &look_in[1], ["gone", "stays"]), format!("[{FOUND}, {FOUND}]"));
    let hidden = ["gone", "gone/__init__.py", "shared/gone.py", "shared/inner/gone.py"];
    let policy = || harness_policy(&path, hidden.map(|name| path.join(name)).into());
    for directory in look_in.iter().chain([&path]) {
        let mut session = Session::launch(policy()).unwrap();
        let seen = look(&mut session, directory, ["gone", "stays"]);
        assert_eq!(seen, format!("[{NOT_FOUND}, {FOUND}]"), "{}", directory.display());
    }
}

/// More than the new root has files of its own.
#[test]
fn thousands_of_files_are_hidden_beside_others() {
    let site = site();
    let path = site.path().canonicalize().unwrap();
    let names: Vec<_> = (0..3000).map(|number| format!("data{number}")).collect();
    for name in &names {
        fs::write(path.join(name), "").unwrap();
    }
    let seen = format!(
        "import os; len([it for it in os.listdir({:?}) if it.startswith('data')])",
        path.display().to_string()
    );
    let mut control = Session::launch(harness_policy(&path, vec![])).unwrap();
    assert_eq!(control.execute(&seen).repr.as_deref(), Some("3000"));
    let hidden = names.iter().map(|name| path.join(name)).collect();
    let mut session = Session::launch(harness_policy(&path, hidden)).unwrap();
    assert_eq!(session.execute(&seen).repr.as_deref(), Some("0"));
    assert_eq!(look(&mut session, &path, ["stays", "gone"]), format!("[{FOUND}, {FOUND}]"));
}

/// A program beside others, the interpreter's among them.
#[test]
fn programs_are_hidden_beside_the_interpreter() {
    let seen = "import os, shutil; [os.path.exists('/usr/bin/' + it) for it in ('id', 'env')]";
    let mut control = Session::launch(policy()).unwrap();
    assert_eq!(control.execute(seen).repr.as_deref(), Some("[True, True]"));
    let mut policy = policy();
    policy.hidden_paths = vec![PathBuf::from("/bin/id")];
    let mut session = Session::launch(policy).unwrap();
    assert_eq!(session.execute(seen).repr.as_deref(), Some("[False, True]"));
    let run = "import subprocess; subprocess.run(['/usr/bin/env', 'echo', 'ran']).returncode";
    assert_eq!(session.execute(run).repr.as_deref(), Some("0"));
}

/// By unmounting, by a mount namespace of its own, and by the directory that the whiteouts are in.
#[test]
fn code_cannot_take_off_what_hides() {
    let site = site();
    let path = site.path().canonicalize().unwrap();
    let code = format!(
        "import ctypes, os\n\
        libc, site = ctypes.CDLL(None, use_errno=True), {:?}\n\
        tried = [libc.umount2(site.encode(), 2)]\n\
        child = os.fork()\n\
        if child == 0:\n\
        \x20   undone = libc.unshare(0x10020000) == 0 and libc.umount2(site.encode(), 2) == 0\n\
        \x20   os._exit(undone or os.path.lexists(site + '/gone'))\n\
        tried.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n\
        os.makedirs('m')\n\
        tried.append(libc.mount(site.encode(), b'm', None, 4096, None))\n\
        for layer in ('/.hidden/0/gone', '/proc/self/root' + site + '/gone'):\n\
        \x20   try: tried.append(os.listdir(layer))\n\
        \x20   except OSError: tried.append(None)\n\
        try: os.remove('/.hidden/0/gone')\n\
        except OSError as error: tried.append(error.errno)\n\
        tried",
        path.display().to_string(),
    );
    let mut control = Session::launch(harness_policy(&path, vec![])).unwrap();
    let seen = control.execute(&code).repr.unwrap();
    assert!(seen.starts_with("[-1, 1, -1, None, ['__init__.py'"), "{seen}");
    let hidden = vec![path.join("gone")];
    let mut session = Session::launch(harness_policy(&path, hidden)).unwrap();
    let seen = session.execute(&code).repr.unwrap();
    assert!(seen.starts_with("[-1, 0, -1, None, None, "), "{seen}");
    assert_eq!(look(&mut session, &path, ["gone", "stays"]), format!("[{NOT_FOUND}, {FOUND}]"));
}

fn harness_policy(read: &Path, hidden_paths: Vec<PathBuf>) -> vivarium_protocol::policy::Policy {
    let mut policy = policy();
    policy.read_paths = vec![read.to_owned()];
    policy.hidden_paths = hidden_paths;
    policy
}
