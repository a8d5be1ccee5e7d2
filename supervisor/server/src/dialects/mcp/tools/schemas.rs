//! What clients are told of the tools.

use serde_json::{Map, Value, json};

use crate::dialects::mcp::outcome;

/// The tool that is there only where it can do something.
pub(super) const INSTALL: &str = "install_packages";

pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Arguments, and which of them are needed.
    input: fn() -> Value,
    required: &'static [&'static str],
    output: Option<fn() -> Value>,
    effect: Effect,
}

/// What a client may tell its user of a tool beforehand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes nothing.
    Reads,
    /// Changes something in a session.
    Changes,
    /// Takes something away that does not come back.
    Destroys,
}

impl Tool {
    pub(super) fn described(&self) -> Value {
        let input = json!({
            "type": "object",
            "properties": (self.input)(),
            "required": self.required,
            "additionalProperties": false,
        });
        let mut tool = json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": input,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.effect == Effect::Reads,
                "destructiveHint": self.effect == Effect::Destroys,
                "openWorldHint": self.name == INSTALL,
            },
        });
        if let (Some(output), Some(members)) = (self.output, tool.as_object_mut()) {
            members.insert("outputSchema".to_owned(), output());
        }
        tool
    }
}

pub(super) const ALL: [Tool; 9] = [
    Tool {
        name: "run_python",
        title: "Run Python",
        description: "Runs Python code in a sandboxed session and returns what it prints, the value of \
                      its last expression, figures as images, and the files it changed. Variables, \
                      imports and files stay in the session for the next call. Top-level await works.",
        input: || {
            json!({
                "code": {"type": "string", "description": "Python source code."},
                "session": session_or_new(),
                "timeout_ms": timeout(),
            })
        },
        required: &["code"],
        output: Some(outcome::schema),
        effect: Effect::Changes,
    },
    Tool {
        name: "run_command",
        title: "Run a shell command",
        description: "Runs a command line with /bin/sh in the session's sandbox, in its working \
                      directory, and returns output and exit code.",
        input: || {
            json!({
                "command": {"type": "string", "description": "The command line."},
                "session": session_or_new(),
                "timeout_ms": timeout(),
                "cwd": {"type": "string", "description": "Directory in the working directory."},
                "stdin": {"type": "string", "description": "Text for its standard input."},
            })
        },
        required: &["command"],
        output: Some(outcome::schema),
        effect: Effect::Changes,
    },
    Tool {
        name: INSTALL,
        title: "Install Python packages",
        description: "Installs packages with pip into the session. They can be imported from the next \
                      run_python call on, and end with the session.",
        input: || {
            json!({
                "packages": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": 100,
                    "description": "Requirements as pip takes them: \"pandas\", \"numpy<3\".",
                },
                "session": session_or_new(),
                "timeout_ms": timeout(),
            })
        },
        required: &["packages"],
        output: Some(outcome::schema),
        effect: Effect::Changes,
    },
    Tool {
        name: "write_file",
        title: "Write a file",
        description: "Writes a file into the session's working directory, and replaces what is there.",
        input: || {
            json!({
                "path": file_path(),
                "text": {"type": "string", "description": "The content as text."},
                "data": {"type": "string", "description": "The content in base64, instead of text."},
                "session": session_or_new(),
            })
        },
        required: &["path"],
        output: Some(|| {
            object(json!({
                "session": {"type": "string"},
                "path": {"type": "string"},
                "size_bytes": {"type": "integer"},
                "uri": {"type": "string"},
            }))
        }),
        effect: Effect::Destroys,
    },
    Tool {
        name: "read_file",
        title: "Read a file",
        description: "Returns the content of a file: text, an image, or base64. Of a long file the \
                      first 64 KiB, unless max_bytes says more.",
        input: || {
            json!({
                "session": session(),
                "path": file_path(),
                "offset": {"type": "integer", "minimum": 0, "description": "The first byte to read."},
                "max_bytes": {"type": "integer", "minimum": 1, "maximum": 4_194_304},
            })
        },
        required: &["session", "path"],
        output: None,
        effect: Effect::Reads,
    },
    Tool {
        name: "list_files",
        title: "List files",
        description: "Lists the files in the session's working directory.",
        input: || {
            json!({
                "session": session(),
                "path": {"type": "string", "description": "A directory; the working directory if left out."},
                "recursive": {"type": "boolean"},
                "after": after(),
            })
        },
        required: &["session"],
        output: Some(|| list_of("files", &["path", "kind", "modified_at"], "size_bytes")),
        effect: Effect::Reads,
    },
    Tool {
        name: "list_sessions",
        title: "List sessions",
        description: "Lists the sessions that exist, with their state and when they were last used.",
        input: || json!({"after": after()}),
        required: &[],
        output: Some(|| {
            let members =
                ["session", "state", "environment", "created_at", "last_used_at", "expires_at"];
            list_of("sessions", &members, "")
        }),
        effect: Effect::Reads,
    },
    Tool {
        name: "reset_session",
        title: "Reset a session",
        description: "Gives the session a fresh Python: variables, imports and running code are gone, \
                      files are kept.",
        input: || json!({"session": session()}),
        required: &["session"],
        output: Some(|| object(json!({"session": {"type": "string"}}))),
        effect: Effect::Destroys,
    },
    Tool {
        name: "end_session",
        title: "End a session",
        description: "Ends the session and deletes its files.",
        input: || json!({"session": session()}),
        required: &["session"],
        output: Some(|| object(json!({"session": {"type": "string"}}))),
        effect: Effect::Destroys,
    },
];

fn session_or_new() -> Value {
    json!({
        "type": "string",
        "description": "Id of a session from an earlier answer. Left out, a new session is started.",
    })
}

fn session() -> Value {
    json!({"type": "string", "description": "Id of the session."})
}

fn timeout() -> Value {
    json!({"type": "integer", "minimum": 1, "description": "Milliseconds it may run; 30 s by default."})
}

fn file_path() -> Value {
    json!({"type": "string", "description": "Relative to the working directory."})
}

fn after() -> Value {
    json!({"type": "string", "description": "`next` of the answer before, for the next part."})
}

/// An object that has all of these members.
fn object(properties: Value) -> Value {
    let required: Vec<_> =
        properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// A list of objects with members that are strings, and one that is a number; and where it goes on.
fn list_of(name: &str, strings: &[&str], number: &str) -> Value {
    let string = json!({"type": "string"});
    let mut members: Map<_, _> =
        strings.iter().map(|member| ((*member).to_owned(), string.clone())).collect();
    if !number.is_empty() {
        members.insert(number.to_owned(), json!({"type": "integer"}));
    }
    object(json!({
        name: {"type": "array", "items": object(Value::Object(members))},
        "next": {"type": ["string", "null"]},
    }))
}
