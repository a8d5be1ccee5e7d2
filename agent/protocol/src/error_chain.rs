//! An error with its causes, where it is shown: once, at the top.

use std::error::Error;
use std::fmt::Write as _;

/// The error and its causes, on one line.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String can not fail.
        write!(text, ": {error}").unwrap_or_default();
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_on_one_line() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot open x")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("no"));
        assert_eq!(error_chain(&error), "cannot open x: no");
    }
}
