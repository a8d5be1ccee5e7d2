//! What every program that the supervisor executes does first.

use std::ffi::CStr;

use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::message::Failure;

use crate::failure::{OrFailure, failure};
use crate::sys::{DescriptorTable, SingleThreaded};
use crate::{sandbox, sys};

/// The name of processes that wait for a session, by which an operator tells them from those of one.
pub(crate) const SPARE: &CStr = c"viv-spare";

/// Lets go of everything inherited, before reading any input.
pub(crate) fn sanitise(table: &DescriptorTable) -> Result<SingleThreaded, Failure> {
    table.close_from(3).or_failure("close inherited descriptors")?;
    let thread = SingleThreaded::verify().or_failure("start with one thread")?;
    sys::clear_environment(thread).or_failure("clear the environment")?;
    sandbox::abort_core_dumps()?;
    Ok(thread)
}

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
