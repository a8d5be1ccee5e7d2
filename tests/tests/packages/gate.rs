//! Through the egress gate: sessions of network `trusted` install from an index on the host's loopback, which
//! only the gate reaches. What the gate itself promises of it has tests in its crate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};
use vivarium_tests::{Daemon, Session, Setup, program, wait};

use crate::upstream::{Upstream, sha256};
use crate::{raises, run, wheels};

/// `app` needs `tiny` below 2, of which there are two versions.
pub(crate) fn stock() -> tempfile::TempDir {
    let dir = program::temp_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, version, requires) in
        [("tiny", "1.0", &[][..]), ("tiny", "2.0", &[]), ("app", "1.0", &["tiny<2"])]
    {
        assert!(wheels::write(dir.path(), name, version, requires).exists());
    }
    dir
}

/// A daemon whose sessions may have network `trusted`, and reach nothing by it but packages.
/// On a host that is busy.
pub(crate) const PIP_MAY_TAKE: &str = "exec_timeout = \"5m\"";

fn setup(interpreter: &Path, packages: &str) -> Setup {
    Setup::default()
        .config("environments.default", &format!("interpreter = \"{}\"", interpreter.display()))
        .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"trusted\"]")
        .config("egress", "allow_addresses = [\"127.0.0.1\"]")
        .config("packages", packages)
        .config("session", PIP_MAY_TAKE)
}

pub(crate) fn trusted(daemon: &Daemon) -> Session<'_> {
    daemon.session_with(&trusted_spec())
}

pub(crate) fn trusted_spec() -> Value {
    json!({"network": "trusted"})
}

#[test]
fn pip_installs_upgrades_pins_and_removes_through_the_gate() {
    let stock = stock();
    let upstream = Upstream::start(stock.path());
    let daemon = setup(Path::new("/usr/bin/python3"), &upstream.line("simple")).start();
    let session = trusted(&daemon);
    let said =
        run(&session, "%pip install app\nimport app, tiny\nprint(app.VERSION, tiny.VERSION)");
    assert!(said.ends_with("1.0 1.0\n"), "{said}");
    assert_eq!(session.command(&json!({"argv": ["tiny"]})).ok().stdout(), "tiny 1.0\n");
    // Upgrade of what is imported, for which pip's child asks.
    run(
        &session,
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', '-U', 'tiny'], check=True)",
    );
    session.reset();
    assert_eq!(session.value("import tiny\ntiny.VERSION"), "'2.0'");
    run(&session, "!pip uninstall --yes app tiny");
    session.reset();
    raises(&session, "import tiny", "ModuleNotFoundError");
    // By a lock file: the right hash, and another.
    let hash = sha256(&stock.path().join("tiny-1.0-py3-none-any.whl"));
    for (hash, code) in [(hash.as_str(), "0"), (&"0".repeat(64), "1")] {
        let lock = format!(
            "open('lock.txt', 'w').write('tiny==1.0 --hash=sha256:{hash}')\n\
             %pip install --force-reinstall --require-hashes -r lock.txt\n_exit_code"
        );
        let done = session.execute(&lock).ok();
        assert_eq!(done.result(), code, "{done}");
    }
    // A wheel was asked for once, whatever its sessions do, two at once included.
    let others = [trusted(&daemon), trusted(&daemon)];
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(|| run(other, "%pip install tiny==1.0\nimport tiny"));
        }
    });
    assert_eq!(upstream.asked_for("tiny-1.0-py3-none-any.whl"), 1);
    // Sessions of other networks have none of it, nor its cache.
    let lone = daemon.session();
    assert_eq!(lone.value("import os\n'PIP_INDEX_URL' in os.environ"), "False");
    let cache = fs::read_dir(daemon.dir()).unwrap().map(|entry| entry.unwrap().path());
    let cache = cache.map(|path| path.join("packages")).find(|path| path.exists()).unwrap();
    let seen = format!("import os\nos.path.exists({:?})", cache.display().to_string());
    assert_eq!(session.value(&seen), "False");
    daemon.stop_and_check();
}

