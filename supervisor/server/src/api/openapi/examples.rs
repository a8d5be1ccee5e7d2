//! One example of each request's JSON. The tests hold it to its schema, and that to the server.

use serde_json::{Value, json};
use utoipa::openapi::{OpenApi, Ref, RefOr, schema::Schema};

use super::operations;

pub(super) fn add(document: &mut OpenApi) {
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        let Some(RefOr::T(body)) = &mut operation.request_body else { continue };
        for content in body.content.values_mut() {
            let RefOr::T(content) = content else { continue };
            let name = content.schema.as_ref().and_then(component);
            content.example = name.as_deref().and_then(of_schema);
        }
    }
}

/// The name of the schema that this refers to, which may be null too.
fn component(schema: &RefOr<Schema>) -> Option<String> {
    match schema {
        RefOr::Ref(Ref { ref_location, .. }) => ref_location.rsplit('/').next().map(str::to_owned),
        RefOr::T(Schema::OneOf(one)) => one.items.iter().find_map(component),
        RefOr::T(_) => None,
    }
}

fn of_schema(name: &str) -> Option<Value> {
    Some(match name {
        "BranchRequest" => json!({"count": 3}),
        "BuildRequest" => json!({"name": "analysis", "requirements": "pandas==2.2.3\n"}),
        "CallAnswer" => json!({"result": [{"id": 1, "name": "Ada"}]}),
        "CheckpointRequest" => json!({"name": "before-cleaning"}),
        "CommandRequest" => json!({"argv": ["wc", "-l", "a.txt"],
            "files": [{"name": "a.txt", "text": "one\ntwo\n"}], "timeout_ms": 10000}),
        "ContextSpec" => json!({"id": "scratch"}),
        "ContinueRequest" => json!({"answers": {"1": {"result": "done"}}}),
        "DecideRequest" => json!({"decision": "allow", "remember": "session"}),
        "DrainRequest" => json!({"exit": true}),
        "ExecuteRequest" => json!({"code": "print('hello')\n6 * 7", "timeout_ms": 10000,
            "max_output_chars": 20000, "keep": "both", "answer": {"format": "notebook"},
            "imports": {"allow": ["math", "json"]}, "prints": true}),
        "FileChange" => json!({"move_to": "data/out.csv", "mode": "0644"}),
        "IsCompleteRequest" => json!({"code": "for i in range(3):"}),
        "PauseRequest" => json!({"tenant": "team", "reason": "maintenance until noon"}),
        "PreviewRequest" => json!({"port": 8000}),
        "ProbeRequest" => json!({"code": "import os\nos.path.ex", "cursor": 20}),
        "PtySize" => json!({"columns": 100, "rows": 30}),
        "RollbackRequest" => json!({"checkpoint": "before-cleaning"}),
        "RunRequest" => json!({"code": "open('out.csv', 'w').write('a,b')",
            "outputs": [{"name": "out.csv", "format": "text"}], "network": "none"}),
        "SessionPatch" => json!({"metadata": {"title": "Sales", "draft": null}}),
        "SessionSpec" => json!({"id": "analysis-1", "limits": {"max_memory_mb": 512},
            "metadata": {"title": "Sales"}}),
        "SignalRequest" => json!({"signal": "SIGTERM"}),
        "VolumeSpec" => json!({"name": "datasets"}),
        _ => return None,
    })
}
