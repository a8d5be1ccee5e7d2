//! Every call is audited and counted, and none of what it says.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use vivarium_tests::{Setup, program};

use super::{answer, result, start, until};

#[test]
fn every_call_is_audited_and_counted_by_its_end() {
    let place = program::temp_dir();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let log = place.path().join("audit");
    let daemon = Setup::default()
        .config("audit", &format!("dir = {:?}", log.to_str().unwrap()))
        .config("session", "call_timeout = \"10s\"")
        .start();
    let session = daemon.session();
    let code = "
for n in range(3):
    try: tools.echo(secret='hidden', n=n)
    except vivarium.ToolCallError: pass
try: tools.add(n='x')
except vivarium.ToolRefused: pass
tools.echo()";
    let mut events = start(&session, code);
    for n in 0..3 {
        let call = until(&mut events, "call");
        if n == 2 {
            let error = json!({"error": {"message": "no"}});
            assert_eq!(answer(&session, &call, &error).status, 204);
        } else {
            result(&session, &call, &json!("also hidden"));
        }
    }
    until(&mut events, "call");
    let waiting = metric(&daemon, "vivarium_tool_calls_opened_total{tenant=\"default\"}");
    assert_eq!(waiting, 4);
    session.interrupt();
    until(&mut events, "done");
    for (outcome, count) in [
        ("result", 2),
        ("error", 1),
        ("refused", 1),
        ("withdrawn", 1),
        ("timeout", 0),
        ("ended", 0),
    ] {
        let name = format!("vivarium_tool_calls_total{{outcome=\"{outcome}\",tenant=\"default\"}}");
        assert_eq!(metric(&daemon, &name), count, "{outcome}");
    }
    let count = metric(&daemon, "vivarium_tool_call_duration_seconds_count{tenant=\"default\"}");
    assert_eq!(count, 4);
    daemon.stop_and_check();

    let export = ["audit", "export", "--event", "tool_call", "--dir", log.to_str().unwrap()];
    let exported = program::run(&export).expect_code(0).stdout();
    assert!(!exported.contains("hidden"), "{exported}");
    let lines: Vec<Value> = serde_json::from_str(&exported).unwrap();
    let told: Vec<_> =
        lines.iter().map(|line| (&line["call"], &line["tool"], &line["outcome"])).collect();
    let (result, echo) = (json!("result"), json!("echo"));
    assert_eq!(
        told,
        [
            (&json!(1), &echo, &result),
            (&json!(2), &echo, &result),
            (&json!(3), &echo, &json!("error")),
            (&Value::Null, &json!("add"), &json!("refused")),
            (&json!(4), &echo, &json!("withdrawn")),
        ]
    );
    for line in &lines {
        assert_eq!((&line["tenant"], &line["execution"]), (&json!("default"), &json!(1)));
        assert!(line["arguments_bytes"].is_u64() && line["duration_ms"].is_u64(), "{line}");
    }
    drop(program::run(&["audit", "verify", "--dir", log.to_str().unwrap()]).expect_code(0));
}

/// The value of a metric; 0 if it has none.
fn metric(daemon: &vivarium_tests::Daemon, name: &str) -> u64 {
    let text = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}
