//! Accepting connections and speaking HTTP/1.1 on them.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use vivarium_engine::Engine;
use vivarium_metrics::Metrics;
use vivarium_metrics::families::http::Closed;

use super::body::PAUSE_AT_MOST;
use super::connections::{Activity, Connections, Peer, Tracked};
use super::delivery::Delivery;
use super::departure::Departure;
use super::guard::Local;
use super::write_timeout::WriteTimeout;
use crate::listen::Listener;

/// How long a client may take to send a request's head, also the first.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// The most header lines of a request, and the most bytes they may have.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 32 << 10;

/// How much is read at one time of bodies that come fast, in bytes: what a socket holds.
const MAX_READ_BYTES: usize = 256 << 10;

/// How long to wait before accepting again where no descriptor was left (`EMFILE`): the
/// connection stays in the backlog, and accepting again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections may stay open when everything has ended that they could wait for.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error("use a listening socket")]
pub struct ServeError(#[source] io::Error);

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection, and the address it came to.
enum Accepted {
    Tcp(TcpStream, Local),
    Unix(UnixStream),
}

/// Where to serve.
#[derive(Debug, Default)]
pub struct Listeners {
    pub api: Vec<Listener>,
    pub e2b: Vec<Listener>,
}

impl From<Vec<Listener>> for Listeners {
    fn from(api: Vec<Listener>) -> Self {
        Self { api, e2b: Vec::new() }
    }
}

/// Serves the API until the sender of `stop` sends or is dropped, then answers the requests under
/// way.
///
/// # Errors
/// [`ServeError`] if a listener can not be used at all.
pub async fn serve(
    engine: Engine,
    listeners: impl Into<Listeners> + Send,
    stop: oneshot::Receiver<()>,
) -> Result<(), ServeError> {
    let Listeners { api: listeners, e2b } = listeners.into();
    let max = usize::try_from(engine.settings().server.max_connections).unwrap_or(usize::MAX);
    let metrics = engine.metrics();
    let api = Arc::new(super::Api::new(engine));
    let own = super::dialects::e2b(&api);
    let router = super::router(api);
    let of_e2b = e2b.into_iter().map(|at| (at, own.clone()));
    let (stopping, stopped) = watch::channel(false);
    let mut accepting = JoinSet::new();
    let of_api = listeners.into_iter().map(|at| (at, router.clone()));
    for (listener, router) in of_api.chain(of_e2b) {
        let socket = match listener {
            Listener::Tcp(tcp) => TcpListener::from_std(tcp).map(Socket::Tcp),
            Listener::Unix(unix) => UnixListener::from_std(unix).map(Socket::Unix),
        };
        let socket = socket.map_err(ServeError)?;
        let open = Connections::new(max, Arc::clone(&metrics));
        accepting.spawn(accept(socket, router, open, Arc::clone(&metrics), stopped.clone()));
    }
    // A sender that was dropped means the same.
    stop.await.unwrap_or(());
    stopping.send_replace(true);
    while accepting.join_next().await.is_some() {}
    Ok(())
}

/// Accepts connections until `stopped`, and returns when the last of them is done.
async fn accept(
    socket: Socket,
    router: Router,
    open: Connections,
    metrics: Arc<Metrics>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = is_stopped(&mut stopped) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = accept_one(&socket) => accepted,
        };
        let (stream, departure, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_peers_fault(&error) => {
                tracing::debug!(%error, "accept");
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "accept");
                open.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // A connection that is not admitted is closed.
        let Some(connection) = open.admit(peer) else { continue };
        let (router, stopped) = (router.clone(), stopped.clone());
        let metrics = Arc::clone(&metrics);
        connections.spawn(async move {
            let activity = connection.activity();
            let conversing = async {
                match stream {
                    Accepted::Tcp(stream, local) => {
                        converse(stream, local, peer, router, activity, stopped).await
                    }
                    Accepted::Unix(stream) => {
                        converse(stream, Local::Unix, peer, router, activity, stopped).await
                    }
                }
            };
            tokio::select! {
                biased;
                () = departure.left(connection.ends_with_client()) => {}
                () = connection.closed() => {}
                ended = conversing => note(ended, &metrics),
            }
        });
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(CLOSE_WITHIN, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "still open after the end: closed");
        for _ in 0..connections.len() {
            metrics.http.closed(Closed::Drained);
        }
        connections.shutdown().await;
    }
}

