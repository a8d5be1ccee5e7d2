//! A small HTTP client for the daemon's API, over TCP or a Unix socket, one request at a time
//! on one kept connection. For the command line and the benchmark.

mod url;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, UnixStream};

use crate::tenant::Token;
pub use url::{Transport, Url, UrlError};

/// The largest answer that is read. More than any outcome can be.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Why there is no answer, or none that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody there.
    #[error("cannot connect to {url}")]
    Connect {
        /// Where.
        url: Url,
        /// Why not.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to {url} failed")]
    Http {
        /// Where.
        url: Url,
        /// How.
        source: hyper::Error,
    },
    /// The answer could not be read to its end.
    #[error("the answer of {url} cannot be read: {why}")]
    Body {
        /// Where.
        url: Url,
        /// Why not.
        why: String,
    },
    /// The request is none.
    #[error("cannot ask {url}: {why}")]
    Request {
        /// Where.
        url: Url,
        /// Why not.
        why: String,
    },
    /// The daemon refused, and said why.
    #[error("{detail} ({status}, {code})")]
    Problem {
        /// The HTTP status.
        status: StatusCode,
        /// The stable code of the problem.
        code: String,
        /// In words.
        detail: String,
    },
    /// The answer is not what this version understands.
    #[error("{url} gave an answer that is not the API's ({status}): {why}")]
    Answer {
        /// Where.
        url: Url,
        /// The HTTP status.
        status: StatusCode,
        /// What is wrong with it.
        why: String,
    },
}

/// A daemon, and who asks it.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Where it is.
    pub url: Url,
    /// The token of the tenant who asks, if the daemon has tenants.
    pub token: Option<Token>,
}

impl From<Url> for Remote {
    fn from(url: Url) -> Self {
        Self { url, token: None }
    }
}

/// A connection that is made when it is needed, and kept.
#[derive(Debug)]
pub struct Client {
    url: Url,
    token: Option<Token>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// The parts of a problem (RFC 9457) that are shown.
#[derive(serde::Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
}

impl Client {
    /// A client of this daemon, not yet connected.
    #[must_use]
    pub fn new(remote: impl Into<Remote>) -> Self {
        let Remote { url, token } = remote.into();
        Self { url, token, sender: None }
    }

    /// Whether it presents a token.
    #[must_use]
    pub const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Where it connects to.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// Any [`ClientError`] but [`ClientError::Problem`] and [`ClientError::Answer`].
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.url.host());
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let refused = |why: String| ClientError::Request { url: self.url.clone(), why };
        if let Some(token) = &self.token {
            // Without what is in it: it is a secret, if not a valid one.
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| refused("the token has characters that no token has".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| refused(error.to_string()))?;
        let mut sender = self.connected().await?;
        let failed = |source| ClientError::Http { url: self.url.clone(), source };
        let answer = sender.send_request(request).await.map_err(failed)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await
            .map_err(|error| ClientError::Body { url: self.url.clone(), why: error.to_string() })?;
        // Only now: a request that was given up half-way leaves a connection of no use.
        self.sender = Some(sender);
        Ok((status, body.to_bytes()))
    }

    /// Sends `body` as JSON, if there is one, and reads the answer as JSON.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn json<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T, ClientError> {
        let refused = |why: String| ClientError::Request { url: self.url.clone(), why };
        let body = body.map(serde_json::to_vec).transpose().map_err(|e| refused(e.to_string()))?;
        let (status, answer) = self.send(method, path, body.unwrap_or_default()).await?;
        if !status.is_success() {
            return Err(self.problem(status, &answer));
        }
        // An answer without content is `null`.
        let text: &[u8] = if answer.is_empty() { b"null" } else { &answer };
        serde_json::from_slice(text).map_err(|error| ClientError::Answer {
            url: self.url.clone(),
            status,
            why: error.to_string(),
        })
    }

    fn problem(&self, status: StatusCode, answer: &[u8]) -> ClientError {
        match serde_json::from_slice::<Problem>(answer) {
            Ok(Problem { code, title, detail }) => {
                let detail = if detail.is_empty() { title } else { detail };
                ClientError::Problem { status, code, detail }
            }
            Err(error) => {
                let why = error.to_string();
                ClientError::Answer { url: self.url.clone(), status, why }
            }
        }
    }

    /// The kept connection if it still is one, else a new one.
    async fn connected(&mut self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let failed = |source| ClientError::Connect { url: self.url.clone(), source };
        match self.url.transport() {
            Transport::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                // Without it a small request waits for the delayed acknowledgement of the one
                // before (tcp(7), TCP_NODELAY).
                stream.set_nodelay(true).map_err(failed)?;
                self.shake(stream).await
            }
            Transport::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(failed)?;
                self.shake(stream).await
            }
        }
    }

    async fn shake<S>(&self, stream: S) -> Result<SendRequest<Full<Bytes>>, ClientError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let failed = |source| ClientError::Http { url: self.url.clone(), source };
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
        tokio::spawn(async move {
            // What goes wrong is told to who waits for the answer, too.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the daemon ended");
            }
        });
        Ok(sender)
    }
}

#[cfg(test)]
mod tests;
