//! A template's own life: it comes with its configuration, and ends with its daemon.

use nix::sys::signal::Signal;
use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::processes::Process;
use vivarium_tests::{Setup, wait};

use crate::{built, template};

#[test]
fn another_configuration_makes_another() {
    let daemon = template(&["wave"], "").start();
    let before = daemon.templates();
    let session = daemon.session();
    let has = "[name in __import__('sys').modules for name in ('wave', 'colorsys')]";
    assert_eq!(session.value(has), "[True, False]");
    let _set = session.execute("x = 41").ok();
    let path = daemon.dir().join("vivarium.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("wave", "colorsys")).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait::until_true("the end of the old one", || !before.iter().any(Process::is_alive));
    daemon.until_template("ready");
    assert_eq!(daemon.session().value(has), "[False, True]");
    assert_eq!(built(&daemon, "ok"), 2);
    // What there was goes on, and its next kernel is one of now, however it comes about.
    assert_eq!(session.value("x + 1"), "42");
    session.reset();
    assert_eq!(session.value("'x' in globals()"), "False");
    // The same again changes nothing.
    let now = daemon.templates();
    daemon.signal(Signal::SIGHUP);
    wait::until_true("the reload", || daemon.log().matches("reloaded").count() >= 2);
    assert_eq!(daemon.templates(), now);
    // And none at all ends it.
    std::fs::write(&path, text.replace("\"auto\"", "\"off\"")).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.until_template("off");
    wait::until_true("the end of the template", || !now.iter().any(Process::is_alive));
    let last = daemon.any_session(&json!({}));
    assert_eq!(last.value(has), "[False, False]");
    daemon.stop_and_check();
}

/// Sessions of all kinds, one of them busy for good.
const LITTER: &str = "
import os, subprocess
subprocess.Popen(['sleep', '1000'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp('sleep', ['sleep', '1000'])
    os._exit(0)";

fn pooled() -> Setup {
    template(&["json"], "").config("environments.default", "pool_size = 2")
}

#[test]
fn after_sigterm_nothing_is_left() {
    let daemon = pooled().start();
    for _ in 0..2 {
        let session = daemon.session();
        let _littered = session.execute(LITTER).ok();
    }
    daemon.stop_and_check();
}

#[test]
fn after_sigkill_nothing_runs_and_the_next_daemon_has_its_own() {
    let daemon = pooled().start();
    let session = daemon.session();
    let _littered = session.execute(LITTER).ok();
    let busy = daemon.session();
    let _events = busy.stream("while True: pass");
    busy.until_state("running");
    // Template, kernels and what they have started.
    let dir = daemon.kill_and_check();
    let again = pooled().in_place_of(dir).start();
    assert_eq!(again.session().value("6 * 7"), "42");
    again.stop_and_check();
}

#[test]
fn after_sigkill_while_it_is_being_built_nothing_runs() {
    let warmup = "import time; time.sleep(1000)";
    let setup = Setup::default()
        .config("environments.default", &format!("template = \"auto\"\nwarmup = \"{warmup}\""));
    let daemon = setup.start();
    wait::until_true("a template that is being built", || {
        daemon.environment()["template"]["state"] == "building" && !daemon.templates().is_empty()
    });
    let session = daemon.any_session(&json!({}));
    assert_eq!(session.value("6 * 7"), "42");
    let templates = daemon.templates();
    let _dir = daemon.kill_and_check();
    assert!(!templates.iter().any(Process::is_alive));
}

#[test]
fn one_that_is_being_built_does_not_delay_the_end() {
    let warmup = "import time; time.sleep(1000)";
    let setup = Setup::default()
        .config("environments.default", &format!("template = \"auto\"\nwarmup = \"{warmup}\""));
    let daemon = setup.start();
    wait::until_true("a template that is being built", || !daemon.templates().is_empty());
    daemon.stop_and_check();
}

#[test]
fn pandas_with_pyarrow_has_a_template() {
    if !host::has(&[Requirement::PythonArrow]) {
        return;
    }
    let interpreter = format!("interpreter = {:?}", host::tool("python").unwrap());
    let setup =
        template(&["pandas", "pyarrow.parquet"], "").config("environments.default", &interpreter);
    let daemon = setup.start();
    daemon.until_template("ready");
    let session = daemon.any_session(&json!({}));
    assert!(session.is_forked());
    let code = "import pandas as pd\n\
                frame = pd.DataFrame({'name': ['a', 'b'] * 5000, 'n': range(10000)})\n\
                frame.to_parquet('f.parquet')\n\
                int(pd.read_parquet('f.parquet').groupby('name').n.sum()['b'])";
    assert_eq!(session.value(code), "25000000");
    daemon.stop_and_check();
}
