//! What the host's kernel counts by user namespace: namespaces(7), "The /proc/sys/user directory".
//!
//! It counts in the session's namespace, for each user in it, and the same again in each namespace
//! above, for the one who made the namespace below: on the host that is the daemon's id, for all
//! sessions together. So a session that had the calls could use up what the others need. The
//! limits of its own namespace keep it from that, should seccomp not. They hold for those who
//! have CAP_SYS_RESOURCE in it: nobody, once the agent has given it up.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use vivarium_protocol::layer::Layer;

use super::super::{Context, LayerError, proc_file};
use crate::files::{WATCHERS_MAX, WATCHES_MAX};

const DIRECTORY: &str = "/proc/sys/user";

/// What agents have for themselves: an instance, one for each watcher of files, and another before one
/// of them is closed.
const INOTIFY_INSTANCES: u64 = 2 + WATCHERS_MAX as u64;

/// Each instance has as many.
const INOTIFY_WATCHES: u64 = WATCHES_MAX as u64 * (1 + WATCHERS_MAX as u64);

/// The agent's, and those of processes that start while others end.
const SPARE_CGROUP_NAMESPACES: u64 = 8;

/// No more of these. The session's own are there already.
const NONE: [&str; 9] = [
    "max_user_namespaces",
    "max_pid_namespaces",
    "max_mnt_namespaces",
    "max_net_namespaces",
    "max_ipc_namespaces",
    "max_uts_namespaces",
    "max_time_namespaces",
    "max_fanotify_groups",
    "max_fanotify_marks",
];

fn limits(context: &Context) -> Vec<(&'static str, u64)> {
    let mut all: Vec<_> = NONE.into_iter().map(|name| (name, 0)).collect();
    all.push(("max_inotify_instances", INOTIFY_INSTANCES));
    all.push(("max_inotify_watches", INOTIFY_WATCHES));
    // Each kernel and each command takes one as it starts.
    let processes = context.policy.limits.max_procs.get();
    if !context.applies(Layer::Cgroup) {
        all.push(("max_cgroup_namespaces", 0));
    } else if let Some(processes) = processes {
        let most = processes.saturating_add(SPARE_CGROUP_NAMESPACES);
        all.push(("max_cgroup_namespaces", most));
    }
    all
}

/// Sets the limits of the caller's user namespace, by the `/proc` below `root`, and reads each back.
pub(in crate::sandbox) fn limit(context: &Context, root: &Path) -> Result<(), LayerError> {
    let directory = root.join(DIRECTORY.trim_start_matches('/'));
    limits(context).into_iter().try_for_each(|(name, most)| {
        let path = directory.join(name);
        let mut text = [0; 32];
        let found =
            OpenOptions::new().read(true).write(true).truncate(true).open(&path).and_then(|file| {
                file.write_all_at(most.to_string().as_bytes(), 0)?;
                let length = file.read_at(&mut text, 0)?;
                Ok(text.get(..length).unwrap_or_default())
            });
        match found {
            Ok(found) => is(&path, most, str::from_utf8(found).unwrap_or_default()),
            // This kernel does not have all of them.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => {
                Err(LayerError::new(format!("limit {} to {most}", path.display()), error))
            }
        }
    })
}

/// Checks that the caller is where they are set, by the one that the others rest on: whatever takes
/// a namespace needs a capability, which a user namespace would give.
pub(super) fn verify() -> Result<(), LayerError> {
    let path = Path::new(DIRECTORY).join("max_user_namespaces");
    is(&path, 0, &proc_file::read(&path)?)
}

fn is(path: &Path, expected: u64, text: &str) -> Result<(), LayerError> {
    if text.trim().parse() == Ok(expected) {
        return Ok(());
    }
    let wanted = format!("{expected} in {}", path.display());
    Err(LayerError::not_in_force(wanted, text.trim()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vivarium_protocol::policy::Network;
    use vivarium_protocol::units::Limit;

    use super::super::super::landlock::fixture;
    use super::*;

    fn context(layers: &[Layer]) -> Context {
        fixture::context(layers, Network::None, Path::new("/"))
    }

    #[test]
    fn no_namespace_can_be_made_beyond_those_that_spawning_takes() {
        let without = limits(&context(&[Layer::Namespaces]));
        for name in NONE.into_iter().chain(["max_cgroup_namespaces"]) {
            assert!(without.contains(&(name, 0)), "{name}");
        }
        assert!(without.contains(&("max_inotify_instances", 6)));
        assert!(without.contains(&("max_inotify_watches", 5120)));
        assert_eq!(without.len(), NONE.len() + 3);
        let mut with = context(&[Layer::Namespaces, Layer::Cgroup]);
        assert!(limits(&with).contains(&("max_cgroup_namespaces", 64 + 8)));
        with.policy.limits.max_procs = Limit::Unlimited;
        assert!(!limits(&with).iter().any(|(name, _)| *name == "max_cgroup_namespaces"));
    }

    #[test]
    fn namespace_counts_are_written_and_read_back() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("proc/sys/user");
        let context = context(&[Layer::Namespaces]);
        fs::create_dir_all(&directory).unwrap();
        for (name, _) in limits(&context) {
            fs::write(directory.join(name), "127\n").unwrap();
        }
        limit(&context, root.path()).unwrap();
        for (name, most) in limits(&context) {
            assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), most.to_string());
        }

        // What cannot be written to, and what does not keep what is written.
        let one = directory.join("max_time_namespaces");
        fs::remove_file(&one).unwrap();
        fs::create_dir(&one).unwrap();
        assert!(limit(&context, root.path()).is_err());
        fs::remove_dir(&one).unwrap();
        std::os::unix::fs::symlink("/dev/null", &one).unwrap();
        let failed = limit(&context, root.path()).map_err(|error| error.to_string());
        assert!(failed.is_err_and(|text| text.contains("not in force")));
    }

    #[test]
    fn a_limit_that_this_kernel_does_not_know_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("proc/sys/user");
        fs::create_dir_all(&directory).unwrap();
        let context = context(&[Layer::Namespaces]);
        for (name, _) in limits(&context) {
            // Below what does not exist nothing is made.
            std::os::unix::fs::symlink("/nonexistent/limit", directory.join(name)).unwrap();
        }
        limit(&context, root.path()).unwrap();
    }

    #[test]
    fn verification_fails_outside_of_a_session() {
        assert!(verify().is_err());
    }
}
