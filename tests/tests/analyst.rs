//! What analysts write runs as they expect: each script of `tests/analyst`, in a session of its own,
//! forked from a template, has the outcome that its first lines say.
//!
//! `# expect KEY: VALUE`, where KEY is `stdout`, `stderr` or `traceback` (each holds the values, in
//! this order), `result` (its repr), `result_end`, `mime` (a representation that the result has), `images`,
//! `displays`, `video_frames` (how many), `file` (made by the script), `output` (asked for with the
//! call, and of this type), `status` or `exception`. What is not expected is not there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::outcome::Outcome;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Setup, Shared};

macro_rules! scripts {
    ($($name:ident,)*) => {
        $(#[test]
        fn $name() {
            runs_as_it_says(stringify!($name));
        })*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    altair_chart,
    asyncio_gather,
    asyncio_server,
    csv_totals,
    dataclass_report,
    dates,
    decimal_money,
    display_rich,
    error_chained,
    error_syntax,
    error_traceback,
    http_loopback,
    json_flatten,
    logging_levels,
    matplotlib_animation,
    matplotlib_open,
    matplotlib_saved,
    matplotlib_show,
    model_assign_command,
    model_autoreload,
    model_bash_cell,
    model_bash_failure,
    model_capture,
    model_cd,
    model_checks_environment,
    model_correlation_heatmap,
    model_curl_fails,
    model_describe,
    model_display_in_loop,
    model_environment_variable,
    model_exit_code,
    model_formatted_command,
    model_get_ipython,
    model_head_of_file,
    model_help,
    model_html_cell,
    model_import_missing,
    model_input_is_refused,
    model_large_list,
    model_line_continues,
    model_markdown_cell,
    model_no_network,
    model_pip_install,
    model_plot_and_table,
    model_python_cell,
    model_run_script,
    model_script_cell,
    model_semicolon,
    model_series_plot_titles,
    model_shell_pipeline,
    model_sql_magic,
    model_syntax_error,
    model_system_python,
    model_time_cell,
    model_time_line,
    model_timeit,
    model_traceback_in_function,
    model_unknown_magic,
    model_who,
    model_workspace_path,
    model_writefile,
    multiprocessing_shared,
    networkx_draw,
    no_input,
    numpy_linalg,
    numpy_regression,
    outputs_declared,
    pandas_excel,
    pandas_groupby,
    pandas_timeseries,
    pillow_image,
    plotly_figure,
    process_pool,
    regex_log,
    scipy_optimize,
    seaborn_heatmap,
    sklearn_classify,
    sklearn_parallel,
    sqlite_join,
    subprocess_output,
    subprocess_pipeline,
    sympy_solve,
    tar_gzip,
    tempfiles_zip,
    thread_pool,
    threads_queue,
    tqdm_progress,
    unicode_text,
    warnings_shown,
}

#[test]
fn every_script_is_run() {
    let mut found: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort_unstable();
    assert_eq!(found, NAMES);
    assert!(NAMES.len() >= 80);
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/analyst"))
}

/// What a script's first lines say.
struct Expectations(Vec<(String, String)>);

impl Expectations {
    fn of(script: &str) -> Self {
        let lines = script.lines().filter_map(|line| line.strip_prefix("# expect "));
        let pair =
            |line: &str| line.split_once(": ").map(|(key, value)| (key.into(), value.into()));
        let pairs: Vec<(String, String)> = lines.map(|line| pair(line).unwrap()).collect();
        const KEYS: [&str; 13] = [
            "stdout",
            "stderr",
            "traceback",
            "result",
            "result_end",
            "mime",
            "images",
            "displays",
            "video_frames",
            "file",
            "output",
            "status",
            "exception",
        ];
        assert!(pairs.iter().all(|(key, _)| KEYS.contains(&&**key)), "{pairs:?}");
        assert!(!pairs.is_empty(), "a script that expects nothing tests nothing");
        Self(pairs)
    }

    fn all(&self, key: &str) -> Vec<&str> {
        let of_key = self.0.iter().filter(|(name, _)| name == key);
        of_key.map(|(_, value)| value.as_str()).collect()
    }

    fn one(&self, key: &str) -> Option<&str> {
        self.all(key).first().copied()
    }

    fn count(&self, key: &str) -> usize {
        self.one(key).map_or(0, |count| count.parse().unwrap())
    }
}

static DAEMON: Shared = Shared::new(|| Setup::with_start_mode(StartMode::Forked));

#[track_caller]
fn runs_as_it_says(name: &str) {
    if !host::has(&[Requirement::PythonAnalysis]) {
        return;
    }
    let script = fs::read_to_string(directory().join(name).with_extension("py")).unwrap();
    let expected = Expectations::of(&script);
    let outputs = expected.all("output").into_iter().map(|output| output.split_once(' ').unwrap());
    let outputs: Vec<(&str, &str)> = outputs.collect();
    let names: Vec<_> = outputs.iter().map(|(name, _)| json!({"name": name})).collect();
    let daemon = DAEMON.hold();
    let session = daemon.session();
    // Generous: imports are slow on a busy machine, and no test measures time.
    let request = json!({"code": script, "outputs": names, "timeout_ms": 300_000});
    let outcome = session.execute_with(&request);
    check(&outcome, &expected);
    let files = outcome.0["files"].as_array().unwrap();
    let found: Vec<_> = files
        .iter()
        .map(|file| (file["name"].as_str().unwrap(), file["mime_type"].as_str().unwrap()))
        .collect();
    assert_eq!(found, outputs, "{outcome}");
    for file in files {
        assert!(file["text"].is_string() != file["data"].is_string(), "{outcome}");
    }
    // Whatever it was, the session is as good as before.
    assert_eq!(session.value("1 + 1"), "2");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    daemon.release();
}

#[track_caller]
fn check(outcome: &Outcome, expected: &Expectations) {
    let count = |key: &str| outcome.0[key].as_array().unwrap().len();
    assert_eq!(outcome.status(), expected.one("status").unwrap_or("ok"), "{outcome}");
    assert_eq!(outcome.state(), "preserved", "{outcome}");
    assert_eq!(outcome.exception(), expected.one("exception").unwrap_or_default(), "{outcome}");
    holds(outcome.stdout(), &expected.all("stdout"), outcome);
    holds(outcome.traceback(), &expected.all("traceback"), outcome);
    match &expected.all("stderr")[..] {
        [] => assert_eq!(outcome.stderr(), "", "{outcome}"),
        ["any"] => {}
        texts => holds(outcome.stderr(), texts, outcome),
    }
    for key in ["images", "displays", "video_frames"] {
        assert_eq!(count(key), expected.count(key), "{key} of {outcome}");
    }
    if let Some(end) = expected.one("result_end") {
        assert!(outcome.result().ends_with(end), "{outcome}");
        return;
    }
    match (expected.one("result"), expected.all("mime")) {
        (Some(result), _) => assert_eq!(outcome.result(), result, "{outcome}"),
        (None, forms) if forms.is_empty() => assert_eq!(outcome.0["result"], Value::Null),
        (None, forms) => {
            for form in forms {
                let found = outcome.0["result"]["mime"][form].as_str().unwrap_or_default();
                assert!(!found.is_empty(), "{form} of {outcome}");
            }
        }
    }
    let changed = outcome.0["files_changed"].as_array().unwrap();
    for name in expected.all("file") {
        assert!(changed.iter().any(|file| file["name"] == name), "{name} of {outcome}");
    }
}

/// Whether a text holds these, one after the other.
#[track_caller]
fn holds(text: &str, parts: &[&str], outcome: &Outcome) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} of {outcome}"));
        rest = &rest[at + part.len()..];
    }
}
