//! What the API says of itself.

use serde_json::{Value, json};
use vivarium_protocol::layer::Layer;
use vivarium_tests::Daemon;
use vivarium_tests::http::Client;

use crate::over_both;

/// Every route of SPEC section 3 that this version has.
const ROUTES: [(&str, &str); 93] = [
    ("post", "/v1/sessions"),
    ("get", "/v1/sessions"),
    ("get", "/v1/sessions/{id}"),
    ("delete", "/v1/sessions/{id}"),
    ("post", "/v1/sessions/{id}/execute"),
    ("post", "/v1/sessions/{id}/commands"),
    ("post", "/v1/sessions/{id}/complete"),
    ("post", "/v1/sessions/{id}/inspect"),
    ("post", "/v1/sessions/{id}/is_complete"),
    ("get", "/v1/sessions/{id}/executions/{execution_id}"),
    ("get", "/v1/sessions/{id}/files"),
    ("put", "/v1/sessions/{id}/files"),
    ("get", "/v1/sessions/{id}/files/{path}"),
    ("put", "/v1/sessions/{id}/files/{path}"),
    ("delete", "/v1/sessions/{id}/files/{path}"),
    ("post", "/v1/sessions/{id}/interrupt"),
    ("post", "/v1/sessions/{id}/reset"),
    ("post", "/v1/sessions/{id}/keepalive"),
    ("post", "/v1/sessions/{id}/suspend"),
    ("post", "/v1/sessions/{id}/resume"),
    ("post", "/v1/sessions/{id}/branch"),
    ("get", "/v1/sessions/{id}/imageable"),
    ("post", "/v1/sessions/{id}/checkpoints"),
    ("get", "/v1/sessions/{id}/checkpoints"),
    ("delete", "/v1/sessions/{id}/checkpoints/{name}"),
    ("get", "/v1/sessions/{id}/checkpoints/{name}/diff"),
    ("post", "/v1/sessions/{id}/rollback"),
    ("get", "/v1/images"),
    ("post", "/v1/images"),
    ("get", "/v1/images/{id}"),
    ("delete", "/v1/images/{id}"),
    ("get", "/v1/images/{id}/export"),
    ("post", "/v1/run"),
    ("get", "/v1/host"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/metrics/tenants"),
    ("get", "/openapi.json"),
    ("patch", "/v1/sessions/{id}"),
    ("get", "/v1/sessions/{id}/executions"),
    ("get", "/v1/sessions/{id}/executions/{execution_id}/outputs/{part}"),
    ("post", "/v1/sessions/{id}/executions/{execution_id}/signal"),
    ("post", "/v1/sessions/{id}/executions/{execution_id}/resize"),
    ("post", "/v1/sessions/{id}/executions/{execution_id}/stdin"),
    ("get", "/v1/sessions/{id}/executions/{execution_id}/calls"),
    ("post", "/v1/sessions/{id}/executions/{execution_id}/calls/{call_id}"),
    ("post", "/v1/sessions/{id}/executions/{execution_id}/continue"),
    ("patch", "/v1/sessions/{id}/files/{path}"),
    ("get", "/v1/sessions/{id}/watch"),
    ("get", "/v1/sessions/{id}/ports/{port}/{path}"),
    ("post", "/v1/sessions/{id}/previews"),
    ("post", "/v1/sessions/{id}/contexts"),
    ("get", "/v1/sessions/{id}/contexts"),
    ("get", "/v1/sessions/{id}/contexts/{context}"),
    ("delete", "/v1/sessions/{id}/contexts/{context}"),
    ("post", "/v1/sessions/{id}/contexts/{context}/reset"),
    ("post", "/v1/sessions/{id}/contexts/{context}/interrupt"),
    ("get", "/v1/homes"),
    ("get", "/v1/homes/{id}"),
    ("delete", "/v1/homes/{id}"),
    ("get", "/v1/homes/{id}/files"),
    ("get", "/v1/homes/{id}/files/{path}"),
    ("delete", "/v1/homes/{id}/files/{path}"),
    ("get", "/v1/volumes"),
    ("post", "/v1/volumes"),
    ("get", "/v1/volumes/{name}"),
    ("delete", "/v1/volumes/{name}"),
    ("get", "/v1/volumes/{name}/files"),
    ("get", "/v1/volumes/{name}/files/{path}"),
    ("delete", "/v1/volumes/{name}/files/{path}"),
    ("get", "/v1/admin/status"),
    ("get", "/v1/admin/tenants"),
    ("get", "/v1/admin/usage"),
    ("post", "/v1/admin/pause"),
    ("post", "/v1/admin/resume"),
    ("post", "/v1/admin/drain"),
    ("get", "/v1/admin/environments"),
    ("post", "/v1/admin/environments"),
    ("get", "/v1/admin/environments/{name}"),
    ("delete", "/v1/admin/environments/{name}"),
    ("get", "/v1/admin/environments/{name}/build"),
    ("get", "/v1/admin/environments/{name}/build/log"),
    ("post", "/v1/admin/collect"),
    ("get", "/v1/environments"),
    ("post", "/v1/environments"),
    ("get", "/v1/environments/{name}"),
    ("delete", "/v1/environments/{name}"),
    ("get", "/v1/environments/{name}/build"),
    ("get", "/v1/environments/{name}/build/log"),
    ("get", "/v1/approvals"),
    ("get", "/v1/approvals/{id}"),
    ("post", "/v1/approvals/{id}"),
];

#[test]
fn the_openapi_document_has_every_route_and_no_other() {
    over_both(|_, endpoint| {
        let answer = Client::connect(endpoint).json("GET", "/openapi.json", None);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let document = answer.expect_success();
        assert!(
            document["openapi"].as_str().unwrap().starts_with("3.1"),
            "{}",
            document["openapi"]
        );
        assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
        let mut found: Vec<_> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(move |method| (method.as_str(), path.as_str()))
            })
            .collect();
        found.sort_unstable();
        let mut right = ROUTES.to_vec();
        right.sort_unstable();
        assert_eq!(found, right);
        // Every reference leads somewhere.
        references(&document, &mut |reference| {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        });
    });
}

