//! In the session: where pip and uv install to, and who finds it.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Session, Setup, program};

use crate::gate::PIP_MAY_TAKE;
use crate::{raises, run, wheels};

/// Every way to run pip, in code.
const WAYS: [&str; 5] = [
    "%pip ARGUMENTS",
    "!pip ARGUMENTS",
    "!python -m pip ARGUMENTS",
    "!python3 -m pip ARGUMENTS",
    "import subprocess, sys\nprint(subprocess.run([sys.executable, '-m', 'pip', *'ARGUMENTS'.split()]))",
];

fn of(interpreter: &Path) -> Daemon {
    let line = format!("interpreter = \"{}\"", interpreter.display());
    Setup::default().config("environments.default", &line).config("session", PIP_MAY_TAKE).start()
}

/// Installs, upgrades and removes a wheel in each of these ways, each in a session of its own.
#[track_caller]
fn installs(daemon: &Daemon) {
    for way in WAYS {
        let session = daemon.session();
        let pip = |arguments: &str| session.execute(&way.replace("ARGUMENTS", arguments)).ok();
        let first = wheels::write_into(&session, "tiny", "1.0");
        let second = wheels::write_into(&session, "tiny", "2.0");
        raises(&session, "import tiny", "ModuleNotFoundError");
        let said = pip(&format!("install {first}"));
        assert_eq!(session.value("import tiny\ntiny.VERSION"), "'1.0'", "{way}: {said}");
        assert_eq!(said.0["files_changed"], json!([]), "{said}");
        finds(&session, "tiny 1.0\n");
        let said = pip(&format!("install --upgrade {second}"));
        session.reset();
        finds(&session, "tiny 2.0\n");
        assert_eq!(session.value("import tiny\ntiny.VERSION"), "'2.0'", "{way}: {said}");
        pip("uninstall --yes tiny");
        let missing = session.command(&json!({"argv": ["tiny"]}));
        assert_eq!(missing.0["exit_code"], 127, "{way}: {missing}");
        session.reset();
        raises(&session, "import tiny", "ModuleNotFoundError");
    }
}

/// The package's program and module, from commands and from children of the kernel.
#[track_caller]
fn finds(session: &Session<'_>, expected: &str) {
    let code = "import tiny; tiny.main()";
    for argv in [json!(["tiny"]), json!(["python", "-c", code]), json!(["python3", "-c", code])] {
        assert_eq!(session.command(&json!({"argv": argv})).ok().stdout(), expected, "{argv}");
    }
    let child =
        format!("import subprocess, sys\n_p = subprocess.run([sys.executable, '-c', {code:?}])");
    assert_eq!(session.execute(&child).ok().stdout(), expected);
    assert_eq!(session.execute("!tiny").ok().stdout(), expected);
}

#[test]
fn every_way_to_run_pip_installs_into_the_session_with_the_systems_python() {
    let daemon = of(Path::new("/usr/bin/python3"));
    installs(&daemon);
    // Nobody else has it.
    raises(&daemon.session(), "import tiny", "ModuleNotFoundError");
    daemon.stop_and_check();
}

#[test]
fn every_way_to_run_pip_installs_into_the_session_with_a_virtual_environment() {
    let dir = program::temp_dir();
    let root = dir.path().join("it's a venv");
    let mut venv = Command::new("/usr/bin/python3");
    let made = venv.args(["-m", "venv"]).arg(&root).status().unwrap();
    assert!(made.success());
    let marker = "lib/python3.11/site-packages/of_the_environment.py";
    let version = Command::new("/usr/bin/python3").arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let minor = version.split('.').nth(1).unwrap();
    let marker = marker.replace("3.11", &format!("3.{minor}"));
    std::fs::write(root.join(marker), "HERE = True\n").unwrap();
    let daemon = of(&root.join("bin/python3"));
    installs(&daemon);
    // What the environment has is there as before.
    let session = daemon.session();
    let wheel = wheels::write_into(&session, "tiny", "1.0");
    run(&session, &format!("%pip install {wheel}"));
    let argv = json!(["python", "-c", "import of_the_environment, tiny; tiny.main()"]);
    assert_eq!(session.command(&json!({"argv": argv})).ok().stdout(), "tiny 1.0\n");
    assert_eq!(session.value("import of_the_environment\nof_the_environment.HERE"), "True");
    daemon.stop_and_check();
}

