//! pasta, passt's user-mode network stack, for a session of network `full`: it opens the interface inside,
//! and makes connections outside for what it reads there.
//!
//! It is started before anything of the tenant's runs, in the agent's cgroup leaf, with the agent's id, with
//! three capabilities of the session's user namespace and none of the host's. It joins nothing of the session but
//! its user namespace, and confines itself: passt(1), "Security and Privileges". Whatever ends the session
//! ends it: the launcher kills it when the agent has ended, and the kernel kills it when the launcher has.

use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Pid, execve, getpid, getppid, pipe2};
use rustix::process::pidfd_send_signal;
use vivarium_protocol::discard;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::Failure;
use vivarium_protocol::passt::{self, Passt};

use crate::failure::{OrFailure, failure, failure_to_fork};
use crate::log::print_line;
use crate::sandbox::{self, Context, SessionNamespaces};
use crate::sys::{self, DescriptorTable, Forked, SingleThreaded, Wait};

/// Locally administered, so that the host's own is not told.
const MAC: &str = "02:00:00:00:00:01";

/// What pasta may say of why it ended.
const MAX_MESSAGES: usize = 4096;

/// Dropped, it is killed and waited for.
#[derive(Debug)]
pub(super) struct Pasta {
    pid: Pid,
    handle: OwnedFd,
    /// Readable when the interface is there, or pasta has ended.
    ready: File,
    /// Its standard error, held open so that writing there never kills it.
    messages: File,
}

