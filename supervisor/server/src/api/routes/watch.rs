//! Changes of a session's files, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{FileEventInfo, WatchParams};
use vivarium_engine::session::transfer::FileWatch;
use vivarium_protocol::message::{FileEvent, FileEventKind};

use crate::api::auth::Caller;
use crate::api::events::EVENT_STREAM;
use crate::api::extract::Id;
use crate::api::query::Params;
use crate::api::{Problem, Shared};

/// A comment is sent after so long without events, to keep proxies from closing the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sent first: changes from now on are events.
const READY: &[u8] = b"event: ready\ndata: {}\n\n";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(watch))
}

/// A server-sent event.
#[derive(ToSchema)]
#[expect(dead_code, reason = "described here, written as text")]
struct WatchEvent {
    /// `ready` first, then `created`, `modified`, `deleted` and `moved`, and `overflow` when events were
    /// lost.
    event: String,
    /// A FileEventInfo as JSON; `{}` for `ready` and `overflow`.
    data: String,
}

/// Watch files
///
/// Changes below a directory, as they come.
#[utoipa::path(get, path = "/v1/sessions/{id}/watch", operation_id = "watch_files", tag = "files",
    params(("id" = String, Path), WatchParams),
    responses(
        (status = 200, content_type = "text/event-stream", body = inline(WatchEvent),
            description = "Server-sent events"),
        (status = "default", body = Problem)))]
async fn watch(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(WatchParams { path, recursive }): Params<WatchParams>,
) -> Result<Response, Problem> {
    let watch = api.engine.watch_files(&tenant, &id, &path, recursive).await?;
    let frames = futures_util::stream::unfold((watch, true), |(mut watch, is_first)| async move {
        let frame = if is_first { Bytes::from_static(READY) } else { next(&mut watch).await? };
        Some((Ok::<_, Infallible>(frame), (watch, false)))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(frames)).into_response())
}

/// The next events; `None` at the end.
async fn next(watch: &mut FileWatch) -> Option<Bytes> {
    match timeout(KEEP_ALIVE, watch.next()).await {
        Err(_) => Some(Bytes::from_static(b": keep-alive\n\n")),
        Ok(Some(Ok(events))) => Some(events.into_iter().flat_map(encode).collect()),
        Ok(None | Some(Err(_))) => None,
    }
}

fn encode(event: FileEvent) -> Vec<u8> {
    let FileEvent { kind, path, from, is_directory } = event;
    let name: &str = kind.into();
    let data = match kind {
        FileEventKind::Overflow => "{}".to_owned(),
        _ => {
            let info = FileEventInfo { path, from, directory: is_directory };
            serde_json::to_string(&info).unwrap_or_default()
        }
    };
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}