#[test]
fn uv_installs_into_the_session_or_into_a_virtual_environment_of_the_tenants() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let dir = program::temp_dir();
    let root = dir.path().join("venv");
    let made = Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&root).status().unwrap();
    assert!(made.success());
    std::fs::copy(host::tool("uv").unwrap(), root.join("bin/uv")).unwrap();
    let daemon = of(&root.join("bin/python3"));
    let session = daemon.session();
    let first = wheels::write_into(&session, "tiny", "1.0");
    let second = wheels::write_into(&session, "tiny", "2.0");
    let said = session.execute(&format!("%uv pip install {first}\nimport tiny\ntiny.VERSION")).ok();
    assert_eq!(said.result(), "'1.0'", "{said}");
    finds(&session, "tiny 1.0\n");
    let said = session.command(&json!({"shell": format!("uv pip install -U {second}")})).ok();
    session.reset();
    assert_eq!(session.value("import tiny\ntiny.VERSION"), "'2.0'", "{said}");
    let missing = session.command(&json!({"argv": ["uv", "pip", "install", "no-such-package"]}));
    assert_eq!(missing.0["exit_code"], 1, "{missing}");
    assert!(missing.stderr().contains("network was disabled"), "{missing}");
    run(&session, "!uv pip uninstall tiny");
    session.reset();
    raises(&session, "import tiny", "ModuleNotFoundError");
    let own =
        format!("mkdir -p a/b && cd a && uv venv -q && cd b && uv pip install -q ../../{first}");
    let said = session.command(&json!({"shell": own})).ok();
    let own = session.command(&json!({"argv": ["a/.venv/bin/tiny"]})).ok();
    assert_eq!(own.stdout(), "tiny 1.0\n", "{said}");
    raises(&session, "import tiny", "ModuleNotFoundError");
    daemon.stop_and_check();
}

/// A virtual environment of the tenant's own is that, whatever leads pip elsewhere.
#[test]
fn a_virtual_environment_of_the_tenants_keeps_its_own_packages() {
    let daemon = of(Path::new("/usr/bin/python3"));
    let session = daemon.session();
    let wheel = wheels::write_into(&session, "tiny", "1.0");
    let made = session.command(&json!({"shell": "python -m venv own", "timeout_ms": 60_000})).ok();
    let said = session.command(&json!({"shell": format!("own/bin/pip install {wheel}")})).ok();
    let own = session.command(&json!({"argv": ["own/bin/tiny"]})).ok();
    assert_eq!(own.stdout(), "tiny 1.0\n", "{made} {said}");
    raises(&session, "import tiny", "ModuleNotFoundError");
    daemon.stop_and_check();
}

