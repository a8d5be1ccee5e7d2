//! Bodies, piece by piece, from clients that may pause only so long.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::Problem;

/// How long a client may pause within a body, and how long it may take nothing of an answer.
pub(super) const PAUSE_AT_MOST: Duration = Duration::from_secs(30);

/// The least rate, in bytes a second, at which a client is to send a body or take an answer while
/// it is waited for. [`PAUSE_AT_MOST`] is allowed on top of that, once.
pub(super) const MIN_RATE: u64 = 8 << 10;

/// How long may be waited for so many bytes.
pub(super) const fn allowed_for(bytes: u64) -> Duration {
    PAUSE_AT_MOST.saturating_add(Duration::from_millis(bytes.saturating_mul(1000) / MIN_RATE))
}

/// How much of a body that is refused is still read, so that a client which does not look
/// before it has sent everything gets an answer instead of a reset connection.
const DRAIN_BYTES: usize = 64 << 20;

/// The longest drain.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// How long a body is, where the client says so.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(super) struct Pieces {
    body: Body,
    /// One timer for all pieces: to move one is cheap, to make one wakes the runtime.
    pause: Pin<Box<Sleep>>,
    /// How long it has been waited for, whatever else took time.
    waited: Duration,
    received: u64,
}

impl Pieces {
    pub(super) fn new(body: Body) -> Self {
        let pause = Box::pin(sleep(PAUSE_AT_MOST));
        Self { body, pause, waited: Duration::ZERO, received: 0 }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let since = Instant::now();
            let left = allowed_for(self.received).saturating_sub(self.waited);
            if let Some(until) = since.checked_add(left.min(PAUSE_AT_MOST)) {
                self.pause.as_mut().reset(until);
            }
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                () = self.pause.as_mut() => return Err(too_slow()),
            };
            self.waited += since.elapsed();
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| {
                let detail = format!("the body could not be read: {error}");
                Problem::new(StatusCode::BAD_REQUEST, "incomplete_body", detail)
            })?;
            // What is no data are trailers, which mean nothing here.
            if let Ok(data) = frame.into_data() {
                self.received += data.len() as u64;
                return Ok(Some(data));
            }
        }
    }

    /// Reads on for a while and forgets.
    pub(super) async fn drain(mut self) {
        let all = async {
            let mut drained = 0;
            while let Some(Ok(frame)) = self.body.frame().await {
                drained += frame.data_ref().map_or(0, Bytes::len);
                if drained > DRAIN_BYTES {
                    break;
                }
            }
        };
        if timeout(DRAIN_WITHIN, all).await.is_err() {
            tracing::debug!("a body that is refused is also slow");
        }
    }
}

fn too_slow() -> Problem {
    let pause = PAUSE_AT_MOST.as_secs();
    let detail = format!("the body paused for {pause} s, or came at less than {MIN_RATE} bytes/s");
    Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", detail)
}
