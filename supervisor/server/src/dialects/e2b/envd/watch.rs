//! Changes of files: as a stream, and kept for clients that ask for them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use vivarium_client::{Decoder, path};

use super::super::connect::{self, Failure, STREAM_TYPE, envelope};
use super::super::{Client, paths};
use super::watchers::{MAX_BYTES, News};
use super::{filesystem, process};
use crate::dialects::native::{self, Call, Native};

/// The largest event: two paths, and what surrounds them.
const MAX_EVENT_BYTES: usize = 64 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Watch {
    path: String,
    recursive: bool,
    include_entry: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Watcher {
    watcher_id: String,
}

/// The members of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Change {
    path: String,
    from: Option<String>,
    directory: bool,
}

/// A directory that is watched.
struct Watched<N: Native> {
    client: Client<N>,
    root: String,
    with_entries: bool,
    body: Body,
    decoder: Decoder,
    unsent: VecDeque<Value>,
}

impl<N: Native> Watched<N> {
    /// Returns when every later change will be told.
    async fn begin(client: Client<N>, native: N, watch: Watch) -> Result<Self, Failure> {
        let root = paths::absolute(&watch.path);
        let mut at = format!("{}/watch", path::session(&client.sandbox.id));
        path::add(&mut at, "path", &root);
        path::add(&mut at, "recursive", watch.recursive);
        let body = native::streamed(&native, Call::new(Method::GET, at)).await?;
        let decoder = Decoder::new(MAX_EVENT_BYTES);
        let with_entries = watch.include_entry;
        let unsent = VecDeque::new();
        let mut watched = Self { client, root, with_entries, body, decoder, unsent };
        match watched.event().await? {
            Some((kind, _)) if kind == "ready" => Ok(watched),
            _ => Err(Failure::new("unavailable", "the directory could not be watched")),
        }
    }

    /// The next event of the API; `None` if nothing is watched any more.
    async fn event(&mut self) -> Result<Option<(String, Change)>, Failure> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                let change = serde_json::from_slice(&event.data).unwrap_or_default();
                return Ok(Some((event.event.to_string(), change)));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.feed(&data).map_err(|error| Failure::invalid(&error))?;
                    }
                }
                Some(Err(error)) => return Err(Failure::new("unavailable", error.to_string())),
                None => return Ok(None),
            }
        }
    }

    /// The next change, as E2B tells it.
    async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(change) = self.unsent.pop_front() {
                return Ok(Some(change));
            }
            let Some((kind, change)) = self.event().await? else { return Ok(None) };
            for (kind, path) in changes(&kind, &change) {
                let path = paths::told(path);
                let mut told = json!({"name": name_below(&self.root, &path), "type": kind});
                if self.with_entries
                    && let Ok(info) = filesystem::entry(&self.client, &path).await
                    && let Some(members) = told.as_object_mut()
                {
                    drop(members.insert("entry".to_owned(), filesystem::told_at(&info, &path)));
                }
                self.unsent.push_back(told);
            }
        }
    }
}

/// E2B's events for one of the API. A name that a file had is renamed, and the one it has now created.
fn changes<'a>(kind: &str, change: &'a Change) -> Vec<(&'static str, &'a str)> {
    let path = change.path.as_str();
    match kind {
        "created" if change.directory => vec![("EVENT_TYPE_CREATE", path)],
        // What E2B tells of a file that is written anew.
        "created" => ["EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE"]
            .map(|kind| (kind, path))
            .into(),
        "modified" => vec![("EVENT_TYPE_WRITE", path)],
        "deleted" => vec![("EVENT_TYPE_REMOVE", path)],
        "moved" => {
            let from = change.from.as_deref().map(|from| ("EVENT_TYPE_RENAME", from));
            from.into_iter().chain([("EVENT_TYPE_CREATE", path)]).collect()
        }
        _ => Vec::new(),
    }
}

/// The name of a path below a directory.
fn name_below<'a>(root: &str, path: &'a str) -> &'a str {
    path.strip_prefix(root).unwrap_or(path).trim_start_matches('/')
}

