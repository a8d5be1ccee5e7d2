//! Tools that run something.

use http::Method;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep_until;
use vivarium_api_types::{ExecutionInfo, Outcome, OutputEvent, StartedEvent};
use vivarium_client::{Decoder, path};
use vivarium_protocol::outcome::Status;

use super::{Answer, Given, Place, Progress, arguments, said, wrong};
use crate::dialects::mcp::outcome::{self, MAX_TEXT_CHARS};
use crate::dialects::mcp::progress::Report;
use crate::dialects::native::{self, Call, Native, Refusal};

/// The largest event without the content of displays.
const MAX_EVENT_BYTES: usize = 32 << 20;

/// Packages of one call.
const MAX_PACKAGES: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Python {
    code: String,
    session: Option<String>,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Command {
    command: String,
    session: Option<String>,
    timeout_ms: Option<u64>,
    cwd: Option<String>,
    stdin: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packages {
    packages: Vec<String>,
    session: Option<String>,
    timeout_ms: Option<u64>,
}

pub(super) async fn python<N: Native>(
    native: &N,
    given: Value,
    progress: Option<&Progress>,
) -> Given<N::Room> {
    let Python { code, session, timeout_ms } = arguments(given)?;
    let place = super::place(native, session);
    let mut at = format!("{}/execute", path::session(&place.id));
    if place.is_ours {
        path::add(&mut at, "create", true);
    }
    execute(place, at, json!({"code": code}), timeout_ms, progress).await
}

/// Runs code in a session, which is made if there is none, and gives the outcome as one text.
pub(super) async fn in_session<N: Native>(native: &N, session: &str, code: &str) -> Given<N::Room> {
    let mut at = format!("{}/execute", path::session(session));
    path::add(&mut at, "create", true);
    let body = json!({
        "code": code, "cancel_on_disconnect": true, "max_output_chars": MAX_TEXT_CHARS,
    });
    let call = Call::new(Method::POST, at).json(&body);
    let (outcome, room) = native::json::<N, Outcome>(native, call).await?;
    let result = said(&outcome::text(&outcome), outcome.status != Status::Ok);
    Ok(Answer { result, room: Some(room) })
}

pub(super) async fn command<N: Native>(
    native: &N,
    given: Value,
    progress: Option<&Progress>,
) -> Given<N::Room> {
    let Command { command, session, timeout_ms, cwd, stdin } = arguments(given)?;
    let mut body = json!({"shell": command});
    for (name, value) in [("cwd", cwd), ("stdin", stdin)] {
        set(&mut body, name, value);
    }
    beside(super::place(native, session), body, timeout_ms, progress).await
}

pub(super) async fn install<N: Native>(
    native: &N,
    given: Value,
    progress: Option<&Progress>,
) -> Given<N::Room> {
    let Packages { packages, session, timeout_ms } = arguments(given)?;
    if packages.is_empty() || packages.len() > MAX_PACKAGES {
        return Err(wrong("packages", "name 1 to 100 packages"));
    }
    if packages.iter().any(|package| package.trim().is_empty()) {
        return Err(wrong("packages", "a package has a name"));
    }
    // What follows `--` is never an option of pip.
    let argv = ["pip", "install", "--disable-pip-version-check", "--"].map(str::to_owned);
    let argv: Vec<_> = argv.into_iter().chain(packages).collect();
    beside(super::place(native, session), json!({"argv": argv}), timeout_ms, progress).await
}

/// Runs a command in a session.
async fn beside<N: Native>(
    place: Place<N>,
    body: Value,
    timeout_ms: Option<u64>,
    progress: Option<&Progress>,
) -> Given<N::Room> {
    place.make().await?;
    let at = format!("{}/commands", path::session(&place.id));
    execute(place, at, body, timeout_ms, progress).await
}

fn set(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let (Some(value), Some(members)) = (value, body.as_object_mut()) {
        members.insert(name.to_owned(), value.into());
    }
}

/// Runs something, and gives its outcome. It ends if nobody waits for it any more.
async fn execute<N: Native>(
    mut place: Place<N>,
    at: String,
    mut body: Value,
    timeout_ms: Option<u64>,
    progress: Option<&Progress>,
) -> Given<N::Room> {
    set(&mut body, "timeout_ms", timeout_ms);
    set(&mut body, "cancel_on_disconnect", Some(true));
    let (outcome, room) = match progress {
        None => {
            set(&mut body, "max_output_chars", Some(MAX_TEXT_CHARS));
            let call = Call::new(Method::POST, at).json(&body);
            native::json::<N, Outcome>(&place.native, call).await?
        }
        Some(progress) => {
            // What the events have of displays would only be thrown away.
            set(&mut body, "answer", Some(json!({"content": "sizes"})));
            let call = Call::new(Method::POST, at).json(&body);
            followed(&place.native, call, progress).await?
        }
    };
    place.keep();
    Ok(Answer { result: outcome::told(outcome), room: Some(room) })
}

/// Runs something, tells of it as it goes, and gives its outcome.
async fn followed<N: Native>(
    native: &N,
    call: Call,
    progress: &Progress,
) -> Result<(Outcome, N::Room), Refusal> {
    let at = end_of(native, call, progress).await?;
    let (info, room) = native::json::<N, ExecutionInfo>(native, Call::new(Method::GET, at)).await?;
    let outcome = info.outcome.map(std::sync::Arc::unwrap_or_clone);
    let outcome = outcome.ok_or_else(|| Refusal::unreachable("the execution has no outcome"))?;
    Ok((outcome, room))
}

/// Runs something to its end, and gives the path of its outcome.
async fn end_of<N: Native>(native: &N, call: Call, progress: &Progress) -> Result<String, Refusal> {
    let broken = |why: &dyn std::fmt::Display| Refusal::unreachable(format!("the events: {why}"));
    let mut body = native::streamed(native, call).await?;
    let (mut decoder, mut report) = (Decoder::new(MAX_EVENT_BYTES), Report::new(progress));
    loop {
        while let Some(event) = decoder.next_event() {
            match event.event.as_str() {
                "stdout" | "stderr" => {
                    let printed: OutputEvent<'_> =
                        serde_json::from_slice(&event.data).map_err(|error| broken(&error))?;
                    report.printed(&printed.text);
                }
                "awaiting_approval" => report.printed("[waits until somebody allows it]\n"),
                "done" => {
                    // Both begin with these two.
                    let done: StartedEvent<'_> =
                        serde_json::from_slice(&event.data).map_err(|error| broken(&error))?;
                    let mut at = path::execution(&done.session_id, &done.execution_id);
                    path::add(&mut at, "max_output_chars", MAX_TEXT_CHARS);
                    return Ok(at);
                }
                _ => {}
            }
        }
        tokio::select! {
            frame = body.frame() => match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        decoder.feed(&data).map_err(|error| broken(&error))?;
                    }
                }
                Some(Err(error)) => return Err(broken(&error)),
                None => return Err(broken(&"cut off before the end")),
            },
            () = sleep_until(report.due()) => report.tell(),
        }
    }
}
