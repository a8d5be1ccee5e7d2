//! Environments that are built: what is in them, who has them, and that nothing of them runs outside
//! of a session. By uv, from a directory of packages that the tests write.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod built;
mod hostile;
mod lasting;
mod templates;
mod tenants;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use vivarium_tests::daemon::{Daemon, Setup};
use vivarium_tests::http::Response;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{host, program, wait};

const MAKE_WHEEL: &str = include_str!("../packages/make_wheel.py");
const MAKE_PACKAGE: &str = include_str!("make_package.py");

/// A directory with packages, uv, and one that anybody can write to, where packages leave a mark if they
/// run outside of a session.
struct Packages {
    dir: tempfile::TempDir,
}

impl Packages {
    fn new() -> Self {
        let dir = program::temp_dir();
        let packages = Self { dir };
        for name in ["wheels", "marks"] {
            fs::create_dir(packages.path(name)).unwrap();
        }
        fs::set_permissions(packages.path("marks"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::copy(host::tool("uv").unwrap(), packages.path("uv")).unwrap();
        for version in ["1.0", "2.0"] {
            packages.python(MAKE_WHEEL, &["tiny", version]);
        }
        packages
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mark(&self) -> PathBuf {
        self.path("marks").join("mark")
    }

    fn python(&self, script: &str, arguments: &[&str]) {
        let made = Command::new("/usr/bin/python3")
            .args(["-c", script])
            .arg(self.path("wheels"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn add(&self, kind: &str) {
        self.python(MAKE_PACKAGE, &[kind, &self.mark().display().to_string()]);
    }

    /// A requirement that nothing but this file of the directory meets.
    fn locked(&self, project: &str, version: &str, ends: &str) -> String {
        let path = self.path("wheels").join(format!("{project}-{version}{ends}"));
        let said = Command::new("sha256sum").arg(path).output().unwrap();
        let hash = String::from_utf8(said.stdout).unwrap();
        format!("{project}=={version} --hash=sha256:{}", hash.split(' ').next().unwrap())
    }

    /// A daemon that builds from here, with these lines more in `[builds]`.
    fn setup(&self, more: &str) -> Setup {
        self.setup_in(StartMode::default(), more)
    }

    fn setup_in(&self, start_mode: StartMode, more: &str) -> Setup {
        let wheels = self.path("wheels").display().to_string();
        let lines = format!(
            "interpreter = \"/usr/bin/python3\"\nread_paths = [{wheels:?}]\n\
             extra_env = [\"UV_FIND_LINKS\", \"UV_NO_INDEX\"]"
        );
        let builds = format!("uv = {:?}\n{more}", self.path("uv").display().to_string());
        Setup::with_start_mode(start_mode)
            .config("environments.default", &lines)
            .config("builds", &builds)
            .env("UV_FIND_LINKS", &wheels)
            .env("UV_NO_INDEX", "1")
    }
}

const ADMIN: &str = "/v1/admin/environments";

/// Begins a build as the operator.
#[track_caller]
fn begin(daemon: &Daemon, name: &str, requirements: &str) -> Response {
    let order = json!({"name": name, "requirements": requirements});
    daemon.request("POST", ADMIN, Some(&order))
}

/// What became of the last build of a name, when it is over.
#[track_caller]
fn ended(mut ask: impl FnMut() -> Response) -> Value {
    wait::until("the end of a build", || {
        let build = ask().expect_success();
        (build["state"] != "building").then_some(build)
    })
}

/// Builds as the operator. What became of it.
#[track_caller]
fn build(daemon: &Daemon, name: &str, requirements: &str) -> Value {
    let begun = begin(daemon, name, requirements);
    assert_eq!(begun.status, 202, "{}", String::from_utf8_lossy(&begun.body));
    ended(|| daemon.request("GET", &format!("{ADMIN}/{name}/build"), None))
}

/// Builds what has to succeed. Its hash.
#[track_caller]
fn built(daemon: &Daemon, name: &str, requirements: &str) -> String {
    let build = build(daemon, name, requirements);
    let log = || daemon.request("GET", &format!("{ADMIN}/{name}/build/log"), None);
    assert_eq!(build["state"], "succeeded", "{build} {}", String::from_utf8_lossy(&log().body));
    build["artefact"].as_str().unwrap().to_owned()
}

/// Builds what has to fail. Why it did.
#[track_caller]
fn failed(daemon: &Daemon, name: &str, requirements: &str) -> String {
    let build = build(daemon, name, requirements);
    assert_eq!(build["state"], "failed", "{build}");
    build["error"].as_str().unwrap().to_owned()
}

/// Whether this is an artefact's directory of the operator's.
fn exists(daemon: &Daemon, hash: &str) -> bool {
    daemon.dir().join("state/environments/@all/artefacts").join(hash).exists()
}
