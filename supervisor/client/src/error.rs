//! Why a daemon's answer is not what was hoped for.

use hyper::StatusCode;

use super::sse::SseError;
use super::url::Url;

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
    /// The stream of events is none.
    #[error("{url} sent events that cannot be read")]
    Events {
        /// Where.
        url: Url,
        /// What is wrong with them.
        source: SseError,
    },
    /// The stream of events ended too early, and so did those that were asked for in its place.
    #[error("the connection to {url} broke {attempts} times without anything new")]
    Broken {
        /// Where.
        url: Url,
        /// How often it was tried.
        attempts: u32,
    },
    /// The request is none.
    #[error("cannot ask {url}: {why}")]
    Request {
        /// Where.
        url: Url,
        /// Why not.
        why: String,
    },
    /// What was received could not be written.
    #[error("cannot write what {url} sent")]
    Write {
        /// From where.
        url: Url,
        /// Why not.
        source: std::io::Error,
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

impl ClientError {
    /// Whether the same request may go through on another connection.
    #[must_use]
    pub const fn is_of_the_connection(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Http { .. } | Self::Body { .. })
    }

    /// The code of the problem that the daemon told, if it did.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem { code, .. } => Some(code),
            _ => None,
        }
    }
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

/// What a body that came with an error's status says.
pub(super) fn problem(url: &Url, status: StatusCode, answer: &[u8]) -> ClientError {
    match serde_json::from_slice::<Problem>(answer) {
        Ok(Problem { code, title, detail }) => {
            let detail = if detail.is_empty() { title } else { detail };
            ClientError::Problem { status, code, detail }
        }
        Err(error) => {
            let why = error.to_string();
            ClientError::Answer { url: url.clone(), status, why }
        }
    }
}
