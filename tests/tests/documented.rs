//! What docs/api.md and docs/command-line.md show works as it is shown, and every call is shown.
//!
//! The `sh` blocks of a page are run one after the other in one shell, as a reader would. `curl` is
//! the real one, told where this test's daemon listens, and it notes what it called.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Setup, program};

const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.md");
const COMMAND_LINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command-line.md");

/// What an operator has to configure for some of its calls.
const PREVIEW: &str = "url = \"https://preview.example.org\"";
const HOMES: &str = "allowed = [\"session\", \"tenant\", \"volumes\"]";

/// Images are of kernels that are forked.
const IMAGES: &str = "images = true";

/// Calls that need a daemon with an execution that waits: `tests/approvals` makes them.
const ELSEWHERE: [(&str, &str); 2] =
    [("GET", "/v1/approvals/{id}"), ("POST", "/v1/approvals/{id}")];

#[test]
fn every_example_works_and_every_call_has_one() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let dir = program::temp_dir();
    let setup = with_images().config("preview", PREVIEW).config("homes", HOMES);
    let daemon = setup.config("builds", &builds(dir.path())).start();
    let calls = dir.path().join("calls");
    put_curl(dir.path(), &daemon, &calls);
    run_examples(
        API,
        Command::new("/bin/sh").env("VIVARIUM_TOKEN", "viv_not-asked-for"),
        dir.path(),
    );
    let called = fs::read_to_string(&calls).unwrap();
    let called: BTreeSet<_> = called.lines().collect();
    let mut missing = routes(&daemon);
    missing.retain(|route| !called.iter().any(|call| is_call_of(call, route)));
    missing.retain(|(method, path)| !ELSEWHERE.contains(&(method.as_str(), path.as_str())));
    assert_eq!(missing, Vec::<(String, String)>::new(), "without an example; there are {called:?}");
    daemon.stop_and_check();
}

#[test]
fn every_example_of_the_command_line_works() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let dir = program::temp_dir();
    let setup = with_images().config("homes", HOMES);
    let daemon = setup.config("builds", &builds(dir.path())).start();
    fs::create_dir(dir.path().join("bin")).unwrap();
    symlink(program::path("vivarium"), dir.path().join("bin/vivarium")).unwrap();
    let url = format!("unix:{}/api.sock", daemon.dir().display());
    let mut shell = Command::new("/bin/sh");
    let said = run_examples(COMMAND_LINE, shell.env("VIVARIUM_URL", url), dir.path());
    for shown in ["name? hello Ada ['one', 'two']\n", "\n42\n2\n", "hello\n", "sub/name.csv"] {
        assert!(said.contains(shown), "{shown:?} in {said}");
    }
    assert!(dir.path().join(".local/share/man/man1/vivarium-run.1").exists());
    daemon.stop_and_check();
}

fn with_images() -> Setup {
    Setup::with_start_mode(StartMode::Forked).config("environments.default", IMAGES)
}

/// Has environments built by a uv that the daemon can read.
fn builds(dir: &Path) -> String {
    let uv = dir.join("uv");
    fs::copy(host::tool("uv").unwrap(), &uv).unwrap();
    format!("uv = {:?}", uv.display().to_string())
}

/// Runs what a page shows, in a directory that has its programs in `bin`; returns its output.
fn run_examples(page: &str, shell: &mut Command, dir: &Path) -> String {
    let script = format!("set -eu\n{}", blocks(&fs::read_to_string(page).unwrap(), "sh"));
    let output = shell
        .args(["-c", &script])
        .current_dir(dir)
        .env("HOME", dir)
        .env("PATH", format!("{}/bin:/usr/bin:/bin", dir.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}\n{errors}");
    said.into_owned()
}

/// A `curl` that finds the daemon where the page says it is, fails where the daemon refuses, and
/// writes a line for each call.
fn put_curl(dir: &Path, daemon: &Daemon, calls: &Path) {
    let (Endpoint::Tcp(port), Endpoint::Unix(socket)) = (daemon.tcp(), daemon.unix()) else {
        panic!("the daemon listens elsewhere");
    };
    let curl = format!(
        "#!/bin/sh\n\
         for word; do\n\
         shift\n\
         [ \"$word\" != /run/vivarium/api.sock ] || word={socket}\n\
         set -- \"$@\" \"$word\"\n\
         done\n\
         exec /usr/bin/curl --fail-with-body --silent --show-error \
         --connect-to 127.0.0.1:8470:127.0.0.1:{port} \
         --write-out '%{{stderr}}%{{method}} %{{url_effective}}\\n' \"$@\" 2>>{calls}\n",
        socket = socket.display(),
        calls = calls.display(),
    );
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("curl"), curl).unwrap();
    fs::set_permissions(bin.join("curl"), Permissions::from_mode(0o755)).unwrap();
}

/// The blocks of a page that are in a language.
fn blocks(page: &str, language: &str) -> String {
    let mut found = String::new();
    let mut inside = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(_), Some(_)) => inside = None,
            (Some(kind), None) => inside = Some(kind == language),
            (None, Some(true)) => {
                found.push_str(line);
                found.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(!found.is_empty());
    found
}

/// Every method and path of the API.
fn routes(daemon: &Daemon) -> Vec<(String, String)> {
    let document = daemon.request("GET", "/openapi.json", None).expect_success();
    let of_path = |(path, item): (&String, &Value)| -> Vec<(String, String)> {
        let methods = item.as_object().unwrap().keys();
        methods.map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    document["paths"].as_object().unwrap().iter().flat_map(of_path).collect()
}

/// Whether a line of `curl`'s is a call of this route.
fn is_call_of(call: &str, (method, path): &(String, String)) -> bool {
    let Some((called, url)) = call.split_once(' ') else { return false };
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (_, called_path) = url.split_at(url.find('/').unwrap_or(url.len()));
    let called_path = called_path.split('?').next().unwrap_or_default();
    // The last parameter of a path may hold slashes, where the route is declared so.
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let found: Vec<_> = called_path.trim_start_matches('/').splitn(parts.len(), '/').collect();
    called == method
        && parts.len() == found.len()
        && parts.iter().zip(&found).all(|(part, found)| {
            part == found
                || (part.starts_with('{') && !found.is_empty())
                    && (part.contains("path") || !found.contains('/'))
        })
}
