//! Layer: user, pid, mount, net, ipc and uts namespaces (namespaces(7)).
//!
//! The launcher makes them all in one clone3, and each kernel joins them by setns(2). The
//! cgroup namespace is the cgroup layer's. Here is which of them to make, what PID 1 has to settle
//! first, and the proof that none of them is the host's.

mod counts;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, setns};
use nix::unistd::{Gid, Pid, Uid, setresgid, setresuid};
use vivarium_protocol::layer::{Layer, Report};

use super::{Context, LayerCode, LayerError, proc_file};

pub(super) use counts::limit as limit_counts;

const HOSTNAME: &str = "vivarium";

/// The namespaces' names in /proc/self/ns, for those made by clone3.
const NAMES: [(CloneFlags, &str); 6] = [
    (CloneFlags::CLONE_NEWUSER, "user"),
    (CloneFlags::CLONE_NEWPID, "pid"),
    (CloneFlags::CLONE_NEWNS, "mnt"),
    (CloneFlags::CLONE_NEWNET, "net"),
    (CloneFlags::CLONE_NEWIPC, "ipc"),
    (CloneFlags::CLONE_NEWUTS, "uts"),
];

pub(super) struct Namespaces;

impl LayerCode for Namespaces {
    fn layer(&self) -> Layer {
        Layer::Namespaces
    }

    fn prepare(&self, context: &Context) -> Result<(), LayerError> {
        become_agent(context)?;
        nix::unistd::sethostname(HOSTNAME)
            .map_err(|error| refused(format!("sethostname({HOSTNAME})"), error))
    }

    fn enter(&self, context: &Context) -> Result<(), LayerError> {
        become_agent(context)
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let wanted = clone_flags(context);
        let mut names = Vec::new();
        for (flag, name) in NAMES.into_iter().filter(|(flag, _)| wanted.contains(*flag)) {
            let inside = identity(name).map_err(|error| {
                LayerError::new(format!("readlink /proc/self/ns/{name}"), error)
            })?;
            let outside = context.host.namespaces.iter().find(|(other, _)| *other == name);
            if flag.is_empty() || outside.is_none_or(|(_, outside)| *outside == inside) {
                return Err(LayerError::not_in_force(
                    format!("a {name} namespace"),
                    "it is the host's own",
                ));
            }
            names.push(name);
        }
        let own = format!("own {}", names.join(", "));
        let limits = if context.applies(Layer::Mounts) {
            counts::verify()?;
            "its limits in /proc/sys/user read back".to_owned()
        } else {
            "its limits in /proc/sys/user are not set, which needs the mounts layer".to_owned()
        };
        let shared = "the host counts processes, pending signals and inotify of all sessions \
                      for the daemon's id as well";
        Ok(Report::enforced(Layer::Namespaces, format!("{own}; {limits}; {shared}")))
    }
}

/// The owner of what the next layers make must be a mapped id.
fn become_agent(context: &Context) -> Result<(), LayerError> {
    let id = if context.policy.ids.is_some() { Context::AGENT_ID } else { Context::KERNEL_ID };
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    setresgid(gid, gid, gid).map_err(|error| refused(format!("setresgid({id})"), error))?;
    setresuid(uid, uid, uid).map_err(|error| refused(format!("setresuid({id})"), error))
}

/// The namespaces to make, or to join.
pub(crate) fn clone_flags(context: &Context) -> CloneFlags {
    if !context.applies(Layer::Namespaces) {
        return CloneFlags::empty();
    }
    let mut flags: CloneFlags = NAMES.into_iter().map(|(flag, _)| flag).collect();
    if context.policy.shares_host_network() || !context.applies(Layer::Network) {
        flags.remove(CloneFlags::CLONE_NEWNET);
    }
    flags
}

