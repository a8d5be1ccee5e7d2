//! Cells print, show and fail as in ipykernel, the kernel of notebooks: each script of `tests/analyst`
//! runs in both, and every difference is one that `tests/ipykernel/differences.toml` gives a reason for.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

use serde_json::{Value, json};
use vivarium_tests::Setup;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::outcome::Outcome;
use vivarium_tests::start_mode::StartMode;

const PYTHON: &str = "/usr/bin/python3";

/// Prints by itself and by processes. ipykernel reads what processes print in a thread of its own, so that
/// there the lines come in any order.
const UNORDERED: &str = "subprocess_output";

/// Per script, the fields that differ, and why.
type Differences = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn cells_behave_as_in_ipykernel_but_for_the_differences_that_are_listed() {
    if !host::has(&[Requirement::PythonAnalysis, Requirement::Ipykernel]) {
        return;
    }
    let scripts = scripts();
    let (ours, judged) = thread::scope(|scope| {
        let judged = scope.spawn(|| judge(&scripts));
        (run(&scripts), judged.join().unwrap())
    });
    let mut found = BTreeMap::new();
    for (name, ours) in &ours {
        let differing = differing(&judged[name], ours, name == UNORDERED);
        if !differing.is_empty() {
            found.insert(name.to_owned(), differing);
        }
    }
    let listed: Differences =
        toml::from_str(&fs::read_to_string(directory("ipykernel/differences.toml")).unwrap())
            .unwrap();
    let fields = |differences: &Differences| -> BTreeSet<(String, String)> {
        let all = differences.iter();
        all.flat_map(|(name, fields)| fields.keys().map(|field| (name.clone(), field.clone())))
            .collect()
    };
    let unlisted: Vec<_> = fields(&found).difference(&fields(&listed)).cloned().collect();
    let unlisted: Vec<_> =
        unlisted.iter().map(|(name, field)| format!("{name}: {}", found[name][field])).collect();
    assert!(unlisted.is_empty(), "not listed:\n{}", unlisted.join("\n"));
    let gone: Vec<_> = fields(&listed).difference(&fields(&found)).cloned().collect();
    assert!(gone.is_empty(), "listed, and there is no difference: {gone:?}");
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(directory("analyst")).unwrap();
    let mut scripts: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    scripts
}

/// What comes of each script here, each in a session of its own.
fn run(scripts: &[PathBuf]) -> BTreeMap<String, Outcome> {
    let daemon = Setup::with_start_mode(StartMode::Forked).start();
    let mut outcomes = BTreeMap::new();
    for script in scripts {
        let session = daemon.session();
        let code = fs::read_to_string(script).unwrap();
        let outcome = session.execute_with(&json!({"code": code, "timeout_ms": 300_000}));
        outcomes.insert(script.file_stem().unwrap().to_str().unwrap().to_owned(), outcome);
        assert_eq!(session.request("DELETE", "", None).status, 204);
    }
    daemon.stop_and_check();
    outcomes
}

/// What comes of each script in ipykernel.
fn judge(scripts: &[PathBuf]) -> Value {
    let output = Command::new(PYTHON)
        .arg(directory("ipykernel/run_cells.py"))
        .arg(PYTHON)
        .args(scripts)
        .env("PYTHONPATH", host::ipykernel().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The fields in which two outcomes differ, with both values.
fn differing(theirs: &Value, ours: &Outcome, in_any_order: bool) -> BTreeMap<String, String> {
    let shown = ["displays", "images", "video_frames"];
    let shown: usize = shown.map(|key| ours.0[key].as_array().unwrap().len()).iter().sum();
    let result = &ours.0["result"];
    let mime = result["mime"].as_object().map(|mime| mime.keys().collect::<Vec<_>>());
    let exception = ours.exception().rsplit('.').next().unwrap_or_default();
    // Its commands have a terminal.
    let stdout = theirs["stdout"].as_str().unwrap().replace("\r\n", "\n");
    let printed = |text: &str| {
        let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
        if in_any_order {
            lines.sort();
        }
        json!(lines.concat())
    };
    let pairs = [
        ("stdout", printed(&stdout), printed(ours.stdout())),
        ("stderr", json!(theirs["stderr"] != ""), json!(!ours.stderr().is_empty())),
        ("shown", json!(theirs["shown"].as_array().unwrap().len()), json!(shown)),
        ("result", theirs["result"]["repr"].clone(), result["repr"].clone()),
        ("mime", theirs["result"]["mime"].clone(), json!(mime)),
        ("exception", json!(theirs["exception"].as_str().unwrap_or_default()), json!(exception)),
    ];
    let differing = pairs.into_iter().filter(|(_, theirs, ours)| theirs != ours);
    differing
        .map(|(field, theirs, ours)| {
            let [theirs, ours] =
                [theirs, ours].map(|it| it.to_string().chars().take(200).collect::<String>());
            (field.to_owned(), format!("{field}: ipykernel {theirs}, here {ours}"))
        })
        .collect()
}
