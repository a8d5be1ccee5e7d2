//! `POST /exec`: runs code in a fresh kernel, beside the files of its session.

use axum::body::Bytes;
use axum::response::Response;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_api_types::Outcome;
use vivarium_client::path;
use vivarium_protocol::outcome::Status;

use super::{bad, files, place};
use crate::dialects::held;
use crate::dialects::native::{self, Call, Native, Refusal};
use crate::dialects::place::Place;
use crate::off_thread;

/// The most files that one call brings along.
const MAX_FILES: usize = 100;

/// Members that other versions of the client send are passed over.
#[derive(Deserialize)]
struct Exec {
    lang: String,
    code: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    session_id: Option<String>,
    #[serde(default)]
    files: Option<Vec<Reference>>,
}

/// A file of a session, which may be another than that of the call. Older clients name the session
/// `session_id`; what an answer has of a file comes back with both.
#[derive(Deserialize)]
struct Reference {
    id: String,
    name: String,
    storage_session_id: Option<String>,
    session_id: Option<String>,
}

/// Answers a request to run code.
///
/// # Errors
/// [`Refusal`] if nothing was run. What goes wrong in the code is an answer.
pub async fn exec<N: Native>(native: &N, body: &Bytes) -> Result<Response, Refusal> {
    let Exec { lang, code, args, session_id, files } =
        off_thread::from_slice(body).await.map_err(|error| bad("body", &error.to_string()))?;
    let is_python = match lang.as_str() {
        "py" | "python" => true,
        "bash" | "sh" => false,
        other => return Err(bad("lang", &format!("{other:?} is not here: use py or bash"))),
    };
    let files = files.unwrap_or_default();
    if files.len() > MAX_FILES {
        return Err(bad("files", &format!("at most {MAX_FILES}")));
    }
    let mut place = place(native, session_id.filter(|id| !id.is_empty()));
    prepare(&place, is_python).await?;
    for file in &files {
        let from = file.storage_session_id.as_ref().or(file.session_id.as_ref());
        let from = from.ok_or_else(|| bad("files", "a file has a storage_session_id"))?;
        files::copy(native, from, &file.id, &place.id, &file.name).await?;
    }
    let args = args.unwrap_or_default();
    let outcome = if is_python {
        if !args.is_empty() {
            // On its own, so that lines of the code keep their numbers. JSON's lists of strings are
            // Python's.
            let code = format!("import sys; sys.argv = ['', *{}]", Value::from(args));
            run(&place, "execute", &json!({"code": code})).await?;
        }
        run(&place, "execute", &json!({"code": code, "cancel_on_disconnect": true})).await?
    } else {
        let argv = ["bash", "-c", &code, "bash"].map(str::to_owned).into_iter().chain(args);
        let body = json!({"argv": argv.collect::<Vec<_>>(), "cancel_on_disconnect": true});
        run(&place, "commands", &body).await?
    };
    place.keep();
    let (outcome, room) = outcome;
    Ok(held::json(&told(&outcome), room))
}

/// Has the session there, without variables of earlier calls.
async fn prepare<N: Native>(place: &Place<N>, is_python: bool) -> Result<(), Refusal> {
    if is_python && !place.is_ours {
        let at = format!("{}/reset", path::session(&place.id));
        drop(native::whole(&place.native, Call::new(Method::POST, at)).await?);
    }
    place.make().await
}

async fn run<N: Native>(
    place: &Place<N>,
    route: &str,
    body: &Value,
) -> Result<(Outcome, N::Room), Refusal> {
    let at = format!("{}/{route}", path::session(&place.id));
    native::json(&place.native, Call::new(Method::POST, at).json(body)).await
}

fn told(outcome: &Outcome) -> Value {
    let mut stdout = outcome.stdout.clone();
    if let Some(result) = &outcome.result {
        stdout.push_str(&result.repr);
        stdout.push('\n');
    }
    let mut stderr = outcome.stderr.clone();
    let mut add = |text: &str| {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(text);
    };
    if let Some(exception) = &outcome.exception {
        add(&exception.traceback);
    } else if outcome.status != Status::Ok {
        match outcome.exit_code {
            Some(code) => add(&format!("[exit code {code}]")),
            None => add(&format!("[not finished: {}]", outcome.detail)),
        }
    }
    let session = &outcome.session_id;
    let changed = |is_deleted: bool| {
        outcome.files_changed.iter().filter(move |file| file.deleted == is_deleted)
    };
    let files: Vec<_> = changed(false)
        .map(|file| {
            json!({
                "id": files::id(session, &file.name), "name": file.name, "path": file.name,
                "storage_session_id": session, "session_id": session,
            })
        })
        .collect();
    let deleted: Vec<_> = changed(true).map(|file| file.name.as_str()).collect();
    json!({
        "session_id": session, "stdout": stdout, "stderr": stderr, "files": files,
        "deleted_files": deleted,
    })
}