impl Pasta {
    /// Starts it, if the session is to have it. `leaf` is the agent's.
    pub(super) fn start(
        thread: SingleThreaded,
        context: &Context,
        namespaces: &SessionNamespaces,
        leaf: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Self>, Failure> {
        let Some(passt) = &context.policy.passt else { return Ok(None) };
        let pipe = || pipe2(OFlag::O_CLOEXEC).or_failure("pipe");
        let (ready, to_ready) = pipe()?;
        let (messages, to_messages) = pipe()?;
        // It opens this one anew, by its path and with another id.
        fchmod(&to_ready, Mode::S_IRUSR | Mode::S_IWUSR | Mode::S_IWOTH).or_failure("fchmod")?;
        for end in [messages.as_fd(), to_messages.as_fd()] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).or_failure("fcntl")?;
        }
        let arguments = arguments(passt).or_failure("name pasta")?;
        let launcher = getpid();
        let forked = sys::clone3(thread, CloneFlags::empty(), leaf)
            .map_err(|error| failure_to_fork("fork pasta", error))?;
        let pid = match forked {
            Forked::Parent { child } => child,
            Forked::Child(table) => {
                let outputs = [to_ready.as_fd(), to_messages.as_fd()];
                let failed = execute(table, context, namespaces, launcher, outputs, &arguments);
                print_line(&format!("{failed}"));
                sys::exit_now(1);
            }
        };
        let handle = sys::pidfd_open(pid).or_failure("pidfd_open")?;
        Ok(Some(Self { pid, handle, ready: ready.into(), messages: messages.into() }))
    }

    /// Waits until the interface is there. `lifeline` ends the wait as well.
    pub(super) fn await_interface(&mut self, lifeline: BorrowedFd<'_>) -> Result<(), Failure> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [readable(self.ready.as_fd()), readable(lifeline)];
        while let Err(error) = poll(&mut fds, PollTimeout::NONE) {
            if error != Errno::EINTR {
                return Err(failure("poll", error));
            }
        }
        // Its pid, once; at its end nothing.
        let is_ready = fds.first().and_then(PollFd::any) == Some(true);
        let said = is_ready.then(|| self.ready.read(&mut [0; 32])).transpose();
        if said.or_failure("read from pasta")?.is_some_and(|len| len > 0) {
            return Ok(());
        }
        let why = self.messages();
        let why = if why.is_empty() { "it ended without a word".to_owned() } else { why };
        Err(Failure {
            layer: Some(Layer::Network),
            fix: "let the daemon's user and its subordinate ids open /dev/net/tun (mode 0666), have \
                  the host's default route and /etc/resolv.conf in order, or set egress.passt to off"
                .to_owned(),
            ..failure("start pasta", why)
        })
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Says that it has ended, although the session has not: the session's interface is gone.
    pub(super) fn log_end(&mut self, how: &dyn std::fmt::Debug) {
        let said = self.messages();
        print_line(&format!("a session has lost its network: pasta ended ({how:?}): {said}"));
    }

    fn messages(&mut self) -> String {
        let mut text = vec![0; MAX_MESSAGES];
        let len = self.messages.read(&mut text).unwrap_or(0);
        text.truncate(len);
        let text = String::from_utf8_lossy(&text);
        let is_of_pasta = |line: &&str| !line.starts_with("Failed to send ");
        text.lines().filter(is_of_pasta).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Pasta {
    fn drop(&mut self) {
        let killed = pidfd_send_signal(&self.handle, rustix::process::Signal::KILL);
        discard(killed, "it may have ended");
        discard(sys::wait(Wait::For(self.pid)), "it may have been waited for");
    }
}

/// Becomes pasta. Returns only why it could not.
fn execute(
    table: DescriptorTable,
    context: &Context,
    namespaces: &SessionNamespaces,
    launcher: Pid,
    [ready, messages]: [BorrowedFd<'_>; 2],
    (program, arguments): &(CString, Vec<CString>),
) -> Failure {
    let become_it = || {
        // What fails from here on is said there.
        sys::replace(std::io::stderr().as_fd(), messages).or_failure("dup2")?;
        SigSet::all().thread_unblock().or_failure("unblock signals")?;
        sys::default_signals().or_failure("reset the signals")?;
        namespaces.enter_user().or_failure("setns into the session's user namespace")?;
        sandbox::become_passt(context)?;
        // After the changes of ids and capabilities, which clear it.
        prctl::set_pdeathsig(Signal::SIGKILL).or_failure("prctl(PDEATHSIG)")?;
        if getppid() != launcher {
            return Err(failure("start pasta", "the launcher has ended"));
        }
        let null = sys::open_null().or_failure("open /dev/null")?;
        let network = namespaces.network().ok_or_else(|| failure("start pasta", "no namespace"))?;
        table
            .place(&[network, ready, messages], null.as_fd(), None)
            .or_failure("place descriptors")?;
        let none: [CString; 0] = [];
        let Err(errno) = execve(program, arguments, &none);
        Err(failure(&format!("execve {}", program.to_string_lossy()), errno))
    };
    let done: Result<std::convert::Infallible, Failure> = become_it();
    let Err(failed) = done;
    failed
}

/// Its path and its arguments: pasta(1). The namespace is its standard input, as newer versions close
/// all but the standard streams before they open anything.
fn arguments(passt: &Passt) -> Result<(CString, Vec<CString>), NulError> {
    let mut options = vec![
        "pasta".to_owned(),
        "--foreground".to_owned(),
        "--quiet".to_owned(),
        "--config-net".to_owned(),
        // The host's loopback is nobody's to reach.
        "--no-map-gw".to_owned(),
        "--no-dhcp".to_owned(),
        "--no-dhcpv6".to_owned(),
        "--no-ra".to_owned(),
        "--netns-only".to_owned(),
        "--no-netns-quit".to_owned(),
    ];
    let mut add = |option: &str, value: &dyn ToString| {
        options.extend([option.to_owned(), value.to_string()]);
    };
    // No port of either side appears at the other.
    for option in ["--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"] {
        add(option, &"none");
    }
    add("--ns-ifname", &passt::INTERFACE);
    add("--mac-addr", &MAC);
    add("--address", &passt::ADDRESS_V4);
    add("--netmask", &passt::PREFIX_LEN_V4);
    add("--gateway", &passt::GATEWAY_V4);
    add("--address", &passt::ADDRESS_V6);
    add("--gateway", &passt::GATEWAY_V6);
    if let Some(resolver) = passt.resolver {
        add("--dns-forward", &resolver);
    }
    add("--netns", &"/proc/self/fd/0");
    add("--pid", &"/proc/self/fd/1");
    let program = CString::new(passt.program.as_os_str().as_bytes())?;
    let arguments: Result<_, _> = options.into_iter().map(CString::new).collect();
    Ok((program, arguments?))
}
