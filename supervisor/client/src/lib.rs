//! A small HTTP client of the daemon's API, over TCP or a Unix socket, with one request at a time
//! on one keep-alive connection.
//!
//! [`Client`] has a method for each route; [`Execution`] follows what runs, across broken connections.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin;
mod approvals;
mod connection;
mod contexts;
mod environments;
mod error;
mod event;
mod execution;
mod executions;
mod files;
mod homes;
mod images;
pub mod path;
mod request;
mod sessions;
mod sse;
mod url;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
pub use hyper::{Method, header};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncWrite, AsyncWriteExt};

pub use environments::Builder;
pub use error::ClientError;
pub use event::Event;
pub use execution::Execution;
pub use executions::Round;
pub use files::{FileWatch, FileWatchEvent, UploadKind};
pub use homes::Store;
pub use request::ApiRequest;
pub use sse::{Decoder, SseError, SseEvent};
pub use url::{Transport, Url, UrlError};
/// Requests and answers.
pub use vivarium_api_types as types;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use types::Token;

use request::Body;

/// The most entries of one page of a list.
const PAGE: usize = 1000;

/// The largest body that is read as a whole. More than any outcome can have.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// A daemon, and the credentials to present.
#[derive(Debug, Clone)]
pub struct Remote {
    /// The daemon's URL.
    pub url: Url,
    /// The tenant's token, if the daemon has tenants.
    pub token: Option<Token>,
}

impl From<Url> for Remote {
    fn from(url: Url) -> Self {
        Self { url, token: None }
    }
}

/// A client that connects when it needs to, and keeps the connection.
#[derive(Debug)]
pub struct Client {
    url: Url,
    token: Option<Token>,
    sender: Option<SendRequest<Body>>,
}

/// A successful response whose body is still to be read.
#[derive(Debug)]
pub struct ApiResponse {
    url: Url,
    body: Incoming,
}

impl ApiResponse {
    /// The next part of the body; none at the end.
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

    /// Writes the whole body to `to`, and returns its size in bytes.
    ///
    /// # Errors
    /// [`ClientError::Body`] and [`ClientError::Write`].
    pub async fn copy_to(
        mut self,
        to: &mut (impl AsyncWrite + Unpin + ?Sized),
    ) -> Result<u64, ClientError> {
        let mut count = 0;
        while let Some(chunk) = self.chunk().await? {
            to.write_all(&chunk).await.map_err(|source| self.write_error(source))?;
            count += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        }
        to.flush().await.map_err(|source| self.write_error(source))?;
        Ok(count)
    }

    fn write_error(&self, source: std::io::Error) -> ClientError {
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

    /// The daemon's URL.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request and reads the whole body, whatever the status.
    ///
    /// # Errors
    /// Any [`ClientError`] but [`ClientError::Problem`] and [`ClientError::Malformed`].
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let request = ApiRequest::new(method, path);
        let request = if body.is_empty() { request } else { request.json_bytes(body) };
        let (status, response, sender) = self.exchange(request).await?;
        let body = self.read_body(response.body).await?;
        // Only now: a request that was given up half-way leaves an unusable connection.
        self.sender = Some(sender);
        Ok((status, body))
    }

    /// Sends a request, and returns the response, whatever its status, to be read as it comes. Its
    /// connection is not used again.
    ///
    /// # Errors
    /// [`ClientError`] if there is no response.
    pub async fn respond(
        &mut self,
        request: ApiRequest,
    ) -> Result<Response<Incoming>, ClientError> {
        Ok(self.exchange_whole(request).await?.0)
    }

    /// Sends a request, and returns a successful response to be read as it comes. Its connection is
    /// not used again.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn open(&mut self, request: ApiRequest) -> Result<ApiResponse, ClientError> {
        let (status, response, _) = self.exchange(request).await?;
        if status.is_success() {
            return Ok(response);
        }
        let body = self.read_body(response.body).await?;
        Err(error::problem(&self.url, status, &body))
    }

    /// Sends `body` as JSON, if there is one, and reads the response's body as JSON.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn json<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T, ClientError> {
        let request = ApiRequest::new(method, path);
        let request = match body {
            None => request,
            Some(body) => request.json_bytes(self.body(body)?),
        };
        self.call(request).await
    }

    /// Sends a request and reads the response's body as JSON.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        request: ApiRequest,
    ) -> Result<T, ClientError> {
        let (status, response, sender) = self.exchange(request).await?;
        let body = self.read_body(response.body).await?;
        self.sender = Some(sender);
        if !status.is_success() {
            return Err(error::problem(&self.url, status, &body));
        }
        // An empty body is `null`.
        let text: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(text).map_err(|error| ClientError::Malformed {
            url: self.url.clone(),
            status,
            why: error.to_string(),
        })
    }

    /// Sends a request and reads the head of the response.
    async fn exchange(
        &mut self,
        request: ApiRequest,
    ) -> Result<(StatusCode, ApiResponse, SendRequest<Body>), ClientError> {
        let (response, sender) = self.exchange_whole(request).await?;
        let (head, body) = response.into_parts();
        let response = ApiResponse { url: self.url.clone(), body };
        Ok((head.status, response, sender))
    }

    /// Sends a request and reads the head of the response.
    async fn exchange_whole(
        &mut self,
        request: ApiRequest,
    ) -> Result<(Response<Incoming>, SendRequest<Body>), ClientError> {
        let (builder, body) = request.into_parts();
        let mut builder = builder.header(HOST, self.url.host());
        if let Some(token) = &self.token {
            // The message must not have the token in it: even an invalid one is a secret.
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
                    self.invalid("the token has characters that no token has".to_owned())
                })?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        let request = builder.body(body).map_err(|error| self.invalid(error.to_string()))?;
        let mut sender = self.connected().await?;
        let failed = |source| ClientError::Http { url: self.url.clone(), source };
        Ok((sender.send_request(request).await.map_err(failed)?, sender))
    }

    async fn read_body(&self, body: Incoming) -> Result<Bytes, ClientError> {
        let collected = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let collected = collected
            .map_err(|error| ClientError::Body { url: self.url.clone(), why: error.to_string() })?;
        Ok(collected.to_bytes())
    }

    fn body(&self, value: &(impl Serialize + Sync)) -> Result<Vec<u8>, ClientError> {
        serde_json::to_vec(value).map_err(|error| self.invalid(error.to_string()))
    }

    fn invalid(&self, why: String) -> ClientError {
        ClientError::Request { url: self.url.clone(), why }
    }
}

#[cfg(test)]
mod tests;
