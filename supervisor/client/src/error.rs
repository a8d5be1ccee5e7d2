//! Errors of the client.

use hyper::StatusCode;

use super::sse::SseError;
use super::url::Url;

/// Why a request did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection was made.
    #[error("cannot connect to {url}")]
    Connect {
        /// The daemon's URL.
        url: Url,
        /// The cause.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to {url} failed")]
    Http {
        /// The daemon's URL.
        url: Url,
        /// The cause.
        source: hyper::Error,
    },
    /// The response's body could not be read to its end.
    #[error("the answer of {url} cannot be read: {why}")]
    Body {
        /// The daemon's URL.
        url: Url,
        /// The reason.
        why: String,
    },
    /// The event stream is malformed.
    #[error("{url} sent events that cannot be read")]
    Events {
        /// The daemon's URL.
        url: Url,
        /// The cause.
        source: SseError,
    },
    /// The event stream ended too early, and so did every attempt to resume it.
    #[error("the connection to {url} broke {attempts} times without anything new")]
    Broken {
        /// The daemon's URL.
        url: Url,
        /// The number of attempts.
        attempts: u32,
    },
    /// The request is not valid HTTP.
    #[error("cannot ask {url}: {why}")]
    Request {
        /// The daemon's URL.
        url: Url,
        /// The reason.
        why: String,
    },
    /// The received body could not be written.
    #[error("cannot write what {url} sent")]
    Write {
        /// The daemon's URL.
        url: Url,
        /// The cause.
        source: std::io::Error,
    },
    /// The daemon refused the request.
    #[error("{detail} ({status}, {code})")]
    Problem {
        /// The HTTP status.
        status: StatusCode,
        /// The stable code of the problem.
        code: String,
        /// The explanation for people.
        detail: String,
    },
    /// The response is not one of the API of this version.
    #[error("{url} gave an answer that is not the API's ({status}): {why}")]
    Malformed {
        /// The daemon's URL.
        url: Url,
        /// The HTTP status.
        status: StatusCode,
        /// The reason.
        why: String,
    },
}

impl ClientError {
    /// Whether the same request may succeed on another connection.
    #[must_use]
    pub const fn is_connection_error(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Http { .. } | Self::Body { .. })
    }

    /// How much of a write to standard input was taken before the command stopped reading it
    /// (`stdin_full`); the rest may be sent again.
    #[must_use]
    pub fn written_bytes(&self) -> Option<usize> {
        let Self::Problem { code, detail, .. } = self else { return None };
        let number = detail.strip_suffix(" bytes were written")?.rsplit(' ').next()?;
        (code == "stdin_full").then(|| number.parse().ok()).flatten()
    }

    /// The code of the daemon's refusal, if it refused.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem { code, .. } => Some(code),
            _ => None,
        }
    }
}

/// The members of a problem (RFC 9457) that are shown.
#[derive(serde::Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
}

/// The error in the body of an unsuccessful response.
pub(super) fn problem(url: &Url, status: StatusCode, answer: &[u8]) -> ClientError {
    match serde_json::from_slice::<Problem>(answer) {
        Ok(Problem { code, title, detail }) => {
            let detail = if detail.is_empty() { title } else { detail };
            ClientError::Problem { status, code, detail }
        }
        Err(error) => {
            let why = error.to_string();
            ClientError::Malformed { url: url.clone(), status, why }
        }
    }
}
