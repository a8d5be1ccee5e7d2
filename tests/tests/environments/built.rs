//! What sessions of a built environment have.

use std::fs;

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::program;

use crate::{ADMIN, Packages, begin, built, exists, failed};

/// Where an environment is.
const ROOT: &str = "/.vivarium/environment";

#[test]
fn environment_is_built_used_switched_and_removed() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let daemon = packages.setup("").start();
    let first = built(&daemon, "tools", "tiny==1.0");
    assert_eq!(built(&daemon, "again", "tiny==1.0"), first, "equal files have one name");
    let old = daemon.session_with(&json!({"id": "old", "environment": "tools"}));
    assert_eq!(old.value("__import__('tiny').VERSION"), "'1.0'");
    assert_eq!(old.info()["environment"], "tools");
    // The first of sys.path but for the session's own packages and the standard library.
    let place = "[p for p in __import__('sys').path if p.endswith('-packages') and 'workspace' not in p][0]";
    assert!(old.value(place).starts_with(&format!("'{ROOT}/lib/python3")), "{}", old.value(place));
    let programs = old.command(
        &json!({"shell": "tiny; python -c 'import tiny; print(tiny.__file__)'; command -v tiny"}),
    );
    let said = programs.ok();
    assert!(said.stdout().starts_with("tiny 1.0\n"), "{said}");
    assert!(said.stdout().contains(&format!("{ROOT}/bin/tiny\n")), "{said}");
    // Bytecode is there, as nobody can write it later.
    let cached = "__import__('os').path.exists(__import__('tiny').__cached__)";
    assert_eq!(old.value(cached), "True");
    for change in
        ["open(path + '/new', 'w')", "os.chmod(path, 0o777)", "os.remove(path + '/tiny.py')"]
    {
        let code = format!("import os, tiny\npath = os.path.dirname(tiny.__file__)\n{change}");
        assert!(old.execute(&code).raised("OSError").traceback().contains("Read-only"), "{change}");
    }
    let other = daemon.session();
    assert_eq!(other.execute("import tiny").status(), "error", "no other environment has it");

    let second = built(&daemon, "tools", "tiny==2.0");
    assert_ne!(first, second);
    let new = daemon.session_with(&json!({"environment": "tools"}));
    assert_eq!(new.value("__import__('tiny').VERSION"), "'2.0'");
    assert_eq!(old.value("__import__('importlib').reload(__import__('tiny')).VERSION"), "'1.0'");
    old.reset();
    assert_eq!(old.value("__import__('tiny').VERSION"), "'1.0'", "it keeps what it had");

    let request = |method: &str, path: &str| daemon.request(method, path, None);
    let shown = request("GET", &format!("{ADMIN}/tools")).expect_success();
    assert_eq!(shown["distributions"], json!(["tiny-2.0"]));
    assert_eq!((&shown["in_use"], &shown["hash_locked"]), (&json!(true), &json!(false)));
    assert_eq!(request("DELETE", &format!("{ADMIN}/again")).status, 204);
    drop(request("POST", "/v1/admin/collect").expect_success());
    assert!(exists(&daemon, &first), "a session has it");
    assert_eq!(old.request("DELETE", "", None).status, 204);
    // Whoever collects first, the build's end or this.
    drop(request("POST", "/v1/admin/collect").expect_success());
    assert!(!exists(&daemon, &first) && exists(&daemon, &second));
    request("DELETE", &format!("{ADMIN}/again")).expect_problem(404, "unknown_environment");
    let gone = json!({"environment": "again"});
    daemon.request("POST", "/v1/sessions", Some(&gone)).expect_problem(422, "invalid_field");
    drop((new, other));
    daemon.stop_and_check();
}