#[derive(Debug, Default)]
pub(crate) struct HostFacts {
    /// `readlink /proc/self/ns/<name>` of the launcher, by name.
    pub(crate) namespaces: Vec<(&'static str, String)>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// CPUs that it, and so the session, may run on: sched_getaffinity(2). Asked once: std's
    /// `available_parallelism` reads cgroup files and the mount table each time.
    pub(crate) cpus: u32,
    /// `kernel.core_pattern`: where the host's core dumps go.
    pub(crate) core_pattern: String,
}

impl HostFacts {
    pub(crate) fn capture() -> io::Result<Self> {
        /// All but the user namespace, which launchers change.
        static UNCHANGED: OnceLock<Vec<(&str, String)>> = OnceLock::new();
        let captured = |(_, name)| Ok((name, identity(name)?));
        let [user, others @ ..] = NAMES;
        let mut namespaces = match UNCHANGED.get() {
            Some(captured) => captured.clone(),
            None => {
                let all = others.into_iter().map(captured).collect::<io::Result<_>>()?;
                UNCHANGED.get_or_init(|| all).clone()
            }
        };
        namespaces.push(captured(user)?);
        Ok(Self {
            namespaces,
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            cpus: cpus()?,
            core_pattern: sysctl("kernel/core_pattern").unwrap_or_default(),
        })
    }
}

fn cpus() -> io::Result<u32> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let count = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).count();
    Ok(u32::try_from(count).unwrap_or(u32::MAX).max(1))
}

/// The name of one of this process's namespaces, such as `pid:[4026531836]`.
fn identity(name: &str) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/self/ns/{name}"))?.to_string_lossy().into_owned())
}

/// The namespaces of a session, held open from outside for kernels to join.
///
/// They are opened while the agent is still as the launcher made it. One setns(2) by pidfd
/// would do the same later, but needs the right to trace the agent, which the agent then denies
/// to everybody (`PR_SET_DUMPABLE`).
#[derive(Debug)]
pub(crate) struct SessionNamespaces(Vec<(CloneFlags, OwnedFd)>);

impl SessionNamespaces {
    /// Opens those that the session does not share with the launcher.
    pub(crate) fn open(context: &Context, agent: Pid) -> io::Result<Self> {
        let wanted = clone_flags(context);
        let opened =
            NAMES.into_iter().filter(|(flag, _)| wanted.contains(*flag)).map(|(flag, name)| {
                let file = fs::File::open(format!("/proc/{agent}/ns/{name}"))?;
                Ok((flag, OwnedFd::from(file)))
            });
        opened.collect::<io::Result<_>>().map(Self)
    }

    /// Takes a session's namespaces, which another process sent, from `fds`.
    pub(crate) fn receive(
        context: &Context,
        fds: &mut impl Iterator<Item = OwnedFd>,
    ) -> io::Result<Self> {
        let wanted = clone_flags(context);
        let received =
            NAMES.into_iter().filter(|(flag, _)| wanted.contains(*flag)).map(|(flag, name)| {
                let missing = || io::Error::other(format!("there is no {name} namespace"));
                Ok((flag, fds.next().ok_or_else(missing)?))
            });
        received.collect::<io::Result<_>>().map(Self)
    }

    /// Their descriptors, in the order in which [`SessionNamespaces::receive`] takes them.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, fd)| fd.as_fd())
    }

    /// Joins the user namespace alone, if there is one.
    pub(crate) fn enter_user(&self) -> nix::Result<()> {
        self.one(CloneFlags::CLONE_NEWUSER)
            .map_or(Ok(()), |namespace| setns(namespace, CloneFlags::CLONE_NEWUSER))
    }

    /// The network namespace, if the session has its own.
    pub(crate) fn network(&self) -> Option<BorrowedFd<'_>> {
        self.one(CloneFlags::CLONE_NEWNET)
    }

    fn one(&self, wanted: CloneFlags) -> Option<BorrowedFd<'_>> {
        self.0.iter().find(|(flag, _)| *flag == wanted).map(|(_, fd)| fd.as_fd())
    }

    /// Joins all of them, the user namespace first, as it gives the right to join the others.
    /// The pid namespace takes effect for children only.
    pub(crate) fn enter(&self) -> nix::Result<()> {
        self.0.iter().try_for_each(|(flag, namespace)| setns(namespace, *flag))
    }
}

