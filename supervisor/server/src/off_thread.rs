//! What takes long for large bodies, where it holds up nobody else's requests.

use axum::body::Bytes;
use serde::de::DeserializeOwned;
pub(crate) use vivarium_engine::off_thread::by_size;

/// Parses JSON, in bytes that hold what accounts for them.
pub(crate) async fn from_slice<T>(json: &Bytes) -> serde_json::Result<T>
where
    T: DeserializeOwned + Send + 'static,
{
    let json = json.clone();
    by_size(json.len(), move || serde_json::from_slice(&json)).await
}
