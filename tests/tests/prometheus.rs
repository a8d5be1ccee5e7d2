//! What Prometheus makes of Vivarium: a real one scrapes a real daemon, and the rules and the
//! dashboard that are shipped work on what it found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::program::{self, Finished};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Setup, processes, wait};

const RULES: &str = "metrics/alerts/vivarium.rules.yml";

/// Metrics that only a host with the controllers, or with `CONFIG_PSI`, has.
const OF_CGROUPS: &str = "vivarium_tenant_";

fn promtool(arguments: &[&str], input: &str) -> Finished {
    let alerts = program::workspace().join("metrics/alerts");
    let mut command = Command::new("/usr/bin/promtool");
    command.args(arguments).current_dir(alerts);
    program::finish(&mut command, input)
}

/// A daemon to which everything has happened that leaves a mark in a metric.
fn busy_daemon() -> Daemon {
    busy(Setup::with_start_mode(StartMode::Pooled).config("sandbox", "max_disk_mb = 16"))
}

/// The same with an audit log, a volume, a session that has asked the egress gate, and a pause, which lasts. The
/// log goes with the directory.
fn audited_daemon() -> (Daemon, TempDir) {
    let log = program::temp_dir();
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let networks = "max_disk_mb = 16\nallowed_networks = [\"none\", \"loopback\", \"trusted\"]";
    let setup = Setup::with_start_mode(StartMode::Pooled).config("sandbox", networks);
    let audit = format!("dir = {:?}", log.path().join("log"));
    let daemon = busy(setup.config("audit", &audit).config("homes", "allowed = [\"volumes\"]"));
    let volume = daemon.request("POST", "/v1/volumes", Some(&json!({"name": "v"})));
    assert_eq!(volume.status, 201, "{volume:?}");
    let session = daemon.session_with(&json!({"network": "trusted"}));
    let ask = "import urllib.request\nurllib.request.urlopen('http://unlisted.example/')";
    assert_eq!(session.execute(ask).exception(), "urllib.error.HTTPError");
    let pause = json!({"tenant": "default"});
    let paused = Client::connect(&daemon.unix()).json("POST", "/v1/admin/pause", Some(&pause));
    assert_eq!(paused.status, 200, "{paused:?}");
    (daemon, log)
}

fn busy(setup: Setup) -> Daemon {
    let daemon = setup.start();
    let session = daemon.session();
    let _four = session.execute("print('x' * 1000); 2 + 2").ok();
    let _raised = session.execute("1 / 0");
    let _killed = session.execute("import os; os._exit(3)");
    let _late = session.execute_for(50, "while True: pass");
    let fill = "with open('/tmp/big', 'wb') as file: file.write(bytes(32 << 20))";
    let _full = session.execute(fill);
    let tools = json!([{"name": "nobody", "timeout_ms": 50}]);
    let call = json!({"code": "from vivarium import tools; tools.nobody()", "tools": tools});
    assert_eq!(session.execute_with(&call).exception(), "vivarium.ToolTimeout");
    let _reset = session.reset();
    let _run = daemon.run(&json!({"code": "import sys; print('oh', file=sys.stderr)"}));
    assert_eq!(daemon.request("GET", "/no/such/path", None).status, 404);
    daemon
}

fn metrics(daemon: &Daemon) -> String {
    let answer = Client::connect(&daemon.tcp()).send("GET", "/metrics", &[], None);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
    String::from_utf8(answer.body).unwrap()
}

