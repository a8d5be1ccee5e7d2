//! An outcome as a tool's result: text for the model, images, links to files, and the same
//! structured. All of it comes from tenant code.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use vivarium_api_types::{ChangedFile, MimeBundle, Outcome};
use vivarium_protocol::outcome::{State, Status};

use super::resources;

/// The most characters of each text: what a model can be expected to read.
pub(super) const MAX_TEXT_CHARS: u64 = 20_000;

/// The most images and links of one result.
const MAX_IMAGES: usize = 16;
const MAX_LINKS: usize = 50;

/// The images that clients are known to show.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The result of a call whose execution came to this.
pub(super) fn told(outcome: Outcome) -> Value {
    let structured = structured(&outcome);
    let mut content = vec![json!({"type": "text", "text": with_session(&outcome)})];
    for file in outcome.files_changed.iter().filter(|file| !file.deleted).take(MAX_LINKS) {
        content.push(link(&outcome.session_id, file));
    }
    let is_error = outcome.status != Status::Ok;
    content.extend(
        images(outcome)
            .into_iter()
            .take(MAX_IMAGES)
            .map(|(mime_type, data)| json!({"type": "image", "data": data, "mimeType": mime_type})),
    );
    json!({"content": content, "structuredContent": structured, "isError": is_error})
}

/// What code drew, displayed and returned as images that clients show.
fn images(outcome: Outcome) -> Vec<(String, String)> {
    let drawn = outcome.images.into_iter().map(|image| (image.mime_type, image.data));
    let displayed = outcome.displays.into_iter().filter_map(|display| image_in(display.mime));
    let returned = outcome.result.and_then(|value| image_in(Arc::unwrap_or_clone(value).mime));
    let all = drawn.chain(displayed).chain(returned);
    all.filter(|(mime_type, _)| IMAGE_TYPES.contains(&mime_type.as_str())).collect()
}

/// The first image among the representations of an object.
fn image_in(mut mime: MimeBundle) -> Option<(String, String)> {
    IMAGE_TYPES.iter().find_map(|mime_type| mime.remove_entry(*mime_type))
}

fn has_image(mime: &MimeBundle) -> bool {
    IMAGE_TYPES.iter().any(|mime_type| mime.contains_key(*mime_type))
}

/// How many [`images`] there are.
fn count_images(outcome: &Outcome) -> usize {
    let drawn = outcome.images.iter().filter(|one| IMAGE_TYPES.contains(&one.mime_type.as_str()));
    let displayed = outcome.displays.iter().filter(|display| has_image(&display.mime));
    let returned = outcome.result.iter().filter(|value| has_image(&value.mime));
    drawn.count() + displayed.count() + returned.count()
}

fn link(session: &str, file: &ChangedFile) -> Value {
    let name = file.name.rsplit('/').next().unwrap_or_default();
    json!({
        "type": "resource_link",
        "uri": resources::uri(session, &file.name),
        "name": name,
        "description": format!("{} in session {session}", file.name),
        "size": file.size_bytes,
    })
}

/// The text, and the id to go on with.
fn with_session(outcome: &Outcome) -> String {
    let mut text = text(outcome);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    write!(text, "[session {}]", outcome.session_id).unwrap_or_default();
    text
}

/// What a model reads of an outcome.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = outcome.stdout.clone();
    let mut part = |label: &str, part: &str| {
        if part.is_empty() {
            return;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(label);
        text.push_str(part);
    };
    part("[stderr]\n", &outcome.stderr);
    // The plain text of an image says nothing.
    for display in outcome.displays.iter().filter(|display| !has_image(&display.mime)) {
        if let Some(plain) = display.mime.get("text/plain") {
            part("", plain);
        }
    }
    if let Some(result) = &outcome.result {
        part("[result] ", &result.repr);
    }
    if let Some(exception) = &outcome.exception {
        part("", &exception.traceback);
    }
    part("", &notes(outcome));
    text
}

