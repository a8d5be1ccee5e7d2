//! What takes long for large bodies, on a thread where it holds up nobody else's requests.

use axum::body::Bytes;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

/// From so many bytes on. JSON of many small values takes some 10 ns a byte, and another thread some 30 µs to answer.
const LARGE_BYTES: usize = 128 << 10;

/// Does `work` on so many bytes.
pub(crate) async fn by_size<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LARGE_BYTES {
        return work();
    }
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only where the daemon ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Parses JSON.
pub(crate) async fn from_slice<T>(json: &Bytes) -> serde_json::Result<T>
where
    T: DeserializeOwned + Send + 'static,
{
    let json = json.clone();
    by_size(json.len(), move || serde_json::from_slice(&json)).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_what_is_large_leaves_the_thread() {
        let own = thread::current().id();
        let of = |bytes| by_size(bytes, || thread::current().id());
        assert_eq!(of(LARGE_BYTES - 1).await, own);
        assert_ne!(of(LARGE_BYTES).await, own);
    }

    #[tokio::test]
    #[should_panic(expected = "as it was")]
    async fn a_panic_stays_one() {
        by_size(LARGE_BYTES, || panic!("as it was")).await
    }
}
