//! How the index asks upstream: by connections of the gate's own, with the checks that sessions' have.
//!
//! What an index says leads anywhere: to the operator's `allow_addresses` only for the index itself,
//! and for what the session could reach by its own list.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use vivarium_egress::rules::Verdict;
use vivarium_egress::{Decision, Host, Network, Reason, Via};
use vivarium_packages::fetch::Body;
use vivarium_packages::{Fetch, FetchError, Fetched, Source, Url};
use vivarium_protocol::discard;

use crate::context::Context;
use crate::dial;
use crate::flow::{Asked, Flow};

/// The most time without a byte from upstream, and for the head of an answer.
const QUIET: Duration = Duration::from_secs(60);

const AGENT: &str = concat!("vivarium/", env!("CARGO_PKG_VERSION"));

/// Upstream, for one request of a session.
pub(super) struct Upstream<'a> {
    context: &'a Context,
    source: &'a Source,
    fetched: Arc<AtomicU64>,
}

/// The body of an answer.
pub(super) struct Pieces {
    body: Incoming,
    flow: Arc<Flow>,
    fetched: Arc<AtomicU64>,
    quiet: Duration,
    /// Ends with this.
    _connection: JoinSet<()>,
}

impl<'a> Upstream<'a> {
    pub(super) fn new(context: &'a Context, source: &'a Source) -> Self {
        Self { context, source, fetched: Arc::default() }
    }

    /// Bytes that came from upstream.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    fn allowed_addresses(&self, url: &Url, host: &Host, port: u16) -> &[Network] {
        let rules = &self.context.rules;
        let is_index = self.source.index_url.as_ref().is_some_and(|index| url.has_origin_of(index));
        let is_listed = matches!(rules.verdict(host, port), Verdict::Allowed(_));
        if is_index || is_listed { &rules.allow_addresses } else { &[] }
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        url: &Url,
        accept: &str,
        quiet: Duration,
    ) -> Result<Fetched<Pieces>, FetchError> {
        let broken = |error: &dyn std::fmt::Display| FetchError::Broken(error.to_string());
        let mut request = hyper::Request::get(url.path())
            .header("host", url.authority())
            .header("accept", accept)
            .header("accept-encoding", "identity")
            .header("user-agent", AGENT)
            .header("connection", "close");
        if let Some(authorization) = self.source.authorization(url) {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| broken(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        let mut connections = JoinSet::new();
        connections.spawn(async { discard(connection.await, "the answer tells") });
        let answer = timeout(quiet, sender.send_request(request)).await;
        let answer = answer.map_err(|_| broken(&"it is quiet"))?.map_err(|error| broken(&error))?;
        let (parts, body) = answer.into_parts();
        let header = |name: &str| {
            let value = parts.headers.get(name)?;
            value.to_str().map(str::to_owned).ok()
        };
        Ok(Fetched {
            status: parts.status.as_u16(),
            content_type: header("content-type"),
            location: header("location"),
            body: Pieces {
                body,
                flow: self.context.flow.clone(),
                fetched: self.fetched.clone(),
                quiet,
                _connection: connections,
            },
        })
    }
}

impl Fetch for Upstream<'_> {
    type Body = Pieces;

    async fn get(&self, url: &Url, accept: &str) -> Result<Fetched<Pieces>, FetchError> {
        let Context { shared, rules, flow, .. } = self.context;
        let place = url.place().and_then(|(host, port)| Some((host.parse::<Host>().ok()?, port)));
        let no_host = || FetchError::Connect("its URL has no host".to_owned());
        let (host, port) = place.ok_or_else(no_host)?;
        let method = Some("GET".to_owned());
        let mut asked =
            Asked { via: Via::Http, destination: host.to_string(), port, method, address: None };
        let allowed = self.allowed_addresses(url, &host, port);
        let connected = dial::connect(shared, allowed, &host, port, rules.limits.connect).await;
        let (stream, address) = match connected {
            Ok(connected) => connected,
            Err(refusal) => {
                asked.address = refusal.address;
                flow.decide(&asked, Decision::Refused, refusal.reason).await;
                return Err(refused(refusal.reason));
            }
        };
        asked.address = Some(address);
        flow.decide(&asked, Decision::Allowed, Reason::Packages).await;
        let quiet = rules.limits.idle.min(QUIET);
        if !url.is_https() {
            return self.exchange(stream, url, accept, quiet).await;
        }
        let name = match &host {
            Host::Name(name) => name.to_string(),
            Host::Address(address) => address.to_string(),
        };
        let connecting = timeout(rules.limits.connect, shared.tls.connect(&name, stream));
        let Ok(Ok(stream)) = connecting.await else { return Err(refused(Reason::Certificate)) };
        self.exchange(stream, url, accept, quiet).await
    }
}

/// The reason's code alone: an address that an index's name has is not the tenant's to learn.
fn refused(reason: Reason) -> FetchError {
    let code: &'static str = match reason {
        Reason::Address(class) => class.into(),
        other => other.into(),
    };
    FetchError::Connect(code.to_owned())
}

impl Body for Pieces {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FetchError> {
        let broken = |why: &str| FetchError::Broken(why.to_owned());
        loop {
            let frame = timeout(self.quiet, self.body.frame()).await;
            let frame = match frame.map_err(|_| broken("it is quiet"))? {
                Some(frame) => frame.map_err(|_| broken("it ended early"))?,
                None => return Ok(None),
            };
            // Anything else is a trailer.
            let Ok(bytes) = frame.into_data() else { continue };
            self.flow
                .count_in(bytes.len())
                .await
                .map_err(|_| broken("the session's bytes are used up"))?;
            self.fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if !bytes.is_empty() {
                return Ok(Some(bytes.to_vec()));
            }
        }
    }
}
