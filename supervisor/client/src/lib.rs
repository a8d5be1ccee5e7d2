//! A small HTTP client for the daemon's API, over TCP or a Unix socket, one request at a time
//! on one kept connection. For the command line and the benchmark.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod connection;
mod error;
mod event;
mod execution;
mod request;
mod sse;
mod url;

use http_body_util::{BodyExt, Limited};
pub use hyper::Method;
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncWrite, AsyncWriteExt};

pub use error::ClientError;
pub use event::Event;
pub use execution::Execution;
pub use request::Ask;
pub use sse::{Decoder, SseError, SseEvent};
pub use url::{Transport, Url, UrlError};

use vivarium_api_types::Token;

use request::Body;

/// The largest answer that is read as a whole. More than any outcome can be.
const MAX_ANSWER_BYTES: usize = 256 << 20;

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
    sender: Option<SendRequest<Body>>,
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub struct Answer {
    url: Url,
    headers: HeaderMap,
    body: Incoming,
}

impl Answer {
    /// Its headers.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The next part of its body; none at the end.
    ///
    /// # Errors
    /// [`ClientError::Body`] if the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                // Trailers are of no interest.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    return Err(ClientError::Body {
                        url: self.url.clone(),
                        why: error.to_string(),
                    });
                }
            }
        }
    }

    /// Writes the whole body, and says how many bytes it had.
    ///
    /// # Errors
    /// [`ClientError::Body`] and [`ClientError::Write`].
    pub async fn copy(mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<u64, ClientError> {
        let mut count = 0;
        while let Some(chunk) = self.chunk().await? {
            to.write_all(&chunk).await.map_err(|source| self.unwritten(source))?;
            count += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        }
        to.flush().await.map_err(|source| self.unwritten(source))?;
        Ok(count)
    }

    fn unwritten(&self, source: std::io::Error) -> ClientError {
        ClientError::Write { url: self.url.clone(), source }
    }
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
        let ask = Ask::new(method, path);
        let ask = if body.is_empty() { ask } else { ask.json_bytes(body) };
        let (status, answer, sender) = self.exchange(ask).await?;
        let body = self.whole(answer.body).await?;
        // Only now: a request that was given up half-way leaves a connection of no use.
        self.sender = Some(sender);
        Ok((status, body))
    }

    /// Sends a request, and gives an answer of success to be read as it comes. Its connection
    /// ends with it.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn open(&mut self, ask: Ask) -> Result<Answer, ClientError> {
        let (status, answer, _) = self.exchange(ask).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let body = self.whole(answer.body).await?;
        Err(error::problem(&self.url, status, &body))
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
        let ask = Ask::new(method, path);
        let ask = match body {
            None => ask,
            Some(body) => ask.json(body).map_err(|error| self.refused(error.to_string()))?,
        };
        self.ask(ask).await
    }

    /// Sends a request and reads the answer as JSON.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn ask<T: DeserializeOwned>(&mut self, ask: Ask) -> Result<T, ClientError> {
        let (status, answer, sender) = self.exchange(ask).await?;
        let body = self.whole(answer.body).await?;
        self.sender = Some(sender);
        if !status.is_success() {
            return Err(error::problem(&self.url, status, &body));
        }
        // An answer without content is `null`.
        let text: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(text).map_err(|error| ClientError::Answer {
            url: self.url.clone(),
            status,
            why: error.to_string(),
        })
    }

    /// Sends a request and reads the head of its answer.
    async fn exchange(
        &mut self,
        ask: Ask,
    ) -> Result<(StatusCode, Answer, SendRequest<Body>), ClientError> {
        let (builder, body) = ask.into_parts();
        let mut builder = builder.header(HOST, self.url.host());
        if let Some(token) = &self.token {
            // Without what is in it: it is a secret, if not a valid one.
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
                    self.refused("the token has characters that no token has".to_owned())
                })?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        let request = builder.body(body).map_err(|error| self.refused(error.to_string()))?;
        let mut sender = self.connected().await?;
        let failed = |source| ClientError::Http { url: self.url.clone(), source };
        let answer = sender.send_request(request).await.map_err(failed)?;
        let (head, body) = answer.into_parts();
        let answer = Answer { url: self.url.clone(), headers: head.headers, body };
        Ok((head.status, answer, sender))
    }

    async fn whole(&self, body: Incoming) -> Result<Bytes, ClientError> {
        let collected = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let collected = collected
            .map_err(|error| ClientError::Body { url: self.url.clone(), why: error.to_string() })?;
        Ok(collected.to_bytes())
    }

    fn refused(&self, why: String) -> ClientError {
        ClientError::Request { url: self.url.clone(), why }
    }
}

#[cfg(test)]
mod tests;
