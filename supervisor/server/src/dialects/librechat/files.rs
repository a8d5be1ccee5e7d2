//! Files, by ids that are made of session and path and found again by a list of the session's files.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use vivarium_api_types::{FileInfo, FileList, FilesWritten};
use vivarium_client::path;
use vivarium_protocol::message::FileKind;

use super::super::form::Part;
use super::{ID_CHARS, bad, place, unknown_file};
use crate::dialects::held;
use crate::dialects::native::{self, Call, Content, Native, Refusal};

/// Files of one part of a list, and parts that are looked through.
const PAGE: u32 = 1000;
const MAX_PAGES: usize = 64;

/// The id of a file. It opens nothing: it is looked for among the files of a session that the caller has.
pub(super) fn id(session: &str, path: &str) -> String {
    let hash = Sha256::new().chain_update(session).chain_update([0]).chain_update(path).finalize();
    let mut id = URL_SAFE_NO_PAD.encode(hash);
    id.truncate(ID_CHARS);
    id
}

/// One part of the list of a session's files, and where the next begins.
async fn page<N: Native>(
    native: &N,
    session: &str,
    after: Option<&str>,
) -> Result<(Vec<FileInfo>, Option<String>, N::Room), Refusal> {
    let mut at = path::file(session, "");
    path::add(&mut at, "limit", PAGE);
    path::add(&mut at, "recursive", true);
    if let Some(after) = after {
        path::add(&mut at, "after", after);
    }
    let (list, room) = native::json::<N, FileList>(native, Call::new(Method::GET, at)).await?;
    let files = list.entries.into_iter().filter(|entry| entry.kind == FileKind::File);
    Ok((files.collect(), list.next, room))
}

async fn find<N: Native>(native: &N, session: &str, wanted: &str) -> Result<FileInfo, Refusal> {
    let mut after = None::<String>;
    for _ in 0..MAX_PAGES {
        let (files, next, _room) = page(native, session, after.as_deref()).await?;
        if let Some(file) = files.into_iter().find(|file| id(session, &file.path) == wanted) {
            return Ok(file);
        }
        let Some(next) = next else { break };
        after = Some(next);
    }
    Err(unknown_file(wanted))
}

/// Has a session's file in another session, under this name.
pub(super) async fn copy<N: Native>(
    native: &N,
    from: &str,
    wanted: &str,
    to: &str,
    name: &str,
) -> Result<(), Refusal> {
    let file = find(native, from, wanted).await?;
    if from == to && file.path == name {
        return Ok(());
    }
    let call = Call::new(Method::GET, path::file(from, &file.path));
    let whole = native::whole(native, call).await?;
    drop(write(native, to, name, &whole.body).await?);
    Ok(())
}

/// Writes a file, and gives its path as lists have it.
async fn write<N: Native>(
    native: &N,
    session: &str,
    name: &str,
    bytes: &[u8],
) -> Result<String, Refusal> {
    if name.is_empty() {
        return Err(bad("name", "a file has a name"));
    }
    let call = Call::new(Method::PUT, path::file(session, name));
    let call = Call { content: Content::Bytes(bytes.to_vec()), ..call };
    let (written, _room) = native::json::<N, FilesWritten>(native, call).await?;
    Ok(written.path)
}

/// Answers an upload, which goes into a session of its own.
///
/// # Errors
/// [`Refusal`] if a file was not written; then there is no session.
pub async fn upload<N: Native>(native: &N, parts: Vec<Part>) -> Result<Response, Refusal> {
    if parts.is_empty() {
        return Err(bad("file", "send a part that has a file name"));
    }
    let mut place = place(native, None);
    place.make().await?;
    let session = place.id.clone();
    let mut files = Vec::new();
    for Part { name, bytes } in parts {
        let path = write(native, &session, &name, &bytes).await?;
        let id = id(&session, &path);
        files.push(json!({"status": "success", "fileId": id, "filename": name}));
    }
    place.keep();
    let answer = json!({
        "message": "success", "storage_session_id": session, "session_id": session,
        "succeeded": files.len(), "failed": 0, "files": files,
    });
    Ok(Json(answer).into_response())
}

/// Answers with the content of a file.
///
/// # Errors
/// [`Refusal`], among others if there is no such file.
pub async fn download<N: Native>(
    native: &N,
    session: &str,
    wanted: &str,
) -> Result<Response, Refusal> {
    let file = find(native, session, wanted).await?;
    let call = Call::new(Method::GET, path::file(session, &file.path));
    let body: Body = native::body(native, call).await?;
    // Never shown as a page of this origin, whatever tenant code calls it.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, body).into_response())
}

/// Answers with the files of a session.
///
/// # Errors
/// [`Refusal`], among others if there is no such session.
pub async fn list<N: Native>(native: &N, session: &str) -> Result<Response, Refusal> {
    let (mut told, mut rooms, mut after) = (Vec::new(), Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let (files, next, room) = page(native, session, after.as_deref()).await?;
        told.extend(files.iter().map(|file| described(session, file)));
        rooms.push(room);
        let Some(next) = next else { break };
        after = Some(next);
    }
    Ok(held::json(&Value::from(told), rooms))
}

/// Answers with what is known of a file, by which LibreChat finds out whether it is still there.
///
/// # Errors
/// [`Refusal`], among others if there is no such file.
pub async fn info<N: Native>(native: &N, session: &str, wanted: &str) -> Result<Response, Refusal> {
    let file = find(native, session, wanted).await?;
    Ok(Json(described(session, &file)).into_response())
}

fn described(session: &str, file: &FileInfo) -> Value {
    let id = id(session, &file.path);
    json!({
        "id": id,
        "fileId": id,
        "name": format!("{session}/{id}"),
        "size": file.size_bytes,
        "lastModified": file.modified_at.to_string(),
        "contentType": file.mime_type,
        "storage_session_id": session,
        "metadata": {"original-filename": file.path},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_belong_to_a_session_and_show_nothing() {
        assert_eq!(id("a", "b"), id("a", "b"));
        assert_ne!(id("a", "b"), id("b", "b"));
        assert_ne!(id("a", "b"), id("a", "c"));
        let one = id("lc-1", "secret.txt");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        assert!(one.len() == ID_CHARS && one.chars().all(is_plain), "{one}");
    }
}
