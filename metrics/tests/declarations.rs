//! Every declaration follows the conventions, is used and is documented.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vivarium_metrics::families::{limits::Limit, output::Stream, queue::Refusal};
use vivarium_metrics::{Kind, Metrics, Unit, markdown};

/// Every label there may be. The values of each are few: see the crate's documentation. One that
/// a client could fill (a session's id, a path) has no place here.
const LABELS: [&str; 23] = [
    "act",
    "cause",
    "direction",
    "environment",
    "kind",
    "layer",
    "limit",
    "method",
    "mode",
    "origin",
    "outcome",
    "quota",
    "reason",
    "resource",
    "route",
    "runtime",
    "share",
    "state",
    "status",
    "stream",
    "subject",
    "tenant",
    "version",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The text of every Rust file below a directory.
fn sources(dir: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    text
}

#[test]
fn names_units_and_labels_follow_the_conventions() {
    for declaration in Metrics::new().unwrap().declarations() {
        let name = declaration.name;
        assert!(name.starts_with("vivarium_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), declaration.kind == Kind::Counter, "{name}");
        if declaration.kind == Kind::Histogram {
            assert_eq!(declaration.unit(), Unit::Seconds, "{name}");
        }
        for scaled in ["_ms", "_milliseconds", "_mb", "_kb", "_percent", "_minutes"] {
            assert!(!name.contains(scaled), "{name} is not in a base unit");
        }
        for label in declaration.labels {
            assert!(LABELS.contains(label), "{label}");
        }
        assert!(declaration.help.ends_with('.'), "{name}: {}", declaration.help);
        assert!(!declaration.help.contains("  "), "{name}: {}", declaration.help);
    }
}

#[test]
fn docs_page_matches_the_declarations() {
    let page = fs::read_to_string(workspace().join("docs/metrics.md")).unwrap_or_default();
    assert!(
        page == markdown(Metrics::new().unwrap().declarations()),
        "regenerate it: docs/generate"
    );
}

/// A metric nobody sets would be a promise nobody keeps.
#[test]
fn every_method_of_a_family_has_a_caller_in_the_supervisor() {
    let supervisor = sources(&workspace().join("supervisor"));
    for entry in fs::read_dir(workspace().join("metrics/src/families")).unwrap() {
        let path = entry.unwrap().path();
        let family = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let methods = text.split("    pub fn ").skip(1).map(|rest| rest.split('(').next().unwrap());
        let mut count = 0;
        for method in methods {
            let call = format!(".{family}.{method}(");
            assert!(supervisor.contains(&call), "nobody calls {call}…)");
            count += 1;
        }
        assert!(count > 0, "{family} has no methods");
    }
}

/// An alert or a dashboard on a metric that is not there never says anything.
#[test]
fn alerts_and_dashboard_use_metrics_that_are_declared() {
    let metrics = Metrics::new().unwrap();
    let known = |name: &str| {
        let base = ["_bucket", "_count", "_sum"]
            .into_iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        metrics.declarations().iter().any(|one| one.name == name || one.name == base)
    };
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    for file in ["alerts/vivarium.rules.yml", "alerts/tests.yml", "dashboard/vivarium.json"] {
        let text = fs::read_to_string(workspace().join("metrics").join(file)).unwrap();
        let names = text
            .split(word)
            .filter(|name| name.starts_with("vivarium_") || name.starts_with("process_"));
        let mut count = 0;
        for name in names {
            assert!(known(name), "{file}: there is no {name}");
            count += 1;
        }
        assert!(count > 10, "{file}");
    }
    let dashboard =
        fs::read_to_string(workspace().join("metrics/dashboard/vivarium.json")).unwrap();
    for declaration in metrics.declarations() {
        assert!(dashboard.contains(declaration.name), "{} is on no panel", declaration.name);
    }
}

/// An alert needs instructions.
#[test]
fn every_alert_has_a_runbook() {
    let rules = fs::read_to_string(workspace().join("metrics/alerts/vivarium.rules.yml")).unwrap();
    let page = fs::read_to_string(workspace().join("docs/alerts.md")).unwrap();
    let tests = fs::read_to_string(workspace().join("metrics/alerts/tests.yml")).unwrap();
    let alerts: Vec<_> = rules.lines().filter_map(|l| l.trim().strip_prefix("- alert: ")).collect();
    assert!(!alerts.is_empty());
    for alert in &alerts {
        let anchor = format!("runbook_url: docs/alerts.md#{}", alert.to_lowercase());
        assert!(rules.contains(&anchor), "{alert} has no runbook");
        assert!(page.contains(&format!("\n## {alert}\n")), "{alert} is not in docs/alerts.md");
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
    }
    let described = page.lines().filter_map(|line| line.strip_prefix("## "));
    for alert in described {
        assert!(alerts.contains(&alert), "docs/alerts.md describes {alert}, which is no alert");
    }
}

#[test]
fn counters_accumulate_and_gauges_are_reset() {
    let metrics = Metrics::new().unwrap();
    metrics.introduce("one");
    metrics.limits.reached("one", Limit::Memory, 2);
    metrics.limits.reached("one", Limit::Memory, 3);
    metrics.queue.refused("one", Refusal::QueueFull);
    metrics.output.printed("one", Stream::Stderr, 7, true);
    let (brief, long) = (Duration::from_micros(100), Duration::from_secs(61));
    metrics.executions.ended("one", "ok", "none", Some(brief), brief);
    metrics.executions.ended("one", "ok", "none", Some(long), brief);
    let read = |to: &vivarium_metrics::Families| {
        to.tenants.used_cpu("one", Duration::from_millis(1500));
        to.sessions.in_state("one", "idle", 3);
    };
    for _ in 0..2 {
        let text = metrics.scrape(read).unwrap();
        for line in [
            r#"vivarium_limit_events_total{limit="memory",tenant="one"} 5"#,
            r#"vivarium_limit_events_total{limit="pids",tenant="one"} 0"#,
            r#"vivarium_refusals_total{reason="queue_full",tenant="one"} 1"#,
            r#"vivarium_output_bytes_total{stream="stderr",tenant="one"} 7"#,
            r#"vivarium_output_truncated_total{stream="stderr",tenant="one"} 1"#,
            r#"vivarium_executions_total{cause="none",status="ok",tenant="one"} 2"#,
            r#"vivarium_execution_duration_seconds_bucket{tenant="one",le="0.0001"} 1"#,
            r#"vivarium_execution_duration_seconds_bucket{tenant="one",le="60"} 1"#,
            r#"vivarium_execution_duration_seconds_bucket{tenant="one",le="+Inf"} 2"#,
            r#"vivarium_tenant_cpu_seconds_total{tenant="one"} 1.5"#,
            r#"vivarium_sessions{state="idle",tenant="one"} 3"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
    let text = metrics.scrape(|_| ()).unwrap();
    assert!(!text.contains("vivarium_tenant_cpu_seconds_total{"), "not read, and still shown");
    assert!(!text.contains("vivarium_sessions{"), "not read, and still shown");
}

#[test]
fn layer_has_one_status_and_client_input_makes_no_labels() {
    let metrics = Metrics::new().unwrap();
    metrics.http.answered(None, "X-a\"b\n", 200, Duration::ZERO);
    let text = metrics
        .scrape(|to| {
            to.layers.has_status("default", "seccomp", "partial");
            to.process.read();
        })
        .unwrap();
    let ones = text.lines().filter(|line| line.starts_with("vivarium_layer_status{"));
    let ones: Vec<_> = ones.filter(|line| line.ends_with(" 1")).collect();
    assert_eq!(
        ones,
        [r#"vivarium_layer_status{environment="default",layer="seccomp",status="partial"} 1"#]
    );
    let request = r#"vivarium_http_requests_total{method="other",route="unknown",status="2xx"} 1"#;
    assert!(text.lines().any(|line| line == request), "{text}");
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in\n{text}")).parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes") > 100_000.0);
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_start_time_seconds") > 1_500_000_000.0);
    assert!(value("process_threads") >= 1.0);
}
