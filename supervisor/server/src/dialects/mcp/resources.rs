//! Files of sessions as resources: `vivarium://SESSION/PATH`.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, header};
use serde_json::{Map, Value, json};
use vivarium_api_types::{FileInfo, FileList, SessionPage, SessionState};
use vivarium_client::path;
use vivarium_protocol::message::FileKind;

use super::rpc::{Error, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use super::{Answer, Era, text};
use crate::dialects::native::{self, Call, Native, Refusal};

const SCHEME: &str = "vivarium://";

/// Sessions whose files are in one page of the list, and the most files of each.
const SESSIONS_PER_PAGE: usize = 10;
const FILES_PER_SESSION: u32 = 100;

/// The largest file that is read as a whole, in bytes. `read_file` reads parts of larger ones.
const MAX_RESOURCE_BYTES: u64 = 16 << 20;

/// The URI of a file. What could be taken for a directory or an empty part is escaped.
pub(super) fn uri(session: &str, name: &str) -> String {
    let mut uri = format!("{SCHEME}{session}/");
    let (root, rest) = name.strip_prefix('/').map_or(("", name), |rest| ("%2F", rest));
    uri.push_str(root);
    for (number, part) in rest.split('/').enumerate() {
        uri.push_str(if number > 0 { "/" } else { "" });
        let is_special = matches!(part, "." | "..");
        for byte in part.bytes() {
            let is_plain = byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
            if is_plain || (byte == b'.' && !is_special) {
                uri.push(char::from(byte));
            } else {
                write!(uri, "%{byte:02X}").unwrap_or_default();
            }
        }
    }
    uri
}

/// The session and the path in a URI, percent-decoded once.
fn parse(uri: &str) -> Option<(String, String)> {
    let (session, file) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    if session.is_empty() || file.is_empty() || uri.contains(['?', '#']) {
        return None;
    }
    Some((decode(session)?, decode(file)?))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
            rest = after.get(2..)?;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A file as the list of resources has it.
fn described(session: &str, file: &FileInfo) -> Value {
    let mime_type = file.mime_type.as_deref().unwrap_or("application/octet-stream");
    json!({
        "uri": uri(session, &file.path),
        "name": file.path,
        "mimeType": mime_type,
        "size": file.size_bytes,
    })
}

/// A page of files, of a few sessions at a time.
pub(super) async fn list<N: Native>(
    native: &N,
    params: &Map<String, Value>,
) -> Result<Answer<N::Room>, Error> {
    let mut at = format!("/v1/sessions?limit={SESSIONS_PER_PAGE}");
    if params.get("cursor").is_some() {
        path::add(&mut at, "after", text(params, "cursor")?);
    }
    let page = native::json(native, Call::new(Method::GET, at)).await;
    let (page, room): (SessionPage, _) = page.map_err(|refusal| failed(&refusal))?;
    let mut resources = Vec::new();
    for session in page.sessions {
        // The files of a suspended session are in its image: to list them would resume it.
        if matches!(session.state, SessionState::Suspended | SessionState::Closed) {
            continue;
        }
        let query = format!("?recursive=true&limit={FILES_PER_SESSION}");
        let at = path::file(&session.id, "") + &query;
        // It may have ended meanwhile.
        let Ok((files, _)) = native::json::<_, FileList>(native, Call::new(Method::GET, at)).await
        else {
            continue;
        };
        let files = files.entries.iter().filter(|entry| entry.kind == FileKind::File);
        resources.extend(files.map(|file| described(&session.id, file)));
    }
    let mut result = json!({"resources": resources});
    if let (Some(next), Some(members)) = (page.next, result.as_object_mut()) {
        members.insert("nextCursor".to_owned(), json!(next));
    }
    Ok(Answer { result, room: Some(room) })
}

pub(super) fn templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": "vivarium://{session}/{+path}",
        "name": "file",
        "title": "A file of a session",
        "description": "A file in the working directory of a session, by its path there.",
    }]})
}

/// The content of a file.
pub(super) async fn read<N: Native>(
    native: &N,
    era: Era,
    params: &Map<String, Value>,
) -> Result<Answer<N::Room>, Error> {
    let uri = text(params, "uri")?;
    let unknown = |why: String| {
        let code = match era {
            Era::Handshake => RESOURCE_NOT_FOUND,
            Era::Stateless => INVALID_PARAMS,
        };
        Error::new(code, why).with(json!({"uri": uri}))
    };
    let Some((session, name)) = parse(uri) else {
        return Err(unknown("resources are vivarium://SESSION/PATH".to_owned()));
    };
    let info = stat(native, &session, &name).await.map_err(|refusal| unknown(refusal.text()))?;
    if info.kind != FileKind::File {
        return Err(unknown(format!("{name:?} is not a file")));
    }
    if info.size_bytes > MAX_RESOURCE_BYTES {
        let most = MAX_RESOURCE_BYTES >> 20;
        return Err(unknown(format!("over {most} MiB: the tool read_file reads parts of it")));
    }
    let call = Call::new(Method::GET, path::file(&session, &name));
    let whole = native::whole(native, call).await.map_err(|refusal| unknown(refusal.text()))?;
    let mime_type = info.mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let is_archive =
        whole.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/x-tar");
    if is_archive && mime_type != "application/x-tar" {
        return Err(unknown(format!("{name:?} is no longer a file")));
    }
    let content = content(uri, &mime_type, &whole.body);
    Ok(Answer { result: json!({"contents": [content]}), room: Some(whole.room) })
}

/// Content as an item of `contents`: text where it is some, else base64.
pub(super) fn content(uri: &str, mime_type: &str, body: &[u8]) -> Value {
    match std::str::from_utf8(body) {
        Ok(text) if !text.contains('\0') => {
            json!({"uri": uri, "mimeType": mime_type, "text": text})
        }
        _ => json!({"uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(body)}),
    }
}

/// What there is at a path.
pub(super) async fn stat<N: Native>(
    native: &N,
    session: &str,
    name: &str,
) -> Result<FileInfo, Refusal> {
    let mut at = path::file(session, name);
    path::add(&mut at, "info", true);
    Ok(native::json(native, Call::new(Method::GET, at)).await?.0)
}

/// The error of a list that was refused.
pub(super) fn failed(refusal: &Refusal) -> Error {
    Error::new(super::rpc::TOO_MANY_REQUESTS, refusal.text()).with(json!({"code": refusal.code}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_leads_back_to_session_and_path() {
        for name in ["a.txt", "a b/ü?#%.txt", "/tmp/x", "..%2f", "a//b"] {
            let parsed = parse(&uri("m-1", name));
            assert_eq!(parsed, Some(("m-1".to_owned(), name.to_owned())), "{name}");
        }
        assert_eq!(uri("s", "a b/c.d"), "vivarium://s/a%20b/c.d");
        assert_eq!(uri("s", "../."), "vivarium://s/%2E%2E/%2E");
    }

    #[test]
    fn what_is_no_uri_of_a_file_is_refused() {
        for wrong in [
            "",
            "vivarium:",
            "vivarium://",
            "vivarium://s",
            "vivarium://s/",
            "vivarium:///a",
            "file:///etc/passwd",
            "vivarium://s/a%2",
            "vivarium://s/a%zz",
            "vivarium://s/a%+1",
            "vivarium://s/%ff",
            "vivarium://s/a?info=true",
            "vivarium://s/a#b",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
