//! What scenarios ask of a daemon.

use hyper::Method;
use serde_json::{Value, json};
use vivarium_protocol::outcome::Status;

use crate::bench::BenchError;
use crate::client::{Client, Event, Execution};
use crate::engine::types::Outcome;

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

/// Executes `1+1`, and takes no other answer than 2.
pub(super) async fn two(
    client: &mut Client,
    path: &str,
    what: &'static str,
) -> Result<(), BenchError> {
    let outcome: Outcome = client.json(Method::POST, path, Some(&json!({ "code": "1+1" }))).await?;
    let found = outcome.result.as_ref().map(|value| value.repr.as_str());
    if found == Some("2") { Ok(()) } else { Err(unexpected(what, &outcome)) }
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

/// Ends a session.
pub(super) async fn delete(client: &mut Client, session: &str) -> Result<(), BenchError> {
    let path = format!("/v1/sessions/{session}");
    client.json::<Value>(Method::DELETE, &path, None::<&()>).await?;
    Ok(())
}

/// The error for what should have come and did not.
pub(super) fn unexpected(what: &'static str, found: &impl std::fmt::Debug) -> BenchError {
    BenchError::Unexpected { what, found: format!("{found:?}") }
}
