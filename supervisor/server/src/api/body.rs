//! Reads request bodies in pieces, with bounds on pauses and on the average rate.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use tokio::time::{Instant, Sleep, sleep, timeout};
use vivarium_engine::quotas::{TenantQuotas, Wait};

use super::Problem;

/// The longest pause of a client within a body, and the longest time it may read nothing of an answer.
pub(super) const PAUSE_AT_MOST: Duration = Duration::from_secs(30);

/// The least average rate, in bytes a second, at which a client must send a body or read an answer.
/// [`PAUSE_AT_MOST`] is allowed on top, once.
pub(super) const MIN_RATE: u64 = 8 << 10;

/// The longest total wait for so many bytes.
pub(super) const fn allowed_for(bytes: u64) -> Duration {
    PAUSE_AT_MOST.saturating_add(Duration::from_millis(bytes.saturating_mul(1000) / MIN_RATE))
}

/// How much of a refused body is still read, and for how long, so that a client which reads its
/// answer only after sending everything gets one instead of a reset connection.
const DRAIN_BYTES: usize = 64 << 20;
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// The least time between two looks for tokens.
pub(super) const PAUSE_FOR_TOKENS: Duration = Duration::from_millis(5);

/// An extension of requests: the tokens that their bytes and those of the response take.
#[derive(Debug, Clone)]
pub(super) struct Shaped(Arc<TenantQuotas>);

impl Shaped {
    pub(super) const fn new(quotas: Arc<TenantQuotas>) -> Self {
        Self(quotas)
    }

    /// Takes as many tokens as there are, at most so many.
    pub(super) fn take(&self, most: u64) -> Result<u64, Wait> {
        self.0.transfer(most)
    }

    /// Waits until so many bytes may pass.
    async fn pass(&self, bytes: usize) {
        let mut left = bytes as u64;
        while left > 0 {
            match self.take(left) {
                Ok(taken) => left -= taken,
                Err(Wait(time)) => sleep(time.max(PAUSE_FOR_TOKENS)).await,
            }
        }
    }
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(super) struct Pieces {
    body: Body,
    /// One timer for all pieces: resetting one is cheap, a new one wakes the runtime.
    pause: Pin<Box<Sleep>>,
    /// The total time spent waiting for the client.
    waited: Duration,
    received: u64,
    shaped: Option<Shaped>,
}

impl Pieces {
    pub(super) fn new(body: Body) -> Self {
        let pause = Box::pin(sleep(PAUSE_AT_MOST));
        Self { body, pause, waited: Duration::ZERO, received: 0, shaped: None }
    }

    /// The body of a request that has these extensions.
    pub(super) fn of(extensions: &Extensions, body: Body) -> Self {
        Self { shaped: extensions.get().cloned(), ..Self::new(body) }
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
            // Other frames are trailers, which mean nothing here.
            if let Ok(data) = frame.into_data() {
                self.received += data.len() as u64;
                // The wait is not the client's.
                if let Some(shaped) = &self.shaped {
                    shaped.pass(data.len()).await;
                }
                return Ok(Some(data));
            }
        }
    }

    /// Discards the rest, up to `DRAIN_BYTES` and `DRAIN_WITHIN`.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::task::JoinSet;
    use vivarium_engine::quotas::Quotas;
    use vivarium_engine::settings::{self, Rate, Tenant};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_bodies_at_once_never_pass_one_byte_more_than_their_tenants_rate() {
        let rate = Rate { count: 10_000, per: Duration::from_secs(1) };
        let quotas = settings::Quotas { transfer_rate: Some(rate), ..Default::default() };
        let tenants = Quotas::default();
        tenants.set(&BTreeMap::from([("t".to_owned(), Tenant { quotas, ..Tenant::default() })]));
        let mut extensions = Extensions::new();
        extensions.insert(Shaped::new(tenants.of("t")));
        let (since, passed) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let mut all = JoinSet::new();
        for _ in 0..1000 {
            let mut pieces = Pieces::of(&extensions, Body::from(vec![0; 12]));
            let passed = Arc::clone(&passed);
            all.spawn(async move {
                while let Ok(Some(piece)) = pieces.next().await {
                    let bytes = piece.len() as u64;
                    let total = passed.fetch_add(bytes, Ordering::Relaxed) + bytes;
                    let most = 10_000 + since.elapsed().as_millis() * 10;
                    assert!(u128::from(total) <= most, "{total} of {most}");
                }
            });
        }
        while let Some(one) = all.join_next().await {
            one.unwrap();
        }
        assert_eq!(passed.load(Ordering::Relaxed), 12_000);
    }
}