/// Name and type of every metric of docs/metrics.md.
fn documented() -> Vec<(String, String)> {
    let page = fs::read_to_string(program::workspace().join("docs/metrics.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once("` | ").unwrap();
        (name.to_owned(), rest.split(' ').next().unwrap().to_owned())
    })
    .collect()
}

/// The samples of one metric.
fn samples<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let is_its = |line: &&str| line.strip_prefix(name).is_some_and(|r| r.starts_with(['{', ' ']));
    text.lines().filter(is_its).collect()
}

#[test]
fn every_metric_of_the_documentation_is_exposed_and_no_other() {
    let (daemon, _log) = audited_daemon();
    let text = metrics(&daemon);
    let documented = documented();
    for (name, kind) in &documented {
        if name.starts_with(OF_CGROUPS) {
            continue;
        }
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "no {name} in\n{text}");
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let known = documented.iter().any(|(one, its)| one == name && its == kind);
        assert!(known, "{name} is not in docs/metrics.md");
    }
    for session in
        daemon.request("GET", "/v1/sessions", None).json()["sessions"].as_array().unwrap()
    {
        assert!(!text.contains(session["id"].as_str().unwrap()), "a label has a session's id");
    }
    daemon.stop_and_check();
}

#[test]
fn what_happened_is_what_is_counted() {
    let daemon = busy_daemon();
    let text = metrics(&daemon);
    for line in [
        r#"vivarium_sessions{state="idle",tenant="default"} 1"#,
        r#"vivarium_session_start_seconds_count{tenant="default"} 2"#,
        r#"vivarium_sessions_ended_total{cause="deleted",tenant="default"} 1"#,
        r#"vivarium_executions_total{cause="none",status="ok",tenant="default"} 2"#,
        r#"vivarium_executions_total{cause="none",status="error",tenant="default"} 2"#,
        r#"vivarium_executions_total{cause="exited",status="killed",tenant="default"} 1"#,
        r#"vivarium_executions_total{cause="disk_limit",status="error",tenant="default"} 1"#,
        r#"vivarium_executions_total{cause="wall_time",status="timed_out",tenant="default"} 1"#,
        r#"vivarium_limit_events_total{limit="disk",tenant="default"} 1"#,
        r#"vivarium_kernel_restarts_total{cause="exited",tenant="default"} 1"#,
        r#"vivarium_kernel_restarts_total{cause="reset",tenant="default"} 1"#,
        r#"vivarium_output_bytes_total{stream="stdout",tenant="default"} 1001"#,
        r#"vivarium_output_bytes_total{stream="stderr",tenant="default"} 3"#,
        r#"vivarium_http_requests_total{method="GET",route="unknown",status="4xx"} 1"#,
        r#"vivarium_http_requests_total{method="POST",route="/v1/run",status="2xx"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    // Trial sessions are nobody's.
    assert!(!text.contains("_trial"), "{text}");
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    for layer in host["layers"].as_array().unwrap() {
        let (name, status) = (layer["layer"].as_str().unwrap(), layer["status"].as_str().unwrap());
        let line = format!(
            "vivarium_layer_status{{environment=\"default\",layer=\"{name}\",status=\"{status}\"}} 1"
        );
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    daemon.stop_and_check();
}

#[test]
fn a_tenants_use_of_the_host_is_what_its_cgroup_says() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = Daemon::start();
    let session = daemon.session();
    let burn =
        "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass";
    let _burnt = session.execute(burn).ok();
    let tenant = daemon.cgroup().unwrap().join("tenants/default");
    let value = |name: &str| -> Option<f64> {
        let text = metrics(&daemon);
        let line = *samples(&text, name).first()?;
        line.rsplit_once(' ')?.1.parse().ok()
    };
    assert!(value("vivarium_tenant_cpu_seconds_total").unwrap() >= 0.3);
    for (metric, file) in [
        ("vivarium_tenant_memory_bytes", "memory.current"),
        ("vivarium_tenant_processes", "pids.current"),
        ("vivarium_tenant_pressure_seconds_total", "cpu.pressure"),
    ] {
        let is_there = fs::read_to_string(tenant.join(file)).is_ok();
        assert_eq!(value(metric).is_some(), is_there, "{metric} from {file}");
    }
    // What a session has used is not forgotten with it.
    assert_eq!(session.request("DELETE", "", None).status, 204);
    assert!(value("vivarium_tenant_cpu_seconds_total").unwrap() >= 0.3);
    daemon.stop_and_check();
}

#[test]
fn promtool_finds_nothing_wrong() {
    if !host::has(&[Requirement::Prometheus]) {
        return;
    }
    let daemon = busy_daemon();
    let checked = promtool(&["check", "metrics"], &metrics(&daemon)).expect_code(0);
    assert_eq!(checked.stderr(), "", "of the metrics");
    daemon.stop_and_check();
    let rules = ["check", "rules", "--lint=all", "--lint-fatal", "vivarium.rules.yml"];
    let _rules = promtool(&rules, "").expect_code(0);
    let _tests = promtool(&["test", "rules", "tests.yml"], "").expect_code(0);
}

/// A Prometheus that scrapes one daemon.
struct Prometheus {
    child: Child,
    endpoint: Endpoint,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    fn start(target: u16) -> Self {
        let dir = program::temp_dir();
        let config = dir.path().join("prometheus.yml");
        let rules = program::workspace().join(RULES);
        let text = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{
                "job_name": "vivarium",
                "static_configs": [{"targets": [format!("127.0.0.1:{target}")]}],
            }],
        });
        // JSON is YAML.
        fs::write(&config, text.to_string()).unwrap();
        let log = dir.path().join("log");
        let child = Command::new("/usr/bin/prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .env_clear()
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut prometheus = Self { child, endpoint: Endpoint::Tcp(0), _dir: dir };
        let port = wait::until("Prometheus' listening", || {
            let ended = prometheus.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}\n{}", read(&log));
            processes::listening_port(pid)
        });
        prometheus.endpoint = Endpoint::Tcp(port);
        wait::until_true("Prometheus being ready", || prometheus.get("/-/ready").0 == 200);
        prometheus
    }

    fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let answer = Client::connect(&self.endpoint).send("GET", path, &[], None);
        (answer.status, answer.body)
    }

    /// What a query gives, or what is wrong with it.
    fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let (status, body) = self.get(&format!("/api/v1/query?query={}", encode(query)));
        let answer: Value = serde_json::from_slice(&body).unwrap();
        match (status, answer["status"].as_str()) {
            (200, Some("success")) => Ok(answer["data"]["result"].as_array().unwrap().clone()),
            _ => Err(format!("{query}: {status} {answer}")),
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _gone = self.child.kill().is_err();
        let _gone = self.child.wait().is_err();
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// As a query string takes it (RFC 3986).
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The queries of the dashboard with the title of their panel, Grafana's variables filled in.
fn dashboard_queries() -> Vec<(String, String)> {
    let text = read(&program::workspace().join("metrics/dashboard/vivarium.json"));
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$instance", ".*")
                .replace("$tenant", ".*");
            assert!(!query.contains('$'), "{query}");
            queries.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(values) = variable["query"]["query"].as_str() else { continue };
        let inner = values.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = inner.unwrap().split_once(", ").unwrap();
        queries.push((format!("variable {label}"), format!("count by ({label}) ({metric})")));
    }
    queries
}

#[test]
fn a_real_prometheus_scrapes_it_and_every_query_of_the_dashboard_answers() {
    if !host::has(&[Requirement::Prometheus]) {
        return;
    }
    let (daemon, _log) = audited_daemon();
    let text = metrics(&daemon);
    let Endpoint::Tcp(port) = daemon.tcp() else { unreachable!("it is TCP") };
    let prometheus = Prometheus::start(port);
    // Rates need two samples.
    wait::until_true("two scrapes", || {
        let scrapes = prometheus.query(r#"sum_over_time(up{job="vivarium"}[1m]) >= 2"#).unwrap();
        !scrapes.is_empty()
    });
    let queries = dashboard_queries();
    assert!(queries.len() > 30, "{}", queries.len());
    for (panel, query) in queries {
        let result = prometheus.query(&query).unwrap();
        // Host-dependent ones may have nothing to say: then the daemon does not say it either.
        let is_known = !query.contains(OF_CGROUPS)
            || documented()
                .iter()
                .any(|(name, _)| query.contains(name) && !samples(&text, name).is_empty());
        assert!(!is_known || !result.is_empty(), "nothing on panel {panel:?}: {query}");
    }
    // Every rule evaluates on real data.
    let rules = wait::until("the rules' evaluation", || {
        let (_, body) = prometheus.get("/api/v1/rules");
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let groups = answer["data"]["groups"].as_array().unwrap().clone();
        let rules: Vec<_> =
            groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    assert!(rules.len() > 10, "{}", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    drop(prometheus);
    daemon.stop_and_check();
}