/// Counts and logs a connection that ended with an error.
fn note(ended: Result<(), hyper::Error>, metrics: &Metrics) {
    let Err(error) = ended else { return };
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    if source.is_some_and(|source: &io::Error| source.kind() == io::ErrorKind::TimedOut) {
        metrics.http.closed(Closed::Slow);
    }
    tracing::debug!(%error, "connection");
}

/// Whether a connection failed before it was accepted. Such a client must neither keep the listener
/// from others nor have another connection closed: only a want of descriptors calls for that.
fn is_peers_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn accept_one(socket: &Socket) -> io::Result<(Accepted, Departure, Peer)> {
    Ok(match socket {
        Socket::Tcp(listener) => {
            let (stream, address) = listener.accept().await?;
            // Without it an answer of more than one segment waits for the client's delayed
            // acknowledgement, some 40 ms (tcp(7), TCP_NODELAY).
            stream.set_nodelay(true)?;
            let local = Local::Tcp(stream.local_addr()?);
            let departure = Departure::of_tcp(stream.as_fd())?;
            (Accepted::Tcp(stream, local), departure, Peer::Address(address.ip()))
        }
        Socket::Unix(listener) => {
            let stream = listener.accept().await?.0;
            let user = stream.peer_cred().ok().map(|peer| peer.uid());
            let departure = Departure::of_unix(stream.as_fd())?;
            (Accepted::Unix(stream), departure, Peer::User(user))
        }
    })
}

/// Answers the requests of one connection.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    local: Local,
    peer: Peer,
    router: Router,
    activity: Activity,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let router = TowerToHyperService::new(router);
    let delivery = Delivery::default();
    let switched = activity.clone();
    let stream = WriteTimeout::new(stream, PAUSE_AT_MOST, delivery.clone());
    let stopping = Stopping(stopped.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(local);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(activity.clone());
        request.extensions_mut().insert(delivery.clone());
        request.extensions_mut().insert(stopping.clone());
        let request = request.map(|body| Tracked::request(body, activity.clone()));
        let (answering, activity) = (router.call(request), activity.clone());
        async move { Ok::<_, Infallible>(answering.await?.map(|body| Tracked::answer(body, activity))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that sends nothing more may still wait for its answer: [`Departure`] detects one
        // that has left.
        .half_close(true)
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_READ_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        result = connection.as_mut() => Some(result),
        () = is_stopped(&mut stopped) => None,
    };
    match ended {
        Some(result) => result?,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await?;
        }
    }
    if let Some(tunnel) = switched.take_tunnel() {
        tokio::select! {
            () = tunnel => {}
            () = is_stopped(&mut stopped) => {}
        }
    }
    Ok(())
}

/// Tells an answer without an end of its own when the server stops.
#[derive(Debug, Clone)]
pub(super) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Resolves when the server stops.
    pub(super) async fn begun(mut self) {
        is_stopped(&mut self.0).await;
    }
}

/// Resolves when the server stops, or its task is gone.
async fn is_stopped(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        tracing::debug!("nobody is left who could stop this");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_want_of_descriptors_pauses_the_listener() {
        use nix::errno::Errno;
        for (errno, expected) in
            [(Errno::ECONNABORTED, true), (Errno::ECONNRESET, true), (Errno::EMFILE, false)]
        {
            assert_eq!(is_peers_fault(&errno.into()), expected, "{errno}");
        }
    }
}