#[test]
fn an_upgrade_of_a_preimported_package_takes_effect_after_a_reset() {
    let setup = Setup::with_start_mode(StartMode::Forked);
    let dir = program::temp_dir();
    let first = wheels::write(dir.path(), "tiny", "1.0", &[]);
    let root = dir.path().join("venv");
    for arguments in [vec!["-m", "venv", "VENV"], vec!["-m", "pip", "install", "-q", "WHEEL"]] {
        let python =
            if arguments.len() == 3 { "/usr/bin/python3".into() } else { root.join("bin/python") };
        let arguments = arguments.into_iter().map(|word| match word {
            "VENV" => root.display().to_string(),
            "WHEEL" => first.display().to_string(),
            word => word.to_owned(),
        });
        let done = Command::new(python).args(arguments).env("PIP_NO_INDEX", "1").status().unwrap();
        assert!(done.success());
    }
    let interpreter = root.join("bin/python");
    let lines = format!("interpreter = \"{}\"\npreimport = [\"tiny\"]", interpreter.display());
    let daemon = setup.config("environments.default", &lines).start();
    let (session, other) = (daemon.session(), daemon.session());
    let version = "import tiny\ntiny.VERSION";
    assert_eq!(session.value("import sys\n'tiny' in sys.modules"), "True");
    assert_eq!(session.value(version), "'1.0'");
    let second = wheels::write_into(&session, "tiny", "2.0");
    let said =
        session.execute(&format!("%pip install -U {second}\nimport tiny\ntiny.VERSION")).ok();
    assert_eq!(said.result(), "'1.0'");
    let note = "vivarium: tiny was imported before it was installed: reset the session";
    assert!(said.stderr().contains(note), "{said}");
    session.reset();
    assert_eq!(session.value(version), "'2.0'");
    // Others are forked as before, with what was imported.
    other.reset();
    assert_eq!(other.value("import sys\nsys.modules['tiny'].VERSION"), "'1.0'");
    run(&session, "%pip uninstall -qy tiny");
    session.reset();
    assert_eq!(session.value(version), "'1.0'");
    daemon.stop_and_check();
}

/// Without a way out pip and uv say so at once, and do not try again and again.
#[test]
fn without_a_network_pip_says_so_at_once() {
    let daemon = of(Path::new("/usr/bin/python3"));
    for network in ["none", "loopback"] {
        let session = daemon.session_with(&json!({"network": network}));
        let line =
            "vivarium: this session reaches no package index, by its network or for want of one";
        let outcome = session.execute("%pip install no-such-package\n_exit_code").ok();
        assert_eq!(outcome.result(), "1", "{outcome}");
        assert_eq!(outcome.stderr().matches(line).count(), 1, "{outcome}");
        let command = session.command(&json!({"argv": ["pip", "install", "no-such-package"]}));
        assert_eq!(command.0["exit_code"], 1);
        assert!(command.stderr().contains(line), "{command}");
        let argv = json!(["/usr/bin/python3", "-m", "pip", "install", "no-such-package"]);
        let direct = session.command(&json!({"argv": argv}));
        assert_eq!(direct.0["exit_code"], 1, "{direct}");
        for tried in [&outcome, &command, &direct] {
            assert!(!tried.to_string().contains("Retrying"), "{tried}");
        }
        // What is in the environment is found, as in any notebook.
        let there = session.execute("%pip install pip\n_exit_code").ok();
        assert_eq!((there.result(), there.stderr()), ("0", ""), "{there}");
    }
    daemon.stop_and_check();
}

/// Packages are the session's: on its disk, within its limits, out of its results.
#[test]
fn packages_count_on_the_sessions_disk_and_are_nobodys_result() {
    let daemon = Setup::default()
        .config("environments.default", "interpreter = \"/usr/bin/python3\"")
        .config("sandbox", "max_disk_mb = 16")
        .start();
    let session = daemon.session();
    let wheel = wheels::write_into(&session, "tiny", "1.0");
    let outcome = session.execute(&format!("%pip install {wheel}")).ok();
    assert_eq!(outcome.0["files_changed"], json!([]), "{outcome}");
    let list = session.request("GET", "/files", None).json().to_string();
    assert!(list.contains(&wheel) && !list.contains(".vivarium"), "{list}");
    raises(&session, "open('big', 'wb').write(bytes(40 << 20))", "OSError");
    let full = session.execute(&format!("%pip install --force-reinstall {wheel}\n_exit_code")).ok();
    assert_ne!(full.result(), "0");
    let refused = ["No space left", "No usable temporary directory"];
    assert!(refused.iter().any(|text| full.stderr().contains(text)), "{full}");
    assert!(!full.stderr().contains("reaches no package index"), "{full}");
    assert_eq!(session.value("import os\nos.remove('big')\nimport tiny\n1 + 1"), "2");
    daemon.stop_and_check();
}
