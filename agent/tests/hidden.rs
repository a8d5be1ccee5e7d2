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

fn harness_policy(read: &Path, hidden_paths: Vec<PathBuf>) -> vivarium_protocol::policy::Policy {
    let mut policy = policy();
    policy.read_paths = vec![read.to_owned()];
    policy.hidden_paths = hidden_paths;
    policy
}