/// What is not seen from the output.
fn notes(outcome: &Outcome) -> String {
    let mut notes = String::new();
    if let Some(code) = outcome.exit_code.filter(|code| *code != 0) {
        writeln!(notes, "[exit code {code}]").unwrap_or_default();
    }
    let is_plain = outcome.status == Status::Ok
        || (outcome.status == Status::Error
            && (outcome.exception.is_some() || outcome.exit_code.is_some()));
    if !is_plain {
        let cause = outcome.cause.map(|cause| format!(", {}", word(&cause))).unwrap_or_default();
        let detail = if outcome.detail.is_empty() { "" } else { ": " };
        let status = word(&outcome.status);
        writeln!(notes, "[{status}{cause}{detail}{}]", outcome.detail).unwrap_or_default();
    }
    let was_lost =
        outcome.kernel.as_ref().is_some_and(|kernel| kernel.fresh && kernel.previous_end.is_some());
    if outcome.state == State::Lost {
        notes.push_str("[variables and imports are lost; files are kept]\n");
    } else if was_lost {
        notes
            .push_str("[this ran in a fresh kernel: variables and imports from before are lost]\n");
    }
    if outcome.stdout_truncated || outcome.stderr_truncated {
        notes.push_str("[the output was cut at the session's limit]\n");
    }
    notes
}

/// The name of a status or cause in JSON.
fn word(name: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(name).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn structured(outcome: &Outcome) -> Value {
    let changed = |file: &ChangedFile| {
        json!({
            "name": file.name,
            "size_bytes": file.size_bytes,
            "deleted": file.deleted,
            "uri": resources::uri(&outcome.session_id, &file.name),
        })
    };
    let exception = outcome.exception.as_ref().map(|exception| {
        json!({
            "type": exception.type_name,
            "message": exception.message,
            "traceback": exception.traceback,
        })
    });
    let result = outcome.result.as_ref();
    json!({
        "session": outcome.session_id,
        "session_created": outcome.session_created,
        "execution_id": outcome.execution_id,
        "status": outcome.status,
        "cause": outcome.cause,
        "detail": outcome.detail,
        "state": outcome.state,
        "exit_code": outcome.exit_code,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "truncated": outcome.stdout_truncated || outcome.stderr_truncated || !outcome.cuts.is_empty(),
        "exception": exception,
        "result": result.map(|value| json!({"type": value.type_name, "repr": value.repr})),
        "images": count_images(outcome),
        "files_changed": outcome.files_changed.iter().map(changed).collect::<Vec<_>>(),
        "files_changed_more": outcome.files_changed_more,
        "duration_ms": outcome.duration_ms,
    })
}

/// The schema of what [`structured`] gives.
pub(super) fn schema() -> Value {
    let string = json!({"type": "string"});
    let bool = json!({"type": "boolean"});
    let part = |members: &[&str]| {
        let properties: Map<_, _> =
            members.iter().map(|name| ((*name).to_owned(), string.clone())).collect();
        json!({"type": ["object", "null"], "properties": properties, "required": members})
    };
    let properties = json!({
        "session": {"type": "string", "description": "Pass it to go on in this session."},
        "session_created": bool,
        "execution_id": string,
        "status": {"enum": ["ok", "error", "timed_out", "interrupted", "killed", "rejected"]},
        "cause": {"type": ["string", "null"], "description": "Why, if the status alone does not say."},
        "detail": string,
        "state": {"enum": ["preserved", "lost"], "description": "Whether variables survived."},
        "exit_code": {"type": ["integer", "null"], "description": "Of a command."},
        "stdout": string,
        "stderr": string,
        "truncated": {"type": "boolean", "description": "Whether a text is not whole."},
        "exception": part(&["type", "message", "traceback"]),
        "result": part(&["type", "repr"]),
        "images": {"type": "integer", "minimum": 0},
        "files_changed": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "name": string, "size_bytes": {"type": "integer"}, "deleted": bool, "uri": string,
            },
            "required": ["name", "size_bytes", "deleted", "uri"],
        }},
        "files_changed_more": bool,
        "duration_ms": {"type": "number"},
    });
    let required: Vec<_> =
        properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required})
}