/// Follows a directory, as JavaScript's SDK does.
pub(super) async fn stream<N: Native>(
    client: Client<N>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    let watched = async {
        let watch: Watch = super::read_one(body).await?;
        let native = client.native.clone();
        Watched::begin(client, native, watch).await
    };
    match watched.await {
        Ok(watched) => streamed(watched, process::alive(headers)),
        Err(failure) => connect::failed(&failure),
    }
}

type Next<N> = Pin<Box<dyn Future<Output = (Bytes, Option<Watched<N>>)> + Send>>;

async fn message<N: Native>(mut watched: Watched<N>) -> (Bytes, Option<Watched<N>>) {
    match watched.next().await {
        Ok(Some(change)) => (envelope(&json!({"filesystem": change})), Some(watched)),
        Ok(None) => (connect::end(None), None),
        Err(failure) => (connect::end(Some(&failure)), None),
    }
}

fn streamed<N: Native>(watched: Watched<N>, alive: Duration) -> Response {
    let next: Next<N> = Box::pin(message(watched));
    let changes = stream::unfold(Some(next), move |state| async move {
        let mut next = state?;
        tokio::select! {
            biased;
            (bytes, watched) = &mut next => {
                Some((bytes, watched.map(|watched| Box::pin(message(watched)) as Next<N>)))
            }
            () = sleep(alive) => Some((envelope(&json!({"keepalive": {}})), Some(next))),
        }
    });
    let start = stream::iter([envelope(&json!({"start": {}}))]);
    let body = Body::from_stream(start.chain(changes).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, HeaderValue::from_static(STREAM_TYPE))], body).into_response()
}

pub(super) async fn create<N: Native>(client: &Client<N>, watch: Watch) -> Result<Value, Failure> {
    if !client.sandbox.watchers.has_room() {
        return Err(Failure::new("resource_exhausted", "the sandbox has too many watchers"));
    }
    // It goes on when this client's connection is closed.
    let own = Client {
        native: client.background.clone(),
        background: client.background.clone(),
        sandbox: std::sync::Arc::clone(&client.sandbox),
    };
    let mut watched = Watched::begin(own, client.background.clone(), watch).await?;
    let room = client.background.room(2 * MAX_BYTES).await?;
    let news = News::default();
    let told = news.clone();
    let task = tokio::spawn(async move {
        while let Ok(Some(change)) = watched.next().await {
            let bytes = change.to_string().len();
            told.add(change, bytes);
        }
        drop(room);
    });
    Ok(json!({"watcherId": client.sandbox.watchers.add(news, task)}))
}

pub(super) async fn events<N: Native>(
    client: &Client<N>,
    asked: Watcher,
) -> Result<Value, Failure> {
    // The API gathers changes for a moment: what a client did before it asks is told.
    sleep(GATHERED).await;
    let events = client.sandbox.watchers.take(&asked.watcher_id).ok_or_else(unknown)?;
    Ok(json!({"events": events}))
}

pub(super) fn remove<N: Native>(client: &Client<N>, asked: &Watcher) -> Result<Value, Failure> {
    let is_there = client.sandbox.watchers.remove(&asked.watcher_id);
    if is_there { Ok(json!({})) } else { Err(unknown()) }
}

/// Longer than the API gathers changes.
const GATHERED: Duration = Duration::from_millis(100);

fn unknown() -> Failure {
    Failure::new("not_found", "there is no such watcher")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_the_end_of_one_name_and_the_start_of_another() {
        let change = Change { path: "b".to_owned(), from: Some("a".to_owned()), directory: false };
        let expected = [("EVENT_TYPE_RENAME", "a"), ("EVENT_TYPE_CREATE", "b")];
        assert_eq!(changes("moved", &change), expected);
        assert_eq!(changes("overflow", &change), []);
        let kinds: Vec<_> = changes("created", &change).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, ["EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE"]);
    }

    #[test]
    fn names_are_below_the_directory() {
        assert_eq!(name_below("/home/user/a", "/home/user/a/b/c"), "b/c");
        assert_eq!(name_below("/tmp", "/tmp/x"), "x");
    }
}
