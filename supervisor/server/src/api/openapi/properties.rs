//! Descriptions of properties whose schemas have none: those that refer to another schema, and
//! those whose schemas are not derived. One name means one thing in all of the API.

use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Schema};
use utoipa::openapi::{OpenApi, RefOr};
use vivarium_api_types::LimitsSpec;

/// Describes every property that is not described yet.
pub(super) fn describe(document: &mut OpenApi) {
    let schemas = document.components.iter_mut().flat_map(|parts| &mut parts.schemas);
    for (name, schema) in schemas {
        within(schema);
        fill(schema, of_schema(name));
    }
}

/// Describes the properties of a schema, at any depth.
fn within(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            for (name, property) in &mut object.properties {
                within(property);
                fill(property, of_property(name));
            }
            if let Some(AdditionalProperties::RefOr(values)) =
                object.additional_properties.as_deref_mut()
            {
                within(values);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                within(items);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().for_each(within),
        Schema::AllOf(all) => all.items.iter_mut().for_each(within),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(within),
        _ => {}
    }
}

/// Sets a description where there is none.
fn fill(schema: &mut RefOr<Schema>, description: Option<&str>) {
    let Some(text) = description else { return };
    let empty = match schema {
        RefOr::Ref(reference) => {
            if reference.description.is_empty() {
                text.clone_into(&mut reference.description);
            }
            return;
        }
        RefOr::T(Schema::Object(object)) => &mut object.description,
        RefOr::T(Schema::Array(array)) => &mut array.description,
        RefOr::T(Schema::OneOf(one)) => &mut one.description,
        RefOr::T(Schema::AllOf(all)) => &mut all.description,
        RefOr::T(Schema::AnyOf(any)) => &mut any.description,
        RefOr::T(_) => return,
    };
    empty.get_or_insert_with(|| text.to_owned());
}

fn of_schema(name: &str) -> Option<&'static str> {
    Some(match name {
        "Capacity" => "What the tenant may still start",
        "Display" => "An object that code passed to `display()`",
        "EncodedImage" => "An image, such as a figure",
        "ExecutionUsage" => "What an execution used",
        "KernelInfo" => "The kernel that an execution ran in",
        "SessionInfo" => "A session",
        "SessionState" => "What a session is doing",
        "SessionUsage" => "What a session has used so far",
        "ValueInfo" => "The value of a final expression",
        _ => return None,
    })
}

