//! The credentials layer: who the session's processes are, and what they may do as that.
//!
//! The kernel ends with no capability in any set, no group but its own, and no way to gain
//! either. The agent keeps the few capabilities it serves a session with. Nothing here ever
//! raises a capability, or runs as an id that is the host's root.

mod capabilities;
mod identity;
mod own_status;

use nix::sys::prctl;
use vivarium_protocol::layer::{Layer, Report};

use super::{Context, LayerCode, LayerError};
pub(super) use own_status::OwnStatus;

pub(crate) struct Credentials;

impl LayerCode for Credentials {
    fn layer(&self) -> Layer {
        Layer::Credentials
    }

    fn enter(&self, context: &Context) -> Result<(), LayerError> {
        // Without a user namespace the agent is an ordinary process of the daemon's user, with
        // no capability to keep or drop.
        if context.applies(Layer::Namespaces) {
            identity::become_agent(context)?;
            capabilities::bound_if_permitted(&capabilities::AGENT)?;
            capabilities::keep(&capabilities::AGENT)?;
        }
        no_new_privs()?;
        forbid_tracing()
    }

    fn restrict(&self, context: &Context) -> Result<(), LayerError> {
        if context.applies(Layer::Namespaces) {
            // While there is still CAP_SETPCAP to lock them, and CAP_SETUID for the ids.
            capabilities::bound(&[])?;
            capabilities::lock_securebits()?;
            identity::become_kernel(context)?;
        } else {
            capabilities::bound_if_permitted(&[])?;
            identity::stay(context)?;
        }
        // A change of ids sets what fs.suid_dumpable says. Before the capabilities go, for which
        // nobody in the session could trace it: cap_ptrace_access_check in security/commoncap.c.
        forbid_tracing()?;
        capabilities::keep(&[])?;
        no_new_privs()
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let status = OwnStatus::read()?;
        identity::verify(context, &status)?;
        capabilities::verify(&status)?;
        if !status.no_new_privs {
            return Err(LayerError::not_in_force("PR_SET_NO_NEW_PRIVS", "NoNewPrivs is 0"));
        }
        if context.applies(Layer::Namespaces) {
            capabilities::verify_securebits()?;
        }
        Ok(report(context, &status))
    }
}

/// For the launcher, when its session's ids are mapped: gives up what it has by being in the
/// namespace of all subordinate ids. To enter the session it needs no capability: it owns it.
pub(crate) fn give_up_capabilities() -> Result<(), LayerError> {
    capabilities::bound_if_permitted(&[])?;
    capabilities::keep(&[])
}

/// For pasta, which is about to be executed in the session's user namespace: the agent's id, and what it
/// takes to make an interface there and to confine itself. execve(2) keeps that, and gives no more.
pub(crate) fn become_passt(context: &Context) -> Result<(), LayerError> {
    identity::become_agent(context)?;
    capabilities::bound(&capabilities::PASST)?;
    capabilities::hand_on(&capabilities::PASST)?;
    no_new_privs()
}

/// For a process that works on a home or volume: keeps what reading, giving away and removing files of
/// subordinate ids takes, where it has that at all.
pub(crate) fn keep_for_storage() -> Result<(), LayerError> {
    let held = capabilities::permitted()?;
    let kept: Vec<_> = capabilities::STORAGE.into_iter().filter(|one| held.contains(one)).collect();
    capabilities::bound_if_permitted(&kept)?;
    capabilities::keep(&kept)?;
    no_new_privs()?;
    forbid_tracing()
}

/// Nobody without a capability over the host may trace this process or open its /proc files:
/// proc(5), `PR_SET_DUMPABLE` of prctl(2).
pub(super) fn forbid_tracing() -> Result<(), LayerError> {
    prctl::set_dumpable(false).map_err(|errno| LayerError::new("prctl(PR_SET_DUMPABLE, 0)", errno))
}

/// execve(2) gives no privilege from now on: set-user-id bits and file capabilities are void.
fn no_new_privs() -> Result<(), LayerError> {
    prctl::set_no_new_privs()
        .map_err(|errno| LayerError::new("prctl(PR_SET_NO_NEW_PRIVS, 1)", errno))
}

/// What holds, and what the host did not grant.
fn report(context: &Context, status: &OwnStatus) -> Report {
    let missing: Vec<(String, &str)> = [
        identity::shared_id(context),
        identity::left_groups(context, status),
        capabilities::left_in_bounding_set(status),
    ]
    .into_iter()
    .flatten()
    .collect();
    let held = format!(
        "uid {}, gid {}, no capabilities, no_new_privs",
        status.real_uid(),
        status.real_gid()
    );
    if missing.is_empty() {
        return Report::enforced(Layer::Credentials, held);
    }
    let (details, mut fixes): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    fixes.dedup();
    Report::partial(
        Layer::Credentials,
        format!("{held}; but {}", details.join(", and ")),
        fixes.join("; "),
    )
}

#[cfg(test)]
mod tests {
    use super::super::landlock::fixture;
    use super::*;

    /// Landlock and seccomp set it too, so that in a session this one is not seen to.
    #[test]
    fn no_program_gives_privileges() {
        fixture::in_child(concat!(module_path!(), "::no_program_gives_privileges"), || {
            no_new_privs().unwrap();
            assert!(OwnStatus::read().unwrap().no_new_privs);
        });
    }
}