fn references(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(reference) if name == "$ref" => check(reference),
                    _ => references(member, check),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, check)),
        _ => {}
    }
}

/// The members of a schema of the document, by name.
fn members(document: &Value, schema: &str) -> Vec<String> {
    let properties = document["components"]["schemas"][schema]["properties"].as_object().unwrap();
    let mut names: Vec<_> = properties.keys().cloned().collect();
    names.sort_unstable();
    names
}

fn keys(value: &Value) -> Vec<String> {
    let mut names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
    names.sort_unstable();
    names
}

#[test]
fn answers_have_the_members_that_the_document_says() {
    let daemon = Daemon::start();
    let document = daemon.request("GET", "/openapi.json", None).expect_success();
    let session = daemon.session();
    let mut usual = members(&document, "SessionInfo");
    // Of network `trusted` alone, and of suspended sessions.
    usual.retain(|name| !["egress_allow", "image"].contains(&name.as_str()));
    assert_eq!(keys(&session.info()), usual);
    let outcome = session.execute("print(1)\n2").ok();
    // Some are there only if the request asks for them.
    let mut usual = members(&document, "Outcome");
    usual.retain(|name| !["audit_events", "cuts", "outputs", "prints"].contains(&name.as_str()));
    assert_eq!(keys(&outcome.0), usual);
    assert_eq!(keys(&outcome.0["result"]), members(&document, "ValueInfo"));
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    assert_eq!(keys(&host), members(&document, "HostInfo"));
    // And the contract's own list.
    for member in [
        "execution_id",
        "session_id",
        "status",
        "cause",
        "detail",
        "state",
        "stdout",
        "stdout_truncated",
        "stderr",
        "stderr_truncated",
        "exception",
        "result",
        "displays",
        "images",
        "video_frames",
        "files",
        "files_changed",
        "duration_ms",
        "usage",
    ] {
        assert!(outcome.0.get(member).is_some(), "{member}");
    }
    assert!(outcome.0["duration_ms"].is_f64());
    let mut usual = members(&document, "ExecutionUsage");
    // With `max_work` alone.
    usual.retain(|name| name != "work");
    assert_eq!(keys(&outcome.0["usage"]), usual);
    for member in ["cpu_ms", "memory_peak_bytes"] {
        assert!(outcome.0["usage"][member].is_number(), "{outcome}");
    }
}

#[test]
fn the_host_is_described() {
    let daemon = Daemon::start();
    let _session = daemon.session();
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(host["kernel"].as_str().unwrap().contains(release.trim()), "{host}");
    assert_eq!(host["mode"], "auto");
    let layers: Vec<_> =
        host["layers"].as_array().unwrap().iter().map(|l| l["layer"].clone()).collect();
    assert_eq!(layers, Layer::ALL.map(|layer| json!(layer.name())));
    assert_eq!(host["environments"][0]["name"], "default");
    assert_eq!(host["environments"][0]["runtime"], "cpython");
    assert_eq!(host["environments"][0]["interpreter"], "/usr/bin/python3");
    assert_eq!(
        (&host["capacity"]["sessions"], &host["capacity"]["max_sessions"]),
        (&json!(1), &json!(256))
    );
}