#[test]
fn sessions_install_on_top_of_their_environment() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let daemon = packages.setup("").start();
    built(&daemon, "tools", "tiny==1.0");
    let session = daemon.session_with(&json!({"environment": "tools"}));
    let wheel = packages.path("wheels").join("tiny-2.0-py3-none-any.whl").display().to_string();
    drop(session.execute(&format!("%pip install --no-deps {wheel}")).ok());
    assert_eq!(session.value("__import__('tiny').VERSION"), "'2.0'");
    drop(session.execute("%pip uninstall -y tiny").ok());
    session.reset();
    assert_eq!(session.value("__import__('tiny').VERSION"), "'1.0'");
}

#[test]
fn command_line_builds_shows_and_removes() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let daemon = packages.setup("").start();
    let url = daemon.unix().url();
    let call = |arguments: &[&str]| program::run(&[&["env"], arguments, &["--url", &url]].concat());
    let file = |name: &str, text: &str| {
        let path = packages.path(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let requirements = file("requirements.txt", "tiny\n");
    let made = call(&["build", "tools", "--requirements", &requirements]).expect_code(0);
    assert!(made.stdout().starts_with("tools: built, "), "{}", made.stdout());
    assert!(made.stderr().contains("tiny==2.0"), "the log is shown: {}", made.stderr());
    assert!(call(&["log", "tools"]).expect_code(0).stdout().contains("tiny==2.0"));
    assert!(call(&["list"]).expect_code(0).stdout().contains("(all)"));
    assert!(call(&["show", "tools"]).expect_code(0).stdout().contains("  tiny-2.0\n"));

    let project = file(
        "pyproject.toml",
        "[project]\nname = \"mine\"\nversion = \"1\"\nrequires-python = \">=3.9\"\ndependencies = [\"tiny<2\"]\n",
    );
    drop(call(&["build", "project", "--pyproject", &project]).expect_code(0));
    assert!(call(&["show", "project"]).expect_code(0).stdout().contains("  tiny-1.0\n"));

    let missing = file("missing.txt", "no-such-package\n");
    let failed = call(&["build", "missing", "--requirements", &missing]).expect_code(1);
    assert!(failed.stderr().contains("no-such-package"), "{}", failed.stderr());
    drop(call(&["show", "missing"]).expect_code(1));
    assert_eq!(call(&["rm", "tools"]).expect_code(0).stdout(), "tools: removed\n");
    assert!(call(&["gc"]).expect_code(0).stdout().starts_with("environments: "));
}

#[test]
fn hashes_are_kept_to_and_orders_are_checked() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let daemon = packages.setup("").start();
    let wrong = format!("tiny==1.0 --hash=sha256:{}", "0".repeat(64));
    assert!(failed(&daemon, "wrong", &wrong).contains("the build ended with"));
    let order = |body: serde_json::Value| daemon.request("POST", ADMIN, Some(&body));
    order(json!({"name": "x"})).expect_problem(422, "missing_field");
    order(json!({"name": "x", "lock": ""})).expect_problem(422, "missing_field");
    order(json!({"name": "../x", "requirements": ""})).expect_problem(422, "invalid_field");
    order(json!({"name": "default", "requirements": ""})).expect_problem(422, "invalid_field");
    order(json!({"name": "x", "base": "none", "requirements": ""}))
        .expect_problem(422, "invalid_field");
    order(json!({"name": "x", "requirements": "", "pyproject": ""}))
        .expect_problem(422, "invalid_field");
    order(json!({"name": "x", "requirement": ""})).expect_problem(422, "unknown_field");
    let nobody = format!("{ADMIN}?tenant=nobody");
    let body = json!({"name": "x", "requirements": ""});
    daemon.request("POST", &nobody, Some(&body)).expect_problem(422, "invalid_field");
    let without = packages.setup("").config("builds", "").start();
    fs::remove_file(packages.path("uv")).unwrap();
    let problem = begin(&without, "x", "tiny").expect_problem(503, "uv_missing");
    assert!(problem["detail"].as_str().unwrap().contains("pip install uv"), "{problem}");
}
