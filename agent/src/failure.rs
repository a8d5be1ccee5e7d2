//! How an error becomes the [`Failure`] that the supervisor receives.

use std::any::Any;
use std::fmt::Display;
use std::io;

use nix::errno::Errno;
use vivarium_protocol::message::{Failure, Transient};
use vivarium_protocol::stream::StreamError;

/// A failure that is no layer's.
pub(crate) fn failure(operation: &str, error: impl Display + Any) -> Failure {
    Failure { transient: transient(&error), ..Failure::new(operation, error.to_string()) }
}

pub(crate) trait OrFailure<T> {
    /// Turns an error into the failure of this operation, which is no layer's.
    fn or_failure(self, operation: &str) -> Result<T, Failure>;
}

impl<T, E: Display + Any> OrFailure<T> for Result<T, E> {
    fn or_failure(self, operation: &str) -> Result<T, Failure> {
        self.map_err(|error| failure(operation, error))
    }
}

/// A failure of fork(2) or clone(2).
pub(crate) fn failure_to_fork(operation: &str, error: io::Error) -> Failure {
    let transient = error.raw_os_error().and_then(Transient::of_fork);
    Failure { transient, ..failure(operation, error) }
}

fn transient(error: &dyn Any) -> Option<Transient> {
    match error.downcast_ref() {
        Some(StreamError::Closed) => Some(Transient::Killed),
        _ => errno(error).and_then(Transient::of),
    }
}

pub(crate) fn errno(error: &dyn Any) -> Option<i32> {
    let of_io = |error: &io::Error| error.raw_os_error();
    if let Some(StreamError::Io(error)) = error.downcast_ref() {
        return of_io(error);
    }
    let errno = error.downcast_ref::<Errno>().map(|errno| *errno as i32);
    errno.or_else(|| error.downcast_ref().and_then(of_io))
}