#[test]
fn uv_installs_through_the_gate() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let dir = program::temp_dir();
    let root = dir.path().join("venv");
    let mut venv = std::process::Command::new("/usr/bin/python3");
    assert!(venv.args(["-m", "venv"]).arg(&root).status().unwrap().success());
    fs::copy(host::tool("uv").unwrap(), root.join("bin/uv")).unwrap();
    let stock = stock();
    let upstream = Upstream::start(stock.path());
    let daemon = setup(&root.join("bin/python"), &upstream.line("simple")).start();
    let session = trusted(&daemon);
    run(&session, "!uv pip install app");
    assert_eq!(session.value("import tiny\ntiny.VERSION"), "'1.0'");
    run(&session, "%uv pip install -U tiny");
    session.reset();
    assert_eq!(session.value("import tiny\ntiny.VERSION"), "'2.0'");
    run(&session, "!uv pip uninstall app tiny");
    // Of the virtual environment's own pip, from the cache.
    assert!(run(&session, "%pip install app").contains("tiny-1.0"));
    assert_eq!(upstream.asked_for("tiny-1.0-py3-none-any.whl"), 1);
    daemon.stop_and_check();
}

#[test]
fn tenants_have_their_own_sources_which_follow_a_reload() {
    let (first, second) = (stock(), stock());
    fs::remove_file(second.path().join("tiny-2.0-py3-none-any.whl")).unwrap();
    let upstream = Upstream::start(first.path());
    let (ann, bob) = (Token::new(), Token::new());
    let of_bob = format!(
        "packages_index_url = \"none\"\npackages_find_links = [\"{}\"]",
        second.path().display()
    );
    let entries = two(&entry("ann", &ann, ""), &entry("bob", &bob, &of_bob));
    let setup = setup(Path::new("/usr/bin/python3"), &upstream.line("simple"));
    let daemon = setup.config("[tenant]", &entries).start();
    let spec = json!({"id": "same", "network": "trusted"});
    for token in [&ann, &bob] {
        let _made = token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&spec)).expect_success();
    }
    let newest = |token: &Token| {
        let code = "import subprocess, sys\n\
                    done = subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '-U', '--force-reinstall', 'tiny'], capture_output=True, text=True)\n\
                    print(done.stderr, subprocess.run(['tiny'], capture_output=True, text=True).stdout, sep='')";
        token.execute(&daemon.tcp(), "same", code)["stdout"].as_str().unwrap().to_owned()
    };
    assert_eq!(newest(&ann), "tiny 2.0\n\n");
    assert_eq!(newest(&bob), "tiny 1.0\n\n");
    // A directory that is new needs another gate, which takes running sessions over.
    let path = daemon.dir().join("vivarium.toml");
    let text = fs::read_to_string(&path).unwrap();
    let moved =
        text.replace(&second.path().display().to_string(), &first.path().display().to_string());
    reload(&daemon, &moved, RELOADED);
    wait::until_true("the new directory", || newest(&bob) == "tiny 2.0\n\n");
    assert_eq!(upstream.asked_for("tiny-2.0-py3-none-any.whl"), 1, "by ann alone");
    daemon.stop_and_check();
}

#[test]
fn without_a_source_or_with_a_wrong_one_pip_says_so_at_once() {
    let stock = stock();
    let upstream = Upstream::start(stock.path());
    for (packages, expected) in [
        ("", "this session reaches no package index"),
        (&*upstream.line("wrong"), "has not the hash that the index gives"),
    ] {
        let daemon = setup(Path::new("/usr/bin/python3"), packages).start();
        let session = trusted(&daemon);
        let done = session.execute("%pip install tiny\n_exit_code").ok();
        assert_eq!(done.result(), "1", "{done}");
        assert!(done.stderr().contains(expected), "{done}");
        assert!(!done.to_string().contains("Retrying"), "{done}");
        daemon.stop_and_check();
    }
    // A login in the URL would be shown by `config show`; one by a file has to be encrypted.
    for line in [
        "index_url = \"https://user:s3cret@index.example/simple\"",
        "index_url = \"http://index.example/simple\"\nlogin_file = \"/etc/hostname\"",
    ] {
        let refused = setup(Path::new("/usr/bin/python3"), line).try_start().unwrap_err().1;
        assert!(refused.contains("packages.") && !refused.contains("s3cret"), "{refused}");
    }
}
