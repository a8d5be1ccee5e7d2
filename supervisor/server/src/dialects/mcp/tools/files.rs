//! Tools for the files of a session.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_api_types::{FileList, FilesWritten};
use vivarium_client::path;
use vivarium_protocol::message::FileKind;

use super::{Answer, Given, arguments, both, wrong};
use crate::dialects::mcp::resources;
use crate::dialects::native::{self, Call, Content, Native};

/// How much of a file is read, in bytes: of text unless the call says more, and at most.
const TEXT_BYTES: u64 = 64 << 10;
const MAX_BYTES: u64 = 4 << 20;

/// Files of one list.
const MAX_ENTRIES: u32 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    path: String,
    text: Option<String>,
    data: Option<String>,
    session: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    session: String,
    path: String,
    #[serde(default)]
    offset: u64,
    max_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    session: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    after: Option<String>,
}

pub(super) async fn write<N: Native>(native: &N, given: Value) -> Given<N::Room> {
    let Write { path, text, data, session } = arguments(given)?;
    if path.is_empty() {
        return Err(wrong("path", "a file has a name"));
    }
    let bytes = match (text, data) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(data)) => {
            STANDARD.decode(data).map_err(|_| wrong("data", "this is not base64"))?
        }
        _ => return Err(wrong("text", "give the content as `text`, or as `data` in base64")),
    };
    let mut place = super::place(native, session);
    place.make().await?;
    let call = Call {
        content: Content::Bytes(bytes),
        ..Call::new(Method::PUT, path::file(&place.id, &path))
    };
    let (written, room) = native::json::<N, FilesWritten>(native, call).await?;
    place.keep();
    let (session, size) = (place.id.as_str(), written.size_bytes);
    let uri = resources::uri(session, &written.path);
    let told = format!("{} has {size} bytes now\n[session {session}]", written.path);
    let structured = json!({
        "session": session, "path": written.path, "size_bytes": size, "uri": uri,
    });
    Ok(Answer { result: both(&told, structured), room: Some(room) })
}

pub(super) async fn read<N: Native>(native: &N, given: Value) -> Given<N::Room> {
    let Read { session, path: name, offset, max_bytes } = arguments(given)?;
    if name.is_empty() {
        return Err(wrong("path", "a file has a name"));
    }
    if max_bytes.is_some_and(|max| !(1..=MAX_BYTES).contains(&max)) {
        return Err(wrong("max_bytes", &format!("1 to {MAX_BYTES}")));
    }
    let info = resources::stat(native, &session, &name).await?;
    if info.kind != FileKind::File {
        return Err(wrong("path", "this is not a file: list_files shows directories"));
    }
    let mime_type = info.mime_type.as_deref().unwrap_or("application/octet-stream");
    let is_image = mime_type.starts_with("image/") && mime_type != "image/svg+xml";
    // Part of an image is of no use.
    let usual = if is_image { MAX_BYTES } else { TEXT_BYTES };
    let max = max_bytes.unwrap_or(usual);
    let (body, room) = if offset >= info.size_bytes {
        (Default::default(), None)
    } else {
        let call = Call {
            range: Some((offset, max)),
            ..Call::new(Method::GET, path::file(&session, &name))
        };
        let whole = native::whole(native, call).await?;
        (whole.body, Some(whole.room))
    };
    let (read, size) = (body.len() as u64, info.size_bytes);
    let is_whole = offset == 0 && read >= size;
    let uri = resources::uri(&session, &info.path);
    let mut content = if is_image && is_whole {
        vec![json!({"type": "image", "data": STANDARD.encode(&body), "mimeType": mime_type})]
    } else if let Some(text) = as_text(&body, is_whole) {
        vec![json!({"type": "text", "text": text})]
    } else {
        let resource = resources::content(&uri, mime_type, &body);
        vec![json!({"type": "resource", "resource": resource})]
    };
    if !is_whole {
        let note =
            format!("[bytes {offset} to {} of {size}; pass `offset` to read on]", offset + read);
        content.push(json!({"type": "text", "text": note}));
    }
    Ok(Answer { result: json!({"content": content, "isError": false}), room })
}

/// The text that bytes are. A character that is cut at either end of a part is left out.
fn as_text(bytes: &[u8], is_whole: bool) -> Option<&str> {
    let start = bytes.iter().take(3).take_while(|byte| !is_whole && **byte & 0xC0 == 0x80).count();
    let bytes = bytes.get(start..)?;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if !is_whole && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

pub(super) async fn list<N: Native>(native: &N, given: Value) -> Given<N::Room> {
    let List { session, path: directory, recursive, after } = arguments(given)?;
    let mut at = path::file(&session, "");
    path::add(&mut at, "limit", MAX_ENTRIES);
    path::add(&mut at, "recursive", recursive);
    if !directory.is_empty() {
        path::add(&mut at, "path", &directory);
    }
    if let Some(after) = after {
        path::add(&mut at, "after", after);
    }
    let (list, room) = native::json::<N, FileList>(native, Call::new(Method::GET, at)).await?;
    let lines: Vec<_> = list
        .entries
        .iter()
        .map(|entry| match entry.kind {
            FileKind::Directory => format!("{}/", entry.path),
            _ => format!("{}  {} bytes", entry.path, entry.size_bytes),
        })
        .collect();
    let more = if list.next.is_some() { "\n[there are more: pass `after`]" } else { "" };
    let told = if lines.is_empty() { "there are no files".to_owned() } else { lines.join("\n") };
    let files: Vec<_> = list
        .entries
        .iter()
        .map(|entry| {
            json!({
                "path": entry.path,
                "kind": entry.kind,
                "size_bytes": entry.size_bytes,
                "modified_at": entry.modified_at.to_string(),
            })
        })
        .collect();
    let structured = json!({"files": files, "next": list.next});
    Ok(Answer { result: both(&(told + more), structured), room: Some(room) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_text_has_whole_characters() {
        let text = "aü€b".as_bytes();
        assert_eq!(as_text(text, true), Some("aü€b"));
        assert_eq!(as_text(&text[2..5], false), Some(""));
        assert_eq!(as_text(&text[..5], false), Some("aü"));
        assert_eq!(as_text(&text[..5], true), None);
        assert_eq!(as_text(b"a\xffb", false), None);
        assert_eq!(as_text(b"a\0b", true), None);
    }
}
