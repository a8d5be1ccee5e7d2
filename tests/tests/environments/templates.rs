//! Which built environments have a template, and what becomes of it.

use std::fs;

use serde_json::json;
use vivarium_tests::Daemon;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::wait;

use crate::{ADMIN, Packages, built, ended, exists};

const WHEEL: &str = "-py3-none-any.whl";

/// How the kernel of a session came about that has this environment, where `expression` has this value.
#[track_caller]
fn origin(daemon: &Daemon, environment: &str, expression: &str, value: &str) -> String {
    let session = daemon.any_session(&json!({"environment": environment}));
    assert_eq!(session.value(expression), value, "{environment}");
    session.info()["kernel_origin"].as_str().unwrap().to_owned()
}

/// A `.pth` file runs in a template too, which is outside of sessions. Who may have it run there is the operator,
/// who named the wheel by its hash.
#[test]
fn templates_are_of_the_operators_hash_locked_environments_alone() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    packages.add("pth");
    packages.add("attack");
    let daemon = packages.setup_in(StartMode::Forked, "").start();
    let locked = packages.locked("pth", "1.0", WHEEL);
    // Where there are no tenants whoever connects may build, and is no operator for that.
    let order = json!({"name": "own", "requirements": &locked});
    let at = "/v1/environments";
    assert_eq!(daemon.request("POST", at, Some(&order)).status, 202);
    let build = ended(|| daemon.request("GET", &format!("{at}/own/build"), None));
    assert_eq!(build["state"], "succeeded", "{build}");
    let own = daemon.request("GET", &format!("{at}/own"), None).expect_success();
    assert_eq!((&own["tenant"], &own["hash_locked"]), (&json!("default"), &json!(true)));
    // The operator's, without hashes, and with the hash of what is built by code of its own.
    built(&daemon, "open", "pth==1.0\ntiny==1.0");
    built(&daemon, "source", &packages.locked("attack", "1.0", ".tar.gz"));
    for (environment, expression) in [
        ("own", "__import__('sys').planted"),
        ("open", "__import__('sys').planted"),
        ("source", "'attack' in [m.name for m in __import__('pkgutil').iter_modules()]"),
    ] {
        assert_eq!(origin(&daemon, environment, expression, "True"), "executed", "{environment}");
        assert_eq!(daemon.environment_of(environment)["template"]["state"], "off", "{environment}");
    }
    let source = daemon.request("GET", &format!("{ADMIN}/source"), None).expect_success();
    assert_eq!(source["hash_locked"], false, "{source}");
    assert!(!packages.mark().exists(), "it ran outside of a session");
    // The control: in the operator's template it does, and there alone.
    built(&daemon, "locked", &locked);
    daemon.until_template_of("locked");
    let ran = fs::read_to_string(packages.mark()).unwrap();
    let field = |name: &str| {
        let values = ran.lines().filter_map(|line| line.strip_prefix(name));
        let mut values: Vec<_> = values.map(|value| value.trim().to_owned()).collect();
        values.dedup(); // Some Pythons read these files twice in a virtual environment.
        values
    };
    let templates: Vec<_> = daemon.templates().iter().map(|it| it.pid.to_string()).collect();
    assert_eq!(field("Pid:").len(), 1, "{ran}");
    assert!(templates.contains(&field("Pid:")[0]), "{templates:?} {ran}");
    assert_eq!(
        (field("NoNewPrivs:"), field("CapEff:")),
        (vec!["1".to_owned()], vec!["0".repeat(16)])
    );
    assert_eq!(origin(&daemon, "locked", "__import__('sys').planted", "True"), "forked");
    assert_eq!(fs::read_to_string(packages.mark()).unwrap(), ran, "nowhere else");
    daemon.stop_and_check();
}

#[test]
fn a_template_follows_the_name_and_ends_with_it() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let daemon = packages.setup_in(StartMode::Forked, "").start();
    let before = daemon.templates().len();
    let first = built(&daemon, "tools", &packages.locked("tiny", "1.0", WHEEL));
    daemon.until_template_of("tools");
    let old = daemon.any_session(&json!({"environment": "tools"}));
    assert!(old.is_forked());
    // However a kernel comes about, packages have the same names in it, and can not be changed.
    let seen = "import os, subprocess, sys, tiny\n\
                programs = subprocess.run('command -v tiny; tiny; python -c \"import tiny; print(tiny.__file__)\"', \
                shell=True, capture_output=True, text=True).stdout\n\
                try: open(os.path.dirname(tiny.__file__) + '/new', 'w')\n\
                except OSError as error: print(error.strerror)\n\
                print(tiny.__file__, sys.prefix, sys.executable, programs, sys.path)\n\
                print(os.path.samefile(tiny.__file__, '/.vivarium/environment' + tiny.__file__[len(sys.prefix):]))";
    let of_forked = old.execute(seen).ok().stdout().to_owned();
    assert!(of_forked.starts_with("Read-only") && of_forked.ends_with("True\n"), "{of_forked}");
    assert!(of_forked.contains(&first) && of_forked.contains("tiny 1.0\n"), "{of_forked}");
    let spec = json!({"environment": "tools", "env": {"PYTHONHASHSEED": "1"}});
    let executed = daemon.any_session(&spec);
    assert!(!executed.is_forked());
    assert_eq!(executed.execute(seen).ok().stdout(), of_forked);

    // Equal files are one environment, and as good as hash-locked, whatever they came from.
    assert_eq!(built(&daemon, "same", "tiny==1.0"), first);
    daemon.until_template_of("same");
    assert_eq!(daemon.request("DELETE", &format!("{ADMIN}/same"), None).status, 204);
    let second = built(&daemon, "tools", &packages.locked("tiny", "2.0", WHEEL));
    daemon.until_template_of("tools");
    let version = "__import__('tiny').VERSION";
    assert_eq!(origin(&daemon, "tools", version, "'2.0'"), "forked");
    assert_eq!(daemon.templates().len(), before + 1, "it took the other's place");
    assert_eq!(old.value(version), "'1.0'");
    old.reset();
    assert_eq!(old.value(version), "'1.0'", "it has what it had, and not what the name stands for");
    assert!(exists(&daemon, &first));

    let dir = daemon.kill_and_check();
    let daemon = packages.setup_in(StartMode::Forked, "").in_place_of(dir).start();
    daemon.until_template_of("tools");
    assert_eq!(origin(&daemon, "tools", version, "'2.0'"), "forked");
    let state = "vivarium_template_state{environment=\"tools\",state=\"ready\"}";
    assert_eq!(daemon.metric(state), Some(1));
    assert_eq!(daemon.request("DELETE", &format!("{ADMIN}/tools"), None).status, 204);
    assert!(daemon.environment_of("tools").is_null());
    wait::until_true("the end of the template", || daemon.templates().len() == before);
    assert_eq!(daemon.metric(state), None);
    for session in
        daemon.request("GET", "/v1/sessions", None).expect_success()["sessions"].as_array().unwrap()
    {
        let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
        assert_eq!(daemon.request("DELETE", &path, None).status, 204);
    }
    drop(daemon.request("POST", "/v1/admin/collect", None).expect_success());
    assert!(!exists(&daemon, &second) && !exists(&daemon, &first));
    daemon.stop_and_check();
}
