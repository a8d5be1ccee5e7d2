//! What is asked about an execution that needs approval: what is shown of it, and what makes another the
//! same.

use vivarium_api_types::{ApprovalExecution, ExecutionKind, MAX_SHOWN_BYTES};
use vivarium_audit::Hash;
use vivarium_protocol::message::{CommandSpec, ExecutionNumber, InputFile, Stdin, Work};

use super::{Identity, WorkSpec};
use crate::approvals::{ExecutionQuestion, Question, Subject};
use crate::settings::ApprovalRule;

/// The most names of files that are shown.
const MAX_SHOWN_FILES: usize = 100;

/// What holds for it at least, whatever the tenant's rule.
pub(crate) fn at_least(who: &Identity, spec: &WorkSpec) -> ApprovalRule {
    who.approval.executions.max(spec.approval).unwrap_or_default()
}

/// Of an execution that is about to be queued.
pub(crate) fn of_execution(who: &Identity, number: ExecutionNumber, spec: &WorkSpec) -> Question {
    let subject = Subject::Execution(Box::new(ExecutionQuestion {
        shown: shown(who, number, spec),
        digest: digest(who, spec),
        number,
    }));
    let (tenant, session) = (who.tenant.clone(), who.id.clone());
    Question { tenant, session, at_least: at_least(who, spec), subject }
}

fn shown(who: &Identity, number: ExecutionNumber, spec: &WorkSpec) -> ApprovalExecution {
    let (kind, code_sha256, code_bytes) = match &spec.work {
        Work::Code { code, .. } | Work::Assist { code, .. } => {
            (ExecutionKind::Code, Hash::of(code.as_bytes()), code.len())
        }
        // Nobody is asked about it.
        Work::Image(_) => (ExecutionKind::Code, Hash::of(b""), 0),
        Work::Command(CommandSpec { argv, .. }) => {
            let bytes = argv.iter().map(|argument| argument.len() + 1).sum();
            (ExecutionKind::Command, Hash::of_parts(argv.iter().map(String::as_str)), bytes)
        }
    };
    let (mut code, mut argv, mut env) = (None, None, Vec::new());
    match &spec.work {
        Work::Code { code: text, env: variables, .. } => {
            code = Some(beginning(text, MAX_SHOWN_BYTES).to_owned());
            env.extend(variables.iter().map(|(name, _)| name.clone()));
        }
        Work::Image(_) => {}
        Work::Assist { code: text, .. } => {
            code = Some(beginning(text, MAX_SHOWN_BYTES).to_owned());
        }
        Work::Command(CommandSpec { argv: arguments, env: variables, .. }) => {
            let mut left = MAX_SHOWN_BYTES;
            let shown = arguments.iter().map_while(|argument| {
                let part = beginning(argument, left);
                let is_any = left > 0;
                left = left.saturating_sub(argument.len() + 1);
                is_any.then(|| part.to_owned())
            });
            argv = Some(shown.collect());
            env.extend(variables.iter().map(|(name, _)| name.clone()));
        }
    }
    ApprovalExecution {
        id: number.to_string(),
        kind,
        code,
        argv,
        truncated: code_bytes > MAX_SHOWN_BYTES,
        code_sha256: code_sha256.to_string(),
        code_bytes: code_bytes as u64,
        environment: who.environment.clone(),
        network: who.network,
        env,
        files: spec.files.iter().take(MAX_SHOWN_FILES).map(|file| file.name.clone()).collect(),
        tools: spec.tools.iter().flat_map(|tools| tools.names()).map(str::to_owned).collect(),
        timeout_ms: u64::try_from(spec.timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Each part with its length before it, so that no two calls are alike by where a part ends.
fn digest(who: &Identity, spec: &WorkSpec) -> Hash {
    let network: &str = who.network.into();
    let mut parts: Vec<Vec<u8>> = vec![who.environment.clone().into(), network.into()];
    let add_env = |parts: &mut Vec<Vec<u8>>, env: &[(String, String)]| {
        parts.push(env.len().to_string().into());
        for (name, value) in env {
            parts.extend([name.clone().into(), value.clone().into()]);
        }
    };
    match &spec.work {
        Work::Code { code, filename, cwd, env, policy, .. } => {
            parts.extend([b"code".to_vec(), code.clone().into(), filename.clone().into()]);
            parts.push(format!("{cwd:?}").into());
            add_env(&mut parts, env);
            // The same code does something else where it is held to less.
            parts.push(serde_json::to_vec(policy).unwrap_or_default());
        }
        Work::Assist { code, .. } => parts.extend([b"assist".to_vec(), code.clone().into()]),
        Work::Image(_) => parts.push(b"image".to_vec()),
        Work::Command(CommandSpec { argv, stdin, cwd, env, background, pty, .. }) => {
            parts.extend([b"command".to_vec(), argv.len().to_string().into()]);
            parts.extend(argv.iter().map(|argument| argument.clone().into()));
            parts.push(match stdin {
                Stdin::Bytes(bytes) => [b"bytes", bytes.as_slice()].concat(),
                Stdin::Pipe => b"pipe".to_vec(),
            });
            parts.push(format!("{cwd:?} {background} {}", pty.is_some()).into());
            add_env(&mut parts, env);
        }
    }
    for InputFile { name, data } in &spec.files {
        parts.extend([name.clone().into(), data.clone()]);
    }
    // The same code does something else where it can call something else.
    if let Some(tools) = &spec.tools {
        parts.extend([b"tools".to_vec(), tools.declaration().to_vec()]);
    }
    let mut whole = Vec::new();
    for part in parts {
        whole.extend((part.len() as u64).to_le_bytes());
        whole.extend(part);
    }
    Hash::of(&whole)
}
