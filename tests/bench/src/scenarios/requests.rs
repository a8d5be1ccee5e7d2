//! The requests that scenarios send.

use serde_json::{Value, json};
use vivarium_api_types::{Outcome, ResetReply, SessionInfo};
use vivarium_client::{Client, Event, Execution, Method};
use vivarium_protocol::message::Origin;
use vivarium_protocol::outcome::Status;

use crate::BenchError;

/// Executes code in a session, which is made for it if it is not there.
pub(super) async fn execute(
    client: &mut Client,
    session: &str,
    code: &str,
    what: &'static str,
) -> Result<Outcome, BenchError> {
    let path = format!("/v1/sessions/{session}/execute?create=true");
    let outcome: Outcome = client.json(Method::POST, &path, Some(&json!({ "code": code }))).await?;
    if outcome.status == Status::Ok { Ok(outcome) } else { Err(unexpected(what, &outcome)) }
}

/// Executes `1+1` in a session that is there, and takes no other answer than 2.
pub(super) async fn two(
    client: &mut Client,
    session: &str,
    what: &'static str,
) -> Result<(), BenchError> {
    gives(client, session, "1+1", "2", what).await
}

/// Executes code in a session that is there, and takes no other answer than this.
pub(super) async fn gives(
    client: &mut Client,
    session: &str,
    code: &str,
    expected: &str,
    what: &'static str,
) -> Result<(), BenchError> {
    gives_at(client, &format!("/v1/sessions/{session}/execute"), code, expected, what).await
}

/// Makes a session by executing code there that gives 2, and takes no other answer.
pub(super) async fn create(
    client: &mut Client,
    session: &str,
    code: &str,
    what: &'static str,
) -> Result<(), BenchError> {
    let path = format!("/v1/sessions/{session}/execute?create=true");
    gives_at(client, &path, code, "2", what).await
}

async fn gives_at(
    client: &mut Client,
    path: &str,
    code: &str,
    expected: &str,
    what: &'static str,
) -> Result<(), BenchError> {
    let outcome: Outcome = client.json(Method::POST, path, Some(&json!({ "code": code }))).await?;
    let found = outcome.result.as_ref().map(|value| value.repr.as_str());
    if found == Some(expected) { Ok(()) } else { Err(unexpected(what, &outcome)) }
}

/// Runs `print(1)` in a session of its own.
pub(super) async fn run(client: &mut Client, what: &'static str) -> Result<(), BenchError> {
    let body = json!({ "code": "print(1)" });
    let outcome: Outcome = client.json(Method::POST, "/v1/run", Some(&body)).await?;
    if outcome.stdout == "1\n" { Ok(()) } else { Err(unexpected(what, &outcome)) }
}

/// Gives a session a new kernel.
pub(super) async fn reset(client: &mut Client, session: &str) -> Result<(), BenchError> {
    let path = format!("/v1/sessions/{session}/reset");
    client.json::<ResetReply>(Method::POST, &path, None::<&()>).await?;
    Ok(())
}

/// Executes code in a session that is there, and gives what it prints to `printed` as it arrives.
pub(super) async fn follow(
    client: Client,
    session: &str,
    code: &str,
    what: &'static str,
    mut printed: impl FnMut(&str),
) -> Result<(), BenchError> {
    let path = format!("/v1/sessions/{session}/execute");
    let body = json!({ "code": code }).to_string().into_bytes();
    let mut execution = Execution::start(client, path, body).await?;
    while let Some(event) = execution.next().await? {
        match event {
            Event::Started(_) => {}
            Event::Stdout(text) => printed(&text),
            Event::Done(done) if done.status == Status::Ok => return Ok(()),
            other => return Err(unexpected(what, &other)),
        }
    }
    Err(unexpected(what, &"no end"))
}

/// Starts a command, and follows its events.
pub(super) async fn command(
    client: Client,
    session: &str,
    command: &Value,
) -> Result<Execution, BenchError> {
    let path = format!("/v1/sessions/{session}/commands");
    Ok(Execution::start(client, path, command.to_string().into_bytes()).await?)
}

/// What an execution prints next.
pub(super) async fn printed(
    execution: &mut Execution,
    what: &'static str,
) -> Result<String, BenchError> {
    loop {
        match execution.next().await? {
            Some(Event::Started(_)) => {}
            Some(Event::Stdout(text)) => return Ok(text),
            other => return Err(unexpected(what, &other)),
        }
    }
}

/// Whether a session's kernel was forked from a template.
pub(super) async fn is_forked(client: &mut Client, session: &str) -> Result<bool, BenchError> {
    let path = format!("/v1/sessions/{session}");
    let info: SessionInfo = client.json(Method::GET, &path, None::<&()>).await?;
    Ok(info.kernel_origin == Some(Origin::Forked))
}

pub(super) async fn delete(client: &mut Client, session: &str) -> Result<(), BenchError> {
    let path = format!("/v1/sessions/{session}");
    client.json::<Value>(Method::DELETE, &path, None::<&()>).await?;
    Ok(())
}

/// The error for what should have come and did not.
pub(super) fn unexpected(what: &'static str, found: &impl std::fmt::Debug) -> BenchError {
    BenchError::Unexpected { what, found: format!("{found:?}") }
}
