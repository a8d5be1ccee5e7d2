//! Tools for sessions themselves.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_api_types::SessionPage;
use vivarium_client::path;

use super::{Answer, Given, arguments, both};
use crate::dialects::native::{self, Call, Native};

/// Sessions of one list.
const MAX_SESSIONS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    session: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    after: Option<String>,
}

pub(super) async fn list<N: Native>(native: &N, given: Value) -> Given<N::Room> {
    let List { after } = arguments(given)?;
    let mut at = format!("/v1/sessions?limit={MAX_SESSIONS}");
    if let Some(after) = after {
        path::add(&mut at, "after", after);
    }
    let (page, room) = native::json::<N, SessionPage>(native, Call::new(Method::GET, at)).await?;
    let sessions: Vec<_> = page
        .sessions
        .iter()
        .map(|session| {
            json!({
                "session": session.id,
                "state": session.state,
                "environment": session.environment,
                "created_at": session.created_at.to_string(),
                "last_used_at": session.last_used_at.to_string(),
                "expires_at": session.expires_at.to_string(),
            })
        })
        .collect();
    let lines: Vec<_> = page
        .sessions
        .iter()
        .map(|session| {
            let state: &str = session.state.into();
            format!("{}  {state}, last used {}", session.id, session.last_used_at)
        })
        .collect();
    let more = if page.next.is_some() { "\n[there are more: pass `after`]" } else { "" };
    let told = if lines.is_empty() { "there are no sessions".to_owned() } else { lines.join("\n") };
    let structured = json!({"sessions": sessions, "next": page.next});
    Ok(Answer { result: both(&(told + more), structured), room: Some(room) })
}

pub(super) async fn reset<N: Native>(native: &N, given: Value) -> Given<N::Room> {
    let One { session } = arguments(given)?;
    let call = Call::new(Method::POST, format!("{}/reset", path::session(&session)));
    let whole = native::whole(native, call).await?;
    let told =
        format!("{session} has a fresh kernel: variables and imports are gone, files are kept");
    Ok(Answer { result: both(&told, json!({"session": session})), room: Some(whole.room) })
}

pub(super) async fn end<N: Native>(native: &N, given: Value) -> Given<N::Room> {
    let One { session } = arguments(given)?;
    let whole = native::whole(native, Call::new(Method::DELETE, path::session(&session))).await?;
    let told = format!("{session} has ended, and its files are gone");
    Ok(Answer { result: both(&told, json!({"session": session})), room: Some(whole.room) })
}
