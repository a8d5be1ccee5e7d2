//! An index that asks for a login: sessions install from it, and environments are built from it, and neither ever
//! has the login.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use vivarium_tests::gate::Gates;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::tenants::{RELOADED, reload};
use vivarium_tests::tls::{authority, server_config};
use vivarium_tests::{Daemon, Setup, program, wait};

use crate::gate::{PIP_MAY_TAKE, stock, trusted_spec};
use crate::upstream::{Private, Upstream, sha256};
use crate::wheels;

const LOGIN: &str = "reader:s3cret-of-the-index";

/// A virtual environment with `tiny` 1.0, and the host's pip.
fn with_tiny(dir: &Path, wheel: &Path) {
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip", "--system-site-packages"])
        .arg(dir)
        .status();
    assert!(made.unwrap().success());
    let code = "import glob, sys, zipfile\n\
                zipfile.ZipFile(sys.argv[1]).extractall(glob.glob(sys.argv[2] + '/lib/*/site-packages')[0])";
    let python = Command::new("/usr/bin/python3").args(["-c", code]).arg(wheel).arg(dir).status();
    assert!(python.unwrap().success());
}

/// Builds as the operator. What is known of the environment then, and its log.
#[track_caller]
fn built(daemon: &Daemon, order: &Value) -> (Value, String) {
    let at = "/v1/admin/environments";
    assert_eq!(daemon.request("POST", at, Some(order)).status, 202);
    let at = format!("{at}/{}", order["name"].as_str().unwrap());
    let ask = |path: &str| daemon.request("GET", &format!("{at}{path}"), None);
    let build = wait::until("the end of a build", || {
        let build = ask("/build").expect_success();
        (build["state"] != "building").then_some(build)
    });
    let log = String::from_utf8(ask("/build/log").body).unwrap();
    assert_eq!(build["state"], "succeeded", "{build} {log}");
    (ask("").expect_success(), log)
}

const PROJECT: &str = "[project]\nname = \"mine\"\nversion = \"1\"\nrequires-python = \">=3.9\"\n";

/// As `uv lock` writes it.
fn lock(hash: &str) -> String {
    let wheel = "tiny-1.0-py3-none-any.whl";
    format!(
        "version = 1\nrevision = 2\nrequires-python = \">=3.9\"\n\
         [[package]]\nname = \"mine\"\nversion = \"1\"\nsource = {{ virtual = \".\" }}\n\
         dependencies = [{{ name = \"tiny\" }}]\n\
         [package.metadata]\nrequires-dist = [{{ name = \"tiny\" }}]\n\
         [[package]]\nname = \"tiny\"\nversion = \"1.0\"\n\
         source = {{ registry = \"https://index.example/simple\" }}\n\
         wheels = [{{ url = \"https://index.example/{wheel}\", hash = \"sha256:{hash}\" }}]\n"
    )
}

#[test]
fn a_private_index_serves_sessions_and_builds_which_never_have_its_login() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let (stock, dir) = (stock(), program::temp_dir());
    assert!(wheels::write(stock.path(), "other", "1.0", &[]).exists());
    let tiny = stock.path().join("tiny-1.0-py3-none-any.whl");
    let path = |name: &str| dir.path().join(name);
    with_tiny(&path("venv"), &tiny);
    fs::copy(host::tool("uv").unwrap(), path("uv")).unwrap();
    fs::write(path("login"), LOGIN).unwrap();
    let (of_index, issuer) = authority();
    fs::write(path("ca.pem"), &of_index.certificate_pem).unwrap();
    let authorization = format!("Basic {}", BASE64_STANDARD.encode(LOGIN));
    let tls = server_config(&issuer, "127.0.0.1");
    let index = Upstream::private(stock.path(), Private { tls, authorization });
    let shown = |name: &str| path(name).display().to_string();
    let gates = Gates::listen(
        dir.path(),
        &["--ca-bundle", &shown("ca.pem"), "--cache-dir", &shown("cache")],
    );
    let packages = format!(
        "index_url = \"https://127.0.0.1:{}/simple\"\nlogin_file = {:?}",
        index.port,
        path("login")
    );
    let imported = format!("interpreter = {:?}\npreimport = [\"tiny\"]", path("venv/bin/python"));
    let daemon = Setup::default()
        .config("environments.default", "interpreter = \"/usr/bin/python3\"")
        .config("environments.imported", &imported)
        .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"trusted\"]")
        .config("egress", &gates.lines())
        .config("packages", &packages)
        .config("builds", &format!("uv = {:?}", path("uv")))
        .config("session", PIP_MAY_TAKE)
        .start();

    // What is imported already, and comes from a template: an upgrade, which a reset brings.
    daemon.until_template_of("imported");
    let session = daemon.any_session(&json!({"network": "trusted", "environment": "imported"}));
    assert_eq!(session.value("'tiny' in __import__('sys').modules"), "True", "pre-imported");
    let upgraded = session.execute("%pip install -U tiny").ok();
    assert!(upgraded.stderr().contains("reset the session"), "{upgraded}");
    assert_eq!(session.value("__import__('tiny').VERSION"), "'1.0'");
    session.reset();
    assert_eq!(session.value("__import__('tiny').VERSION"), "'2.0'");
    let looks = "import os, subprocess\n\
                 subprocess.run('env; cat /proc/*/environ; pip config list', shell=True, capture_output=True, text=True).stdout";
    let seen = session.execute(looks).ok();
    assert!(seen.result().contains("PIP_INDEX_URL") && !seen.result().contains("s3cret"), "{seen}");

    // Environments, from the same index.
    let project = format!("{PROJECT}dependencies = [\"app\"]");
    let (environment, log) = built(&daemon, &json!({"name": "project", "pyproject": project}));
    assert_eq!(environment["distributions"], json!(["app-1.0", "tiny-1.0"]));
    assert_eq!(environment["hash_locked"], false);
    assert!(log.contains("app==1.0") && !log.contains("s3cret"), "{log}");
    let project = format!("{PROJECT}dependencies = [\"tiny\"]");
    let order = json!({"name": "locked", "pyproject": project, "lock": lock(&sha256(&tiny))});
    let (environment, _log) = built(&daemon, &order);
    assert_eq!(environment["distributions"], json!(["tiny-1.0"]), "2.0 is newer, and not locked");
    assert_eq!(environment["hash_locked"], true);
    for (environment, code) in
        [("project", "__import__('app').VERSION"), ("locked", "__import__('tiny').VERSION")]
    {
        let session = daemon.any_session(&json!({"environment": environment}));
        assert_eq!(session.value(code), "'1.0'", "{environment}");
    }

    // The index does ask: with another login there is nothing more to have.
    assert_eq!(index.refused(), 0);
    let install = "%pip install --retries 0 other\n_exit_code";
    fs::write(path("login"), "reader:another").unwrap();
    let configuration = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    reload(&daemon, &configuration, RELOADED);
    let session = daemon.any_session(&trusted_spec());
    assert_eq!(session.execute(install).ok().result(), "1");
    assert_ne!(index.refused(), 0);
    fs::write(path("login"), LOGIN).unwrap();
    reload(&daemon, &configuration, RELOADED);
    let session = daemon.any_session(&trusted_spec());
    assert_eq!(session.execute(install).ok().result(), "0", "the control");
    daemon.stop_and_check();
}
