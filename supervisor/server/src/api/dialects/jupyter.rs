//! Jupyter on the daemon's listeners: its routes, and the `WebSocket` of its clients.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use vivarium_engine::budget::{Account, Reservation};

use super::super::connections::Activity;
use super::super::{Problem, Shared, extract, ports, reply};
use super::InProcess;
use crate::dialects::held;
use crate::dialects::jupyter::socket::{self, Joined};
use crate::dialects::jupyter::wire::{Format, V1};
use crate::dialects::jupyter::{Kernels, rest};

pub(super) const BASE: &str = "/jupyter";

/// Every path below, with and without a token in it. The dialect says which there are, so that no
/// token is part of a route.
pub(super) const ROUTE: &str = "/jupyter/{*path}";

type Of = (Shared, Router, Kernels<InProcess>);

pub(super) fn added(routes: Router<Shared>, inner: Router, api: &Shared) -> Router<Shared> {
    let of: Of = (Arc::clone(api), inner, Kernels::default());
    routes.route(ROUTE, any(move |request| serve(of.clone(), request)))
}

async fn serve((api, inner, kernels): Of, request: Request) -> Response {
    let wants_websocket = ports::wants_websocket(&request);
    let (mut parts, body) = request.into_parts();
    let native = match InProcess::for_client(&api, inner, &mut parts).await {
        Ok(native) => native,
        Err(problem) => return problem.into_response(),
    };
    let path = parts.uri.path().strip_prefix(BASE).unwrap_or_default().to_owned();
    if let Some(id) = rest::channels_of(&path).filter(|_| parts.method == http::Method::GET) {
        if !wants_websocket {
            return not_a_websocket();
        }
        let request = Request::from_parts(parts, body);
        return open(&api, &kernels, native, id, request).await;
    }
    let body = match extract::read(&mut parts, body, &api).await {
        Ok((body, reservation)) => held::bytes(body, reservation),
        Err(problem) => return problem.into_response(),
    };
    let tenant = native.tenant.clone();
    rest::respond(&native, &kernels, &tenant, &parts.method, &path, &body).await
}

fn not_a_websocket() -> Response {
    let detail = "this is a WebSocket (RFC 6455), of version 13";
    let status = StatusCode::UPGRADE_REQUIRED;
    let headers = [(header::UPGRADE, "websocket"), (header::SEC_WEBSOCKET_VERSION, "13")];
    (headers, Problem::new(status, "websocket_required", detail)).into_response()
}

/// Switches to `WebSocket`. The connection goes on with it, and counts as a request of the tenant's.
async fn open(
    api: &Shared,
    kernels: &Kernels<InProcess>,
    native: InProcess,
    id: &str,
    mut request: Request,
) -> Response {
    let facts = match rest::facts(&native, id).await {
        Ok(facts) => facts,
        Err(refused) => return refused,
    };
    let headers = request.headers();
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    let is_13 = one(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = one(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let accept = key.and_then(|key| HeaderValue::try_from(key).ok());
    let activity = request.extensions().get::<Activity>().cloned();
    let (Some(accept), Some(activity), true) = (accept, activity, is_13) else {
        return not_a_websocket();
    };
    let format = if offers_v1(headers) { Format::V1 } else { Format::Json };
    let upgraded = hyper::upgrade::on(&mut request);
    let tenant = native.tenant.clone();
    let account = api.engine.account(&tenant);
    let joined = Joined::new(kernels.of(&tenant, id), format, facts);
    let max_bytes = api.max_body_bytes;
    activity.tunnels(&tenant, async move {
        let stream = match upgraded.await {
            Ok(stream) => TokioIo::new(stream),
            Err(error) => {
                tracing::debug!(%error, "upgrade to a kernel's socket");
                return;
            }
        };
        let unread = Unread::new(account);
        let stream = Metered { stream, unread: unread.clone() };
        socket::serve(stream, joined, native, max_bytes, || unread.clear()).await;
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if format == Format::V1 {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(V1));
    }
    response
}

fn offers_v1(headers: &HeaderMap) -> bool {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered = offered.filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).any(|name| name.trim() == V1)
}

/// What was read of messages that are not whole yet, as part of the tenant's memory.
#[derive(Debug, Clone)]
struct Unread(Arc<Mutex<Reservation>>);

impl Unread {
    fn new(account: Account) -> Self {
        Self(Arc::new(Mutex::new(account.hold(0))))
    }

    fn lock(&self) -> MutexGuard<'_, Reservation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts more. A little always may be.
    fn add(&self, bytes: usize) -> io::Result<()> {
        let mut held = self.lock();
        let all = held.bytes() + bytes;
        if all <= reply::LARGE_BYTES {
            held.set(all);
            return Ok(());
        }
        held.grow(bytes).map_err(|_| io::Error::other("there is no room for this message"))
    }

    fn clear(&self) {
        self.lock().set(0);
    }
}

/// A stream whose client is cut off where there is no room for what it sends.
struct Metered<S> {
    stream: S,
    unread: Unread,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.unread.add(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