/// What to tell the operator when clone3 refused the namespaces.
pub(crate) fn diagnose(error: io::Error) -> LayerError {
    let failed = LayerError::new("clone3 with a user namespace", error);
    let zero = |name: &str| sysctl(name).is_some_and(|value| value == "0");
    if zero("user/max_user_namespaces") {
        failed.with_fix("sysctl user.max_user_namespaces=10000")
    } else if zero("kernel/unprivileged_userns_clone") {
        failed.with_fix("sysctl kernel.unprivileged_userns_clone=1")
    } else {
        failed.with_fix(apparmor_fix().unwrap_or(
            "allow user namespaces: no container or seccomp filter around the daemon may forbid \
             clone(CLONE_NEWUSER)",
        ))
    }
}

/// An operation that takes a capability of the new user namespace.
fn refused(operation: String, error: Errno) -> LayerError {
    LayerError::new(operation, error).with_fix(apparmor_fix().unwrap_or_default())
}

/// What to tell the operator when a capability of the new user namespace did not work.
pub(crate) fn apparmor_fix() -> Option<&'static str> {
    sysctl("kernel/apparmor_restrict_unprivileged_userns").filter(|value| value == "1").map(|_| {
        "load the AppArmor profile that allows vivarium-agent user namespaces (apparmor_parser -r \
         /etc/apparmor.d/vivarium-agent, which the package installs), or \
         sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    })
}

/// The value of a sysctl, if this kernel has it.
fn sysctl(name: &str) -> Option<String> {
    proc_file::text(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vivarium_protocol::policy::Network;

    use super::super::landlock::fixture;
    use super::*;

    #[test]
    fn the_hosts_network_is_kept_only_where_it_is_to_be() {
        let flags = |layers: &[Layer], network| {
            clone_flags(&fixture::context(layers, network, Path::new("/")))
        };
        let both = [Layer::Namespaces, Layer::Network];
        let all: CloneFlags = NAMES.into_iter().map(|(flag, _)| flag).collect();
        let shared = all - CloneFlags::CLONE_NEWNET;
        for network in [Network::None, Network::Loopback, Network::Trusted] {
            assert_eq!(flags(&both, network), all, "{network:?}");
            assert_eq!(flags(&both[..1], network), shared, "{network:?}");
        }
        assert_eq!(flags(&both, Network::Full), shared);
        assert_eq!(flags(&both[1..], Network::None), CloneFlags::empty());
    }

    #[test]
    fn verification_fails_in_a_namespace_of_the_launchers() {
        let layers = [Layer::Namespaces, Layer::Network];
        let mut context = fixture::context(&layers, Network::None, Path::new("/"));
        let ours = HostFacts::capture().unwrap();
        let others = |(name, _): &(&'static str, String)| (*name, "another".to_owned());
        let others: Vec<_> = ours.namespaces.iter().map(others).collect();
        context.host.namespaces.clone_from(&others);
        Namespaces.verify(&context).unwrap();
        for (index, shared) in ours.namespaces.into_iter().enumerate() {
            context.host.namespaces.clone_from(&others);
            let (name, _) = shared;
            *context.host.namespaces.get_mut(index).unwrap() = shared;
            assert!(Namespaces.verify(&context).is_err(), "{name}");
            context.host.namespaces.remove(index);
            assert!(Namespaces.verify(&context).is_err(), "nothing to compare with");
        }
    }

    #[test]
    fn facts_of_the_host_are_captured() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
        };
        let host = HostFacts::capture().unwrap();
        let bits = |digit: char| digit.to_digit(16).map_or(0, u32::count_ones);
        assert_eq!(host.cpus, field("Cpus_allowed:").chars().map(bits).sum::<u32>());
        let ids = |name| field(name).split_whitespace().nth(1).unwrap().to_owned();
        assert_eq!([host.uid, host.gid].map(|id| id.to_string()), [ids("Uid:"), ids("Gid:")]);
        for (name, is) in &host.namespaces {
            let kind = name.strip_suffix("_for_children").unwrap_or(name);
            assert!(is.starts_with(&format!("{kind}:[")), "{name}: {is}");
        }
        assert_eq!(sysctl("kernel/ostype").as_deref(), Some("Linux"));
        assert_eq!(sysctl("kernel/no_such_sysctl"), None);
    }
}
