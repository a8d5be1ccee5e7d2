//! The scripts of `tests/analyst` in this runtime: those that need no more than the standard library do as in an
//! interpreter, and the others are refused by the runtime's name.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::*;

/// They have the same outcome in both. What a traceback looks like depends on Python's version.
const SAME: &[&str] = &[
    "asyncio_gather",
    "csv_totals",
    "dataclass_report",
    "decimal_money",
    "display_rich",
    "error_chained",
    "error_syntax",
    "error_traceback",
    "json_flatten",
    "logging_levels",
    "model_autoreload",
    "model_help",
    "model_html_cell",
    "model_import_missing",
    "model_input_is_refused",
    "model_large_list",
    "model_markdown_cell",
    "model_no_network",
    "model_run_script",
    "model_semicolon",
    "model_sql_magic",
    "model_syntax_error",
    "model_traceback_in_function",
    "model_unknown_magic",
    "model_who",
    "model_workspace_path",
    "model_writefile",
    "no_input",
    "outputs_declared",
    "regex_log",
    "sqlite_join",
    "tempfiles_zip",
    "unicode_text",
    "warnings_shown",
];

/// They have another outcome, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("asyncio_server", "asyncio says of the refused sockets that it cannot bind to an address"),
    ("dates", "there is no time zone database"),
    ("model_time_cell", "it prints how long it took"),
    ("model_time_line", "it prints how long it took"),
    ("model_timeit", "it prints how long it took"),
    ("process_pool", "multiprocessing says that this Python has no semaphores"),
    ("tar_gzip", "there is no bz2 and no lzma"),
    ("tqdm_progress", "tqdm is no library that is refused by name"),
];

fn listed(name: &str) -> bool {
    SAME.contains(&name) || DIFFERENT.iter().any(|(other, _)| *other == name)
}

fn script(name: &str) -> String {
    fs::read_to_string(directory().join(name).with_extension("py")).unwrap()
}

fn directory() -> PathBuf {
    program::workspace().join("tests/analyst")
}

/// The outcome of a script in a new session, without what differs from one run to the next.
fn outcome(daemon: &Daemon, environment: &str, name: &str) -> Value {
    let code = script(name);
    let outputs = code.lines().filter_map(|line| line.strip_prefix("# expect output: "));
    let outputs: Vec<_> =
        outputs.map(|line| json!({"name": line.split(' ').next().unwrap()})).collect();
    let session = daemon.any_session(&json!({"environment": environment}));
    let request = json!({"code": code, "outputs": outputs, "timeout_ms": 300_000});
    let mut found = session.execute_with(&request).0;
    assert_eq!(session.request("DELETE", "", None).status, 204);
    for member in ["execution_id", "session_id", "duration_ms", "usage", "detail"] {
        found.as_object_mut().unwrap().remove(member);
    }
    if let Some(exception) = found["exception"].as_object_mut() {
        exception.remove("traceback");
    }
    found
}

#[test]
fn analysts_scripts_of_the_standard_library_do_the_same() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let in_both = |name: &str| ["light", "default"].map(|one| outcome(&daemon, one, name));
    for name in SAME {
        let [wasm, cpython] = in_both(name);
        assert_eq!(wasm, cpython, "{name}");
    }
    for (name, reason) in DIFFERENT {
        let [wasm, cpython] = in_both(name);
        assert_ne!(wasm, cpython, "{name} does the same now: {reason}");
    }
}

#[test]
fn analysts_scripts_that_need_more_are_refused_by_the_runtimes_name() {
    let Some(built) = inside::built() else { return };
    let daemon = inside::daemon(built);
    let names = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    let names: BTreeSet<_> = names.collect();
    let all_there = SAME.iter().all(|name| names.contains(*name));
    assert!(all_there && DIFFERENT.iter().all(|(name, _)| names.contains(*name)));
    for name in names.iter().filter(|name| !listed(name)) {
        let found = outcome(&daemon, "light", name).to_string();
        assert!(found.contains("in runtime wasm: use an environment"), "{name}: {found}");
    }
}
