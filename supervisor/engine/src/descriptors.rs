//! The errno behind an error, and whether it says that no descriptors are left.

use std::error::Error;
use std::io;

use nix::errno::Errno;

/// Whether this, or what caused it, is that this process or the host has no descriptor left
/// (`EMFILE`, `ENFILE`).
pub(crate) fn are_exhausted(error: &(dyn Error + 'static)) -> bool {
    matches!(errno(error), Some(Errno::EMFILE | Errno::ENFILE))
}

/// The errno of this error, or of what caused it.
pub(crate) fn errno(error: &(dyn Error + 'static)) -> Option<Errno> {
    let of_io = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    let errno = of_io.map(Errno::from_raw).or_else(|| error.downcast_ref::<Errno>().copied());
    errno.or_else(|| error.source().and_then(self::errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::LaunchError;

    #[test]
    fn exhaustion_is_found_behind_what_it_caused() {
        let of = |errno: Errno| LaunchError::Socket(io::Error::from(errno));
        assert!(are_exhausted(&of(Errno::EMFILE)));
        assert!(are_exhausted(&of(Errno::ENFILE)));
        assert!(are_exhausted(&Errno::EMFILE));
        assert!(!are_exhausted(&of(Errno::ENOMEM)));
        assert!(!are_exhausted(&io::Error::other("EMFILE")));
    }
}
