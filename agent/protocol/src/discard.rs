//! The one way to drop a `Result`.

/// Drops a result that makes no difference, for this reason.
pub fn discard<T, E>(result: Result<T, E>, _reason: &'static str) {
    drop(result);
}
