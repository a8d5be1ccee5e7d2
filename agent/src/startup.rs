//! What every program that the supervisor executes does first.

use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::message::Failure;

use crate::failure::failure;
use crate::{sandbox, sys};

/// Lets go of everything inherited, before reading any input.
pub(crate) fn sanitise() -> Result<(), Failure> {
    sys::close_from(3).map_err(|error| failure("close inherited descriptors", error))?;
    sys::clear_environment().map_err(|error| failure("clear the environment", error))?;
    sandbox::abort_core_dumps()
}

/// Refuses a supervisor of another release.
pub(crate) fn check_protocol(version: u32) -> Result<(), Failure> {
    if version == PROTOCOL_VERSION {
        return Ok(());
    }
    let reason = format!(
        "the supervisor speaks version {version}, this agent {PROTOCOL_VERSION}: install both from \
         the same release"
    );
    Err(failure("agree on the protocol", reason))
}
