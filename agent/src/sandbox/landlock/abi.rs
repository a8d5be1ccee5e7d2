//! What the running kernel's Landlock can do, and what is reported of it.

use landlock::{LandlockStatus, RestrictSelf};
use vivarium_protocol::layer::{Layer, Report};

use super::super::LayerError;

/// What each ABI added that the layer uses: landlock(7), "Compatibility". ABIs 7 and 8 changed
/// only how denials are logged and how threads are restricted.
const ADDED: [(i32, &str); 6] = [
    (2, "moves between directories"),
    (3, "truncation"),
    (4, "TCP"),
    (5, "device ioctls"),
    (6, "signals and abstract sockets"),
    (SOCKETS, "sockets that have a path"),
];

/// Since when connecting to a socket that has a path takes a right.
const SOCKETS: i32 = 9;

/// From here on the layer counts as whole. ABI 1 can not allow a move between directories, so
/// under it `os.rename` fails inside the workdir. What later ABIs add, other layers have as
/// well: the tenant may write wherever it could truncate, and the pid, network and mount
/// namespaces hold off signals, connections and devices.
const WHOLE: i32 = 2;

/// The running kernel's ABI version. Asks only: a `RestrictSelf` without flags changes nothing.
pub(super) fn running() -> Result<i32, LayerError> {
    let asked = RestrictSelf::default()
        .no_new_privs(false)
        .apply()
        .map_err(|error| LayerError::new("ask for Landlock's ABI", error))?;
    match asked.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Ok(kernel_abi.unwrap_or(effective_abi as i32))
        }
        LandlockStatus::NotEnabled => Err(LayerError::new(
            "landlock_create_ruleset",
            "Landlock is built into the kernel but not in its active list of security modules",
        )
        .with_fix("add landlock to the lsm= list on the kernel's command line, and reboot")),
        LandlockStatus::NotImplemented => Err(LayerError::new(
            "landlock_create_ruleset",
            "the kernel has no Landlock, or a seccomp filter around vivarium hides it",
        )
        .with_fix(
            "use Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK, and allow landlock_* in the \
             seccomp profile of a container around vivarium",
        )),
    }
}

/// What holds under `abi`, and what a newer kernel would add.
pub(super) fn report(abi: i32) -> Report {
    let beyond: Vec<_> = ADDED
        .iter()
        .filter(|(since, _)| *since > abi)
        .map(|(since, what)| format!("{what} (ABI {since})"))
        .collect();
    let mut detail = format!("ABI {abi}: every right it has is denied but on the allow-list");
    if !beyond.is_empty() {
        detail.push_str("; newer kernels add ");
        detail.push_str(&beyond.join(", "));
    }
    if abi >= WHOLE {
        Report::enforced(Layer::Landlock, detail)
    } else {
        Report::partial(Layer::Landlock, detail, "use Linux 5.19 or newer")
    }
}

/// The same where the mounts layer does not hide the host's files. Landlock has no right for what
/// is said here: landlock(7), "Filesystem actions".
pub(super) fn report_alone(abi: i32) -> Report {
    let Report { detail, .. } = report(abi);
    let sockets = if abi < SOCKETS { ", and sockets that have a path be connected to" } else { "" };
    Report::partial(
        Layer::Landlock,
        format!(
            "{detail}; without the mounts layer names, sizes and times of the host's files can be \
             seen, modes, times, owners and attributes of what the daemon's user owns be \
             changed{sockets}; /dev/shm and /tmp are the host's and stay closed, so \
             multiprocessing has no locks"
        ),
        "make the mounts layer available: its own entry says how",
    )
}

#[cfg(test)]
mod tests {
    use vivarium_protocol::layer::Status;

    use super::*;

    #[test]
    fn a_report_names_what_is_missing_and_nothing_else() {
        let debian_12 = report(2);
        assert_eq!(debian_12.status, Status::Enforced);
        assert!(debian_12.detail.contains("truncation (ABI 3)"));
        assert!(!debian_12.detail.contains("moves"));
        assert_eq!(report(1).status, Status::Partial);
        assert!(!report(9).detail.contains("newer"));
    }

    #[test]
    fn alone_it_is_partial_and_says_what_is_open() {
        for (abi, sockets) in [(7, true), (9, false)] {
            let alone = report_alone(abi);
            assert_eq!(alone.status, Status::Partial);
            assert!(alone.detail.contains("modes, times"), "{alone:?}");
            assert_eq!(alone.detail.contains("connected to"), sockets, "{alone:?}");
        }
    }
}
