//! `filesystem.Filesystem`: directories and what is in them.

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_api_types::{FileInfo, FileList};
use vivarium_client::path;
use vivarium_protocol::message::FileKind;

use super::super::connect::Failure;
use super::super::{Client, USER, paths};
use crate::dialects::native::{self, Call, Native, Refusal};

/// Entries that are asked for at a time, and the most of one answer.
const PAGE: u32 = 1000;
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct At {
    path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct List {
    path: String,
    depth: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rename {
    source: String,
    destination: String,
}

/// What is at a path.
pub(super) async fn entry<N: Native>(client: &Client<N>, at: &str) -> Result<FileInfo, Refusal> {
    let mut target = path::file(&client.sandbox.id, at);
    path::add(&mut target, "info", true);
    let call = Call::new(Method::GET, target);
    native::json::<N, FileInfo>(&client.native, call).await.map(|(info, _)| info)
}

/// What is told of a file in a list.
pub(super) fn told(info: &FileInfo) -> Value {
    told_at(info, &paths::told(&info.path))
}

/// What is told of the file at a path. Its owner is the sandbox's only user.
pub(super) fn told_at(info: &FileInfo, path: &str) -> Value {
    let mode = u32::from_str_radix(&info.mode, 8).unwrap_or(0) & 0o7777;
    let (kind, letter) = match info.kind {
        FileKind::File => ("FILE_TYPE_FILE", '-'),
        FileKind::Directory => ("FILE_TYPE_DIRECTORY", 'd'),
        FileKind::Link => ("FILE_TYPE_SYMLINK", 'L'),
        FileKind::Other => ("FILE_TYPE_UNSPECIFIED", '?'),
    };
    let time: Timestamp = info.modified_at;
    let mut told = json!({
        "name": paths::name(path),
        "type": kind,
        "path": path,
        "size": if info.kind == FileKind::Directory { 0 } else { info.size_bytes },
        "mode": mode,
        "permissions": permissions(letter, mode),
        "owner": USER,
        "group": USER,
        "modifiedTime": time.to_string(),
    });
    if info.kind == FileKind::Link
        && let Some(members) = told.as_object_mut()
    {
        members.insert("isSymlink".to_owned(), json!(true));
    }
    told
}

fn permissions(kind: char, mode: u32) -> String {
    let bits = "rwxrwxrwx".chars().enumerate();
    let bits = bits.map(|(at, letter)| if mode & (0o400 >> at) == 0 { '-' } else { letter });
    [kind].into_iter().chain(bits).collect()
}

pub(super) async fn stat<N: Native>(client: &Client<N>, asked: At) -> Result<Value, Failure> {
    let at = paths::absolute(&asked.path);
    let info = entry(client, &at).await?;
    Ok(json!({"entry": told_at(&info, &at)}))
}

pub(super) async fn list<N: Native>(client: &Client<N>, asked: List) -> Result<Value, Failure> {
    let root = paths::absolute(&asked.path);
    let depth = usize::try_from(asked.depth.max(1)).unwrap_or(usize::MAX);
    let info = entry(client, &root).await?;
    if info.kind != FileKind::Directory {
        return Err(Failure::new("invalid_argument", format!("{root} is no directory")));
    }
    let (mut entries, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut at = path::file(&client.sandbox.id, "");
        path::add(&mut at, "path", &root);
        path::add(&mut at, "limit", PAGE);
        path::add(&mut at, "recursive", depth > 1);
        if let Some(after) = &after {
            path::add(&mut at, "after", after);
        }
        let call = Call::new(Method::GET, at);
        let (list, _) = native::json::<N, FileList>(&client.native, call).await?;
        let near = list.entries.iter().map(told).filter(|entry| is_near(&root, entry, depth));
        entries.extend(near);
        if entries.len() > MAX_ENTRIES {
            return Err(Failure::new("resource_exhausted", "there are too many entries"));
        }
        after = list.next;
        if after.is_none() {
            return Ok(json!({"entries": entries}));
        }
    }
}

/// Whether an entry lies so many levels below a directory, at most.
fn is_near(root: &str, entry: &Value, depth: usize) -> bool {
    let path = entry.get("path").and_then(Value::as_str).unwrap_or_default();
    let below = path.strip_prefix(root).unwrap_or(path);
    below.trim_matches('/').split('/').count() <= depth
}

pub(super) async fn make<N: Native>(client: &Client<N>, asked: At) -> Result<Value, Failure> {
    let at = paths::absolute(&asked.path);
    match entry(client, &at).await {
        Ok(info) if info.kind == FileKind::Directory => {
            return Err(Failure::new("already_exists", format!("{at} is there")));
        }
        Ok(_) => {
            let why = format!("{at} is there, and no directory");
            return Err(Failure::new("invalid_argument", why));
        }
        Err(refusal) if refusal.code == "unknown_file" => {}
        Err(refusal) => return Err(refusal.into()),
    }
    let mut target = path::file(&client.sandbox.id, &at);
    path::add(&mut target, "directory", true);
    native::whole(&client.native, Call::new(Method::PUT, target)).await?;
    Ok(json!({"entry": told_at(&entry(client, &at).await?, &at)}))
}

pub(super) async fn rename<N: Native>(client: &Client<N>, asked: Rename) -> Result<Value, Failure> {
    let [from, to] = [&asked.source, &asked.destination].map(|path| paths::absolute(path));
    let target = path::file(&client.sandbox.id, &from);
    // As rename(2) does, and E2B with it.
    let call = Call::new(Method::PATCH, target).json(&json!({"move_to": to, "replace": true}));
    let (info, _) = native::json::<N, FileInfo>(&client.native, call).await?;
    Ok(json!({"entry": told(&info)}))
}

pub(super) async fn remove<N: Native>(client: &Client<N>, asked: At) -> Result<Value, Failure> {
    let at = paths::absolute(&asked.path);
    let call = Call::new(Method::DELETE, path::file(&client.sandbox.id, &at));
    match native::whole(&client.native, call).await {
        Ok(_) => Ok(json!({})),
        // What is not there need not be removed, to E2B.
        Err(refusal) if refusal.code == "unknown_file" => Ok(json!({})),
        Err(refusal) => Err(refusal.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_as_ls_shows_them() {
        assert_eq!(permissions('-', 0o644), "-rw-r--r--");
        assert_eq!(permissions('d', 0o755), "drwxr-xr-x");
    }

    #[test]
    fn levels_are_counted_from_the_directory() {
        let is = |root: &str, path: &str, depth| is_near(root, &json!({"path": path}), depth);
        assert!(is("/home/user/a", "/home/user/a/b", 1));
        assert!(!is("/home/user/a", "/home/user/a/b/c", 1));
        assert!(is("/home/user/a", "/home/user/a/b/c", 2));
        assert!(is("/tmp", "/tmp/x", 1));
    }
}
