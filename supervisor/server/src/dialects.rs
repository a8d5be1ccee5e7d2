//! Dialects: protocols of clients that exist, spoken in front of the native API.
//!
//! Each only translates. What a dialect does it does by requests of the native API
//! ([`native::Native`]), with the credentials of its own client: it holds no engine, no settings and
//! no right of its own.

pub mod dispatch;
pub mod e2b;
pub mod form;
pub(crate) mod held;
pub mod jupyter;
pub mod librechat;
mod lines;
pub mod mcp;
pub mod native;
mod place;

use axum::body::Bytes;
use serde::de::DeserializeOwned;

use crate::off_thread;

/// Parses the JSON of a body. Clients send nothing, or some space, for an empty object.
async fn parsed<T: DeserializeOwned + Send + 'static>(body: &Bytes) -> serde_json::Result<T> {
    let is_blank = body.len() <= 64 && body.trim_ascii().is_empty();
    let empty = Bytes::from_static(b"{}");
    off_thread::from_slice(if is_blank { &empty } else { body }).await
}

/// The name of an exception's class alone, as `__name__` and notebooks have it.
fn class_name(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_say_not_where_they_are() {
        for name in ["Wrong", "module.Wrong", "module.outer.<locals>.Wrong"] {
            assert_eq!(class_name(name), "Wrong");
        }
    }
}
