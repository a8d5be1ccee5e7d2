//! Contexts: kernels of one sandbox, by where they begin and how much they have executed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_api_types::Outcome;
use vivarium_client::path;
use vivarium_protocol::outcome::Status;

use super::super::errors::bad;
use super::super::{Client, control, paths};
use super::PYTHON;
use crate::dialects::native::{self, Call, Native, Refusal};

/// The context of those who name none.
pub(super) const MAIN: &str = "main";

/// Contexts that are kept: a session has fewer.
const MAX: usize = 64;

#[derive(Debug)]
struct Kept {
    cwd: String,
    executions: u64,
}

/// The contexts of a sandbox.
#[derive(Debug, Default)]
pub(in super::super) struct Contexts(Mutex<BTreeMap<String, Kept>>);

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of an execution that begins.
    pub(super) fn begin(&self, id: &str) -> u64 {
        let mut all = self.lock();
        if all.len() >= MAX && !all.contains_key(id) {
            return 1;
        }
        let kept = all
            .entry(id.to_owned())
            .or_insert_with(|| Kept { cwd: paths::HOME.to_owned(), executions: 0 });
        kept.executions += 1;
        kept.executions
    }

    /// Counts from 1 again.
    pub(super) fn restarted(&self, id: &str) {
        if let Some(kept) = self.lock().get_mut(id) {
            kept.executions = 0;
        }
    }

    fn opened(&self, id: &str, cwd: &str) {
        let mut all = self.lock();
        if all.len() < MAX {
            all.insert(id.to_owned(), Kept { cwd: cwd.to_owned(), executions: 0 });
        }
    }

    pub(super) fn cwd(&self, id: &str) -> String {
        self.lock().get(id).map_or_else(|| paths::HOME.to_owned(), |kept| kept.cwd.clone())
    }
}

#[derive(Deserialize)]
struct Opened {
    id: String,
}

#[derive(Deserialize)]
struct List {
    contexts: Vec<Opened>,
}

fn at(sandbox: &str, rest: &[&str]) -> String {
    // Ids of contexts are plain; another is refused as unknown.
    let plain = |part: &&str| part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let rest: Vec<&str> = rest.iter().map(|part| if plain(part) { *part } else { "-" }).collect();
    let contexts = format!("{}/contexts", path::session(sandbox));
    rest.iter().fold(contexts, |at, part| format!("{at}/{part}"))
}

fn told<N: Native>(client: &Client<N>, id: &str) -> Value {
    json!({"id": id, "language": PYTHON, "cwd": client.sandbox.contexts.cwd(id)})
}

pub(super) async fn list<N: Native>(client: &Client<N>) -> Result<Response, Refusal> {
    let call = Call::new(Method::GET, at(&client.sandbox.id, &[]));
    let (list, _) = native::json::<N, List>(&client.native, call).await?;
    let told: Vec<_> = list.contexts.iter().map(|context| told(client, &context.id)).collect();
    Ok(Json(told).into_response())
}

pub(super) async fn open<N: Native>(client: &Client<N>, cwd: &str) -> Result<Response, Refusal> {
    let sandbox = &client.sandbox.id;
    let call = Call::new(Method::POST, at(sandbox, &[])).json(&json!({}));
    let (opened, _) = native::json::<N, Opened>(&client.native, call).await?;
    if cwd != paths::HOME
        && let Err(refusal) = enter(client, &opened.id, cwd).await
    {
        let call = Call::new(Method::DELETE, at(sandbox, &[&opened.id]));
        native::whole(&client.native, call).await?;
        return Err(refusal);
    }
    client.sandbox.contexts.opened(&opened.id, cwd);
    Ok(Json(told(client, &opened.id)).into_response())
}

/// Has the code of a context begin in a directory.
async fn enter<N: Native>(client: &Client<N>, context: &str, cwd: &str) -> Result<(), Refusal> {
    // A string of JSON is one of Python.
    let cwd = Value::from(cwd);
    let code = format!(
        "(lambda os: (os.makedirs({cwd}, exist_ok=True), os.chdir({cwd})) and None)(__import__('os'))"
    );
    let body = json!({"code": code, "context": context, "env": control::home_env()});
    let at = format!("{}/execute", path::session(&client.sandbox.id));
    let call = Call::new(Method::POST, at).json(&body);
    let (outcome, _) = native::json::<N, Outcome>(&client.native, call).await?;
    if outcome.status == Status::Ok {
        return Ok(());
    }
    let why = outcome.exception.map_or(outcome.detail.to_string(), |exception| exception.message);
    Err(bad("cwd", why))
}

pub(super) async fn remove<N: Native>(
    client: &Client<N>,
    context: &str,
) -> Result<Response, Refusal> {
    let call = Call::new(Method::DELETE, at(&client.sandbox.id, &[context]));
    native::whole(&client.native, call).await?;
    drop(client.sandbox.contexts.lock().remove(context));
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn restart<N: Native>(
    client: &Client<N>,
    context: &str,
) -> Result<Response, Refusal> {
    let call = Call::new(Method::POST, at(&client.sandbox.id, &[context, "reset"]));
    native::whole(&client.native, call).await?;
    client.sandbox.contexts.restarted(context);
    let cwd = client.sandbox.contexts.cwd(context);
    if cwd != paths::HOME {
        enter(client, context, &cwd).await?;
    }
    Ok(Json(told(client, context)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_counted_per_context() {
        let contexts = Contexts::default();
        assert_eq!((contexts.begin("a"), contexts.begin("a"), contexts.begin("b")), (1, 2, 1));
        contexts.restarted("a");
        assert_eq!(contexts.begin("a"), 1);
    }

    #[test]
    fn ids_stay_one_part_of_the_path() {
        assert_eq!(at("i1", &["a-1", "reset"]), "/v1/sessions/i1/contexts/a-1/reset");
        assert_eq!(at("i1", &["..%2Fx"]), "/v1/sessions/i1/contexts/-");
    }
}
