//! Errors as RFC 9457 `application/problem+json`.

use std::any::Any;
use std::num::NonZeroU32;

use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use vivarium_api_types::Scope;
use vivarium_engine::EngineError;
use vivarium_engine::budget::Full;
use vivarium_engine::stores::StoreError;
use vivarium_protocol::message::Failure;

/// RFC 9457, 3.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// In a second.
const NANOS: u128 = 1_000_000_000;

/// What went wrong. `code` is stable; `detail` is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// `urn:vivarium:problem:` and the code.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: Box<str>,
    /// The HTTP status in words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Such as `unknown_session`.
    pub code: &'static str,
    /// What went wrong this time.
    #[schema(value_type = String)]
    pub detail: Box<str>,
    /// The field it is about, as `limits.max_procs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub field: Option<Box<str>>,
    /// The quota that is used up, as `execution_rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub quota: Option<&'static str>,
    /// What an operator can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub fix: Option<Box<str>>,
    /// The scope that the token lacks, as `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Seconds after which to try again.
    #[serde(skip)]
    retry_after_secs: Option<NonZeroU32>,
    #[serde(skip)]
    challenge: Option<Challenge>,
}

/// The challenges of RFC 6750, 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Challenge {
    NoToken,
    /// No tenant has the token, or it has expired.
    InvalidToken,
    /// The token is for something else.
    InsufficientScope(Scope),
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:vivarium:problem:{code}").into(),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code,
            detail: detail.into().into(),
            field: None,
            quota: None,
            fix: None,
            scope: None,
            retry_after_secs: None,
            challenge: None,
        }
    }

    pub(super) const fn challenge(mut self, challenge: Challenge) -> Self {
        self.challenge = Some(challenge);
        self
    }

    pub(super) const fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    pub(super) const fn retry_after(mut self, secs: u32) -> Self {
        self.retry_after_secs = NonZeroU32::new(secs);
        self
    }

    pub(super) fn field(mut self, field: impl Into<Box<str>>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Strings and a number always serialise.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let content_type = HeaderValue::from_static(MEDIA_TYPE);
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        if let Some(secs) = self.retry_after_secs {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs.get()));
        }
        if let Some(challenge) = self.challenge {
            const SCOPE: &str = "Bearer error=\"insufficient_scope\", scope=";
            let challenge = match challenge {
                Challenge::NoToken => HeaderValue::from_static("Bearer"),
                Challenge::InvalidToken => {
                    HeaderValue::from_static("Bearer error=\"invalid_token\"")
                }
                // Three words, which fit a header.
                Challenge::InsufficientScope(scope) => {
                    HeaderValue::try_from(format!("{SCOPE}\"{scope}\""))
                        .unwrap_or(HeaderValue::from_static("Bearer"))
                }
            };
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let status = match &error {
            EngineError::UnknownSession(_)
            | EngineError::UnknownContext(_)
            | EngineError::UnknownCheckpoint(_)
            | EngineError::UnknownExecution(_)
            | EngineError::UnknownApproval(_)
            | EngineError::UnknownCall(_)
            | EngineError::UnknownEnvironment(_)
            | EngineError::UnknownFile(_) => StatusCode::NOT_FOUND,
            EngineError::ExecutionsDenied => StatusCode::FORBIDDEN,
            EngineError::Conflict(_)
            | EngineError::ContextExists(_)
            | EngineError::NotSuspended(_)
            | EngineError::CheckpointExists(_)
            | EngineError::CheckpointsOff
            | EngineError::MainContext
            | EngineError::ApprovalEnded(_)
            | EngineError::CallAnswered(_)
            | EngineError::BuildRunning(_)
            | EngineError::Busy
            | EngineError::Suspended(_)
            | EngineError::NotImageable(_)
            | EngineError::Image(_)
            | EngineError::NotRunning(_)
            | EngineError::NoStdin
            | EngineError::NoTerminal(_)
            | EngineError::LimitInUse { .. }
            | EngineError::NoPorts { .. }
            | EngineError::NotInRuntime { .. }
            | EngineError::NotAFile { .. }
            | EngineError::FileRefused { .. }
            | EngineError::FileExists { .. } => StatusCode::CONFLICT,
            EngineError::EventsGone { .. } | EngineError::ResultGone | EngineError::CallOver(_) => {
                StatusCode::GONE
            }
            EngineError::Invalid { .. }
            | EngineError::Missing { .. }
            | EngineError::KeyReused
            | EngineError::BadPath { .. }
            | EngineError::BadArchive(_) => StatusCode::UNPROCESSABLE_ENTITY,
            EngineError::MayNotBuild => StatusCode::FORBIDDEN,
            EngineError::FileTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            // RFC 4918, 11.5.
            EngineError::NoSpace { .. } | EngineError::EnvironmentsFull { .. } => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            EngineError::PortClosed(_) | EngineError::ToolServer(..) => StatusCode::BAD_GATEWAY,
            EngineError::NoAnswer(_) | EngineError::PortTimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            EngineError::QueueFull { .. }
            | EngineError::TooManyCommands { .. }
            | EngineError::TooManyContexts { .. }
            | EngineError::TooManyBuilds { .. }
            | EngineError::TooManyEnvironments { .. }
            | EngineError::StdinFull(_)
            | EngineError::NoRoom(Full::Tenant { .. })
            | EngineError::TooManyTransfers { .. }
            | EngineError::TooManyPortConnections { .. }
            | EngineError::TooManySessions { .. }
            | EngineError::TooManyOfTenant { .. }
            | EngineError::QuotaExceeded(_)
            | EngineError::ImagesFull { .. }
            | EngineError::TenantPaused(_) => StatusCode::TOO_MANY_REQUESTS,
            EngineError::NoRoom(Full::Daemon { .. })
            | EngineError::NoCapacity(_)
            | EngineError::NoDescriptors
            | EngineError::EgressUnavailable(_)
            | EngineError::NoUv(_)
            | EngineError::EnvironmentsUnavailable(_)
            | EngineError::AuditUnavailable
            | EngineError::Draining
            | EngineError::Paused(_) => StatusCode::SERVICE_UNAVAILABLE,
            EngineError::Store(error) => match error {
                StoreError::Unknown(_) => StatusCode::NOT_FOUND,
                StoreError::Exists(_) | StoreError::InUse { .. } => StatusCode::CONFLICT,
                StoreError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
                StoreError::TenantFull { .. } | StoreError::TooMany { .. } | StoreError::Busy => {
                    StatusCode::TOO_MANY_REQUESTS
                }
                StoreError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
            },
            EngineError::NotStarted(failure) if failure.transient.is_some() => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            EngineError::NotStarted(_)
            | EngineError::ContextNotStarted(_)
            | EngineError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut problem = Self::new(status, error.code(), error.to_string());
        problem.retry_after_secs = error.retry_after().map(|after| {
            let secs = u32::try_from(after.as_nanos().div_ceil(NANOS)).unwrap_or(u32::MAX);
            NonZeroU32::new(secs).unwrap_or(NonZeroU32::MIN)
        });
        match error {
            EngineError::Invalid { field, .. } => problem.field = Some(field.into()),
            EngineError::LimitInUse { limit, .. } => {
                problem.field = Some(format!("limits.{limit}").into());
            }
            EngineError::QuotaExceeded(exceeded) => problem.quota = Some(exceeded.quota.name()),
            EngineError::Missing { field, .. } => problem.field = Some(field.into()),
            EngineError::NoPorts { .. } => {
                problem.fix = Some("make the session with \"network\": \"loopback\"".into());
            }
            EngineError::BadPath { .. } => problem.field = Some("path".into()),
            EngineError::NotStarted(Failure { fix, .. }) if !fix.is_empty() => {
                problem.fix = Some(fix.into());
            }
            _ => {}
        }
        problem
    }
}

pub(super) async fn no_route(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "unknown_path", format!("there is no {}", uri.path()))
}

pub(super) async fn no_method(method: axum::http::Method, uri: Uri) -> Problem {
    let detail =
        format!("{} does not take {method}; the Allow header says what it does", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// Answers a request whose handler panicked. The panic hook has logged it, and the daemon goes on.
pub(super) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    let detail = "a defect of the daemon; its log has more";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
}
