//! Capability sets: capabilities(7). Only ever smaller.

use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};

use super::super::LayerError;
use super::own_status::OwnStatus;
use crate::sys;

/// What the agent serves a session with; each holds only for what its user namespace owns.
pub(super) const AGENT: [Capability; 5] = [
    Capability::CAP_KILL,         // ends kernels, whose id is another
    Capability::CAP_DAC_OVERRIDE, // reads and writes the tenant's files for the API
    Capability::CAP_CHOWN,        // gives the kernel the files it puts into the workdir
    Capability::CAP_FOWNER,       // removes and changes what the tenant owns
    Capability::CAP_SYS_PTRACE,   // reads /proc of the session's processes for their usage
];

/// What pasta keeps of its own accord: isolation.c of passt.
pub(super) const PASST: [Capability; 3] = [
    Capability::CAP_SYS_ADMIN, // joins the network namespace, and unshares what it has no use for
    Capability::CAP_NET_ADMIN, // makes the interface, with addresses and routes
    Capability::CAP_NET_BIND_SERVICE, // asks for it, and has no port to bind
];

/// What working on a home or volume from outside of sessions takes.
pub(super) const STORAGE: [Capability; 3] =
    [Capability::CAP_DAC_OVERRIDE, Capability::CAP_CHOWN, Capability::CAP_FOWNER];

/// What this process may use now.
pub(super) fn permitted() -> Result<CapsHashSet, LayerError> {
    caps::read(None, CapSet::Permitted).map_err(failed("read the permitted set"))
}

/// Securebits that say nothing but "capabilities are not for the asking here", each with its
/// lock: NOROOT, NO_SETUID_FIXUP, KEEP_CAPS (locked off), NO_CAP_AMBIENT_RAISE. See
/// capabilities(7), "The securebits flags", and the kernel's include/uapi/linux/securebits.h.
const SECUREBITS: u32 = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80;

/// Empties every set but the bounding set, save for `keep`, which stays effective and
/// permitted.
pub(super) fn keep(keep: &[Capability]) -> Result<(), LayerError> {
    let kept: CapsHashSet = keep.iter().copied().collect();
    caps::clear(None, CapSet::Ambient).map_err(failed("clear the ambient set"))?;
    // Effective must be within permitted, so it shrinks first.
    for set in [CapSet::Effective, CapSet::Permitted] {
        let what = format!("set the {set:?} set to {keep:?}");
        caps::set(None, set, &kept).map_err(failed(what))?;
    }
    caps::clear(None, CapSet::Inheritable).map_err(failed("clear the inheritable set"))
}

/// Has exactly these, and hands them on to the program that is executed next, whatever its file says: the
/// ambient set of capabilities(7).
pub(super) fn hand_on(these: &[Capability]) -> Result<(), LayerError> {
    keep(these)?;
    let these: CapsHashSet = these.iter().copied().collect();
    for set in [CapSet::Inheritable, CapSet::Ambient] {
        let what = format!("set the {set:?} set");
        caps::set(None, set, &these).map_err(failed(what))?;
    }
    Ok(())
}

/// Takes all but `keep` out of the bounding set where the caller has CAP_SETPCAP. Where it has not,
/// the report says what is left.
pub(super) fn bound_if_permitted(keep: &[Capability]) -> Result<(), LayerError> {
    let permitted = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)
        .map_err(failed("read the effective set"))?;
    if permitted { bound(keep) } else { Ok(()) }
}

/// Takes all but `keep` out of the bounding set. Needs CAP_SETPCAP.
pub(super) fn bound(keep: &[Capability]) -> Result<(), LayerError> {
    let dropped = (0..u8::MAX).filter(|number| !keep.iter().any(|kept| kept.index() == *number));
    for number in dropped {
        match sys::drop_from_bounding_set(number) {
            Ok(()) => {}
            // Beyond the last that this kernel has.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && number > 0 => break,
            Err(error) => {
                return Err(LayerError::new(format!("prctl(PR_CAPBSET_DROP, {number})"), error));
            }
        }
    }
    Ok(())
}

/// Takes all privileges from user id 0, for good. Needs CAP_SETPCAP.
pub(super) fn lock_securebits() -> Result<(), LayerError> {
    sys::set_securebits(SECUREBITS).map_err(|error| {
        LayerError::new(format!("prctl(PR_SET_SECUREBITS, {SECUREBITS:#x})"), error)
    })
}

pub(super) fn verify_securebits() -> Result<(), LayerError> {
    let found =
        sys::securebits().map_err(|error| LayerError::new("prctl(PR_GET_SECUREBITS)", error))?;
    if found == SECUREBITS {
        return Ok(());
    }
    Err(LayerError::not_in_force(format!("securebits {SECUREBITS:#x}"), format!("{found:#x}")))
}

/// Checks that the kernel has no capability that it could use now or after an execve.
pub(super) fn verify(status: &OwnStatus) -> Result<(), LayerError> {
    match status.capabilities.into_iter().find(|(_, set)| *set != 0) {
        None => Ok(()),
        Some((name, set)) => {
            Err(LayerError::not_in_force(format!("{name} empty"), format!("{set:#x}")))
        }
    }
}

/// Says so if the bounding set is not empty: the host gave no CAP_SETPCAP, or its kernel has
/// capabilities that we do not know.
pub(super) fn left_in_bounding_set(status: &OwnStatus) -> Option<(String, &'static str)> {
    (status.bounding != 0).then(|| {
        let what = format!(
            "the bounding set is {:#x}, of which no_new_privs lets nothing be gained",
            status.bounding
        );
        (what, "make the namespaces layer available")
    })
}

fn failed(operation: impl Into<String>) -> impl FnOnce(CapsError) -> LayerError {
    let operation = operation.into();
    move |error| LayerError::new(operation, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(effective: u64, bounding: u64) -> OwnStatus {
        OwnStatus {
            uids: vec![1000; 4],
            gids: vec![1000; 4],
            groups: Vec::new(),
            capabilities: [("CapInh", 0), ("CapPrm", 0), ("CapEff", effective), ("CapAmb", 0)],
            bounding,
            no_new_privs: true,
        }
    }

    /// linux/securebits.h, from NOROOT to the lock of NO_CAP_AMBIENT_RAISE. KEEP_CAPS is off.
    #[test]
    fn each_securebit_is_locked() {
        assert_eq!(SECUREBITS, 0b1110_1111);
        // Tests do not lock their own.
        assert!(verify_securebits().is_err());
    }

    #[test]
    fn one_capability_left_is_an_error_and_is_named() {
        assert!(verify(&status(0, 0)).is_ok());
        let error = verify(&status(0x20_0000, 0)).map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains("CapEff") && text.contains("0x200000")));
    }

    #[test]
    fn capabilities_left_in_the_bounding_set_are_reported() {
        assert_eq!(left_in_bounding_set(&status(0, 0)), None);
        assert!(left_in_bounding_set(&status(0, 1)).is_some());
    }
}