fn of_property(name: &str) -> Option<&'static str> {
    if let Some((_, text)) = LimitsSpec::DESCRIPTIONS.iter().find(|(limit, _)| *limit == name) {
        return Some(text);
    }
    Some(match name {
        "max_buffered_bytes" => "The most that it may hold of them",
        "paused" => "Since when and why new work is refused; null if it is not",
        "paused_tenants" => "The tenants that are paused by themselves",
        "audit_events" => {
            "Counts Python's audit events (PEP 578), and raises an error for those in `deny`"
        }
        "echo" => {
            "Whose values are shown: of the `last` expression if not given, of `all`, or `none`"
        }
        "imports" => "Which modules code may import itself: `allow` or `deny`",
        "names" => "Which names it leaves to the next execution: `keep` or `drop`",
        "policy" => "Policies of the language by one name: what holds that the others do not say",
        "at" => "When it happened",
        "failed_reload" => "Why the last reload changed nothing; null after one that succeeded",
        "started_at" => "When it was started",
        "uptime_seconds" => "How long it has run",
        "processes" => "Processes and threads now",
        "memory_bytes" => "Memory charged now",
        "tokens" => "Its tokens, as they are configured",
        "exit" => "Whether the daemon ends too",
        "flushed_at" => "When it was last written; null if it was not yet",
        "since" => "Since when",
        "scope" => "The scope that the token lacks",
        "scopes" => "What it may do",
        "expires" => "When it is refused from; null if never",
        "expired" => "Whether it is refused",
        "from" => "The beginning",
        "to" => "The end",
        "start" => "The beginning of the period",
        "end" => "The end of the period",
        "cpu_seconds" => "CPU time",
        "cpu_source" => "How CPU time was measured; null if it was not",
        "memory_source" => "How memory was measured; null if it was not",
        "approval" => "What somebody has to allow first: no less than the rule that holds",
        "answer" => "How the answer tells what came of it; in separate fields if not given",
        "calls" => "Calls that wait for an answer, in the order in which they were made",
        "capacity" => "What the tenant may still start",
        "cause" => "Why it ended so, if the status alone does not say; else null",
        "checkpoint" => "Which checkpoints it has, as `images.checkpoint` says if not given",
        "code" => "The Python code",
        "created_at" => "When it was created",
        "detail" => "What happened, in words; may be empty",
        "egress" => {
            "The destination that is to be reached; null where something is to run. In rules: what becomes of \
             destinations that are on no list"
        }
        "environment" => "Name of the environment",
        "environments" => "The interpreters that sessions can use, ordered by name",
        "executions" => {
            "What becomes of code and commands; as the rule that holds says if not given"
        }
        "error" => "What the call raises, as `vivarium.ToolError`",
        "execution" => "What is to run; null where a destination is to be reached",
        "exception" => "The uncaught exception; null if there was none",
        "fix" => "What an operator can do about it; may be empty",
        "format" => "How the content is encoded; null if that depends on the content",
        "home" => "Whose home it has at `/home/sandbox`",
        "homes" => "The tenant's homes",
        "image" => "What there is of it on disk; absent unless it is suspended",
        "id" => "Unique among the tenant's sessions",
        "kernel" => "The kernel that it ran in; null if it was rejected before there was one",
        "kernel_origin" => {
            "Whether the kernel was `forked` from the environment's template or `executed`; null \
             before there is one. Both are confined alike"
        }
        "kind" => "What it is",
        "layer" => "Name of the layer, such as `seccomp`",
        "layers" => {
            "Every layer of the sandbox, as a trial session of the default environment reported it"
        }
        "limits" => "Limits of the session",
        "max_sessions" => "The tenant's maximum of sessions",
        "memory" => "Memory for more sessions",
        "message" => "The text of the exception",
        "name" => "Its name",
        "network" => {
            "What the session can reach: nothing (`none`), itself (`loopback`) or what the host can \
             (`full`)"
        }
        "output_type" => "Which kind of output it is",
        "execution_id" => "Unique within the session",
        "outcome" => {
            "Null until it is over. A streamed execution keeps at most the first 256 KiB of each of stdout and stderr"
        }
        "pty" => {
            "Run it on a terminal of this size, its controlling one: all it prints is then its `stdout`. What \
             is written to it is typed there, so Ctrl-C is the byte 3; closing it types Ctrl-D. `TERM` is \
             `xterm-256color` unless `env` has it"
        }
        "pool" => "Sessions kept ready; null if none are",
        "vivarium" => "Where the content is in the separate fields, and how large",
        "previous_end" => "Why the previous kernel ended; null for the first",
        "protection" => "Every layer of the sandbox, as read back from inside",
        "remember" => {
            "What is remembered of the decision; what the tenant's rule says if not given"
        }
        "repr" => "`repr()` of the value",
        "result" => "The value of the final expression; null if there was none",
        "session_id" => "The session's id",
        "sessions" => "The sessions, ordered by id",
        "size_bytes" => "Size in bytes",
        "source" => "Where the value came from",
        "state" => "The state: of an outcome, whether variables and modules survived",
        "status" => "How it ended, or how far it is enforced",
        "stderr" => "What was written to standard error; bytes that are not UTF-8 are replaced",
        "stdout" => "What was written to standard output; bytes that are not UTF-8 are replaced",
        "template" => "The process that kernels are forked from",
        "tenant" => "The tenant that owns it",
        "tenant_sources" => {
            "Tenants from a directory or a command; null if all are in the configuration file"
        }
        "tenants" => "The tenants, ordered by name",
        "traceback" => "The traceback, as Python prints it",
        "type" => "Name of the class",
        "usage" => "What it used",
        "version" => "Version of the daemon",
        "storage" => "What it takes of the disk",
        "volumes" => "Volumes, by their names",
        _ => return None,
    })
}
