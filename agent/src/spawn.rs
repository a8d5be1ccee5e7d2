//! Starting a tenant's process: it joins the session and its cgroup, is confined, and becomes Python
//! or a command.
//!
//! ```text
//! launcher ── fork ──▶ forked child ── setns, continue in a clone ──▶ kernel or command
//! ```
//!
//! The forked child is not in the session yet: setns(2) with a pid namespace takes effect for
//! children only, and only clone3(2) puts a process into a cgroup. So the child clones itself with its
//! memory shared ([`sys::continue_in_clone`]), and ends.
//! A zygote takes the launcher's place in this picture ([`crate::zygote`]), and the kernel
//! then continues as the program that it was forked from instead of executing one.
//!
//! A process that has joined waits until the agent says that the session is set up, which it is for all but the first.
//!
//! Kernels and commands alike come in by [`join_session`], then [`confine`]. No layer is applied to
//! them anywhere else.

mod image;

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::SigSet;
use nix::unistd::{Pid, chdir, getpid, setsid};
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Failure, GO_ON, Origin, Program, SpawnReport};
use vivarium_protocol::stream;

use self::image::Image;
pub(crate) use self::image::{NOT_EXECUTABLE, wasm_arguments};
use crate::failure::{OrFailure, failure, failure_to_fork};
use crate::sandbox::{self, Context, SessionNamespaces};
use crate::sys::{self, DescriptorTable, Forked, HeldProgram, SingleThreaded, Wait};

/// What a process is to become, and what it gets.
struct SpawnRequest<'a> {
    image: Image,
    descriptors: &'a [OwnedFd],
    report: &'a UnixStream,
}

/// Starts a process in the session that has these `namespaces`. Returns its pid as seen from here, or
/// `None` if it could not be started. The report socket gets the reason, also if the process could
/// not be confined or executed.
pub(crate) fn spawn_process(
    thread: SingleThreaded,
    context: &Context,
    namespaces: &SessionNamespaces,
    program: &Program,
    fds: &[OwnedFd],
) -> Result<Option<Pid>, Failure> {
    let Some((report, descriptors)) = fds.split_last() else {
        return Err(failure("start a process", "the agent sent no descriptors"));
    };
    let report = report.try_clone().or_failure("dup")?.into();
    let started = Image::of(context, program).and_then(|image| {
        fork_and_join(
            thread,
            context,
            namespaces,
            &SpawnRequest { image, descriptors, report: &report },
        )
    });
    match started {
        Ok(process) => Ok(Some(process)),
        Err(failure) => {
            report_failure(&report, failure);
            Ok(None)
        }
    }
}

/// Forks a child that joins the session, and waits for the pid of the clone that it continues in.
fn fork_and_join(
    thread: SingleThreaded,
    context: &Context,
    namespaces: &SessionNamespaces,
    request: &SpawnRequest<'_>,
) -> Result<Pid, Failure> {
    let leaf = open_leaf(context)?;
    let (ours, theirs) = UnixStream::pair().or_failure("socketpair")?;
    let forked = sys::fork(thread).map_err(|error| failure_to_fork("fork a process", error))?;
    let child = match forked {
        Forked::Parent { child } => child,
        Forked::Child(table) => {
            drop(ours);
            let code = join_session(context, namespaces, leaf.as_ref().map(AsFd::as_fd)).and_then(
                |(process, _)| {
                    stream::send(&theirs, &process.as_raw(), MAX_SMALL_FRAME_BYTES)
                        .or_failure("tell the launcher of the process")?;
                    become_program(table, context, request)
                },
            );
            sys::exit_now(code.unwrap_or_else(|failure| report_failure(request.report, failure)))
        }
    };
    drop(theirs);
    let process: Result<i32, _> = stream::receive(&ours, MAX_SMALL_FRAME_BYTES);
    sys::wait(Wait::For(child)).or_failure("wait for the forked child")?;
    process.map(Pid::from_raw).or_failure("receive the pid of the process")
}

/// Joins the session, and continues in it as a clone, in the cgroup `leaf` if there is one. Returns
/// the clone's pid as seen from outside, and that it has one thread.
///
/// # Errors
/// If the session can not be joined. The process must then end.
pub(crate) fn join_session(
    context: &Context,
    namespaces: &SessionNamespaces,
    leaf: Option<BorrowedFd<'_>>,
) -> Result<(Pid, SingleThreaded), Failure> {
    let thread = check_alone()?;
    yield_to_others(context)?;
    namespaces.enter().or_failure("setns into the session")?;
    // Where agent and kernel have one id, what tenant code left running in the session could
    // otherwise take this process over before it has its filter. It holds until the process is
    // confined: execve(2) ends it, and a forked kernel does.
    sandbox::forbid_tracing()?;
    let process = sys::continue_in_clone(thread, leaf).map_err(|error| {
        failure_to_fork("clone3 into the session and the kernel's cgroup", error)
    })?;
    Ok((process, thread))
}

/// Landlock and seccomp hold for the thread that asks for them: a thread that a library had started
/// in a forked process would remain without, in the same memory as tenant code.
fn check_alone() -> Result<SingleThreaded, Failure> {
    SingleThreaded::verify().or_failure("enter the session with one thread")
}

/// Where memory runs out, of the session, of all sessions or of the host, tenant code is to be
/// killed for it and not agent, daemon or others: proc_pid_oom_score_adj(5). Inherited, and tenant
/// code can not lower it: Landlock lets it write nothing in /proc.
fn yield_to_others(context: &Context) -> Result<(), Failure> {
    if !context.applies(Layer::Cgroup) {
        return Ok(());
    }
    let path = "/proc/self/oom_score_adj";
    std::fs::write(path, "1000").map_err(|error| failure(&format!("write {path}"), error))
}

/// What a process that is confined and has its descriptors still needs.
pub(crate) struct Confined {
    pub(crate) environment: Vec<CString>,
    /// The report socket. Its end tells the agent that the process runs its program.
    pub(crate) report: OwnedFd,
}

/// Confines the calling process, which is in the session, for good, puts `descriptors` at the numbers
/// from 0 on, closes all others but the report socket and the held program, and reports there.
///
/// # Errors
/// What could not be done. The process must then say so ([`report_failure`]) and exit.
pub(crate) fn confine(
    table: DescriptorTable,
    context: &Context,
    origin: Origin,
    descriptors: &[OwnedFd],
    report: &UnixStream,
    program: Option<&HeldProgram>,
) -> Result<Confined, Failure> {
    // Before, there may be no /proc of the session's.
    (&*report).read_exact(&mut [0; GO_ON.len()]).or_failure("wait for the agent")?;
    // A group of its own: SIGINT goes to it and the children it has not parted from.
    setsid().or_failure("setsid")?;
    unblock_signals()?;
    sys::default_signals().or_failure("reset the signals")?;
    let workdir = context.policy.inner_workdir();
    let environment = sandbox::kernel_environment(context).or_failure("make the environment")?;
    let protection = sandbox::restrict(context)?;
    chdir(workdir).or_failure("chdir to the workdir")?;
    let pid = u32::try_from(getpid().as_raw()).unwrap_or_default();
    send_report(report, &SpawnReport::Confined { pid, origin, protection }).or_failure("report")?;
    // The report socket goes last and closes by itself: execve that worked is its end of file.
    let placed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let report = table
        .place(&placed, report.as_fd(), program)
        .and_then(|mut placed| placed.take(descriptors.len()))
        .or_failure("place descriptors")?;
    Ok(Confined { environment, report })
}

/// Confines the calling process and executes its program. If that fails, the process has to end with
/// the returned code.
fn become_program(
    table: DescriptorTable,
    context: &Context,
    request: &SpawnRequest<'_>,
) -> Result<i32, Failure> {
    let program = request.image.hold_program()?;
    let SpawnRequest { image, descriptors, report } = request;
    let Confined { environment, report } =
        confine(table, context, Origin::Executed, descriptors, report, program.as_ref())?;
    image.take_terminal()?;
    image
        .execute(&environment, program.as_ref())
        .or_else(|failure| Ok(report_failure(&report.into(), failure)))
}

fn unblock_signals() -> Result<(), Failure> {
    SigSet::all().thread_unblock().or_failure("unblock signals")
}

pub(crate) fn report_failure(report: &UnixStream, failure: Failure) -> i32 {
    if send_report(report, &SpawnReport::Failed(failure)).is_ok() { 1 } else { 2 }
}

fn send_report(report: &UnixStream, message: &SpawnReport) -> Result<(), stream::StreamError> {
    stream::send(report, message, MAX_SMALL_FRAME_BYTES)
}

/// Opens the leaf that the kernel or command is to start in; `None` if there is no cgroup.
pub(crate) fn open_leaf(context: &Context) -> Result<Option<OwnedFd>, Failure> {
    let scope = context.policy.cgroup.as_ref();
    scope.map(|scope| open_cgroup(&scope.kernel.join(context.leaf.name()))).transpose()
}

pub(crate) fn open_cgroup(path: &Path) -> Result<OwnedFd, Failure> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(path);
    opened.map(OwnedFd::from).map_err(|error| Failure {
        layer: Some(Layer::Cgroup),
        ..failure(&format!("open {}", path.display()), error)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc;

    use vivarium_protocol::leaf::Leaf;
    use vivarium_protocol::policy::Network;

    use super::*;
    use crate::sandbox::fixture;

    #[test]
    fn a_process_with_another_thread_is_not_confined() {
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || ended.recv());
            let refused = check_alone().map_err(|failure| failure.reason);
            assert!(refused.is_err_and(|reason| reason.starts_with("there are ")));
            drop(end);
        });
    }

    #[test]
    fn the_oom_killer_prefers_tenant_code_where_there_is_a_cgroup() {
        let name = "::the_oom_killer_prefers_tenant_code_where_there_is_a_cgroup";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            let score = || std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
            let context =
                |layers: &[Layer]| fixture::context(layers, Network::None, Path::new("/"));
            let before = score();
            assert_ne!(before, "1000\n");
            yield_to_others(&context(&[])).unwrap();
            assert_eq!(score(), before);
            yield_to_others(&context(&[Layer::Cgroup])).unwrap();
            assert_eq!(score(), "1000\n");
        });
    }

    #[test]
    fn blocked_signals_are_unblocked() {
        SigSet::all().thread_block().unwrap();
        assert_ne!(SigSet::thread_get_mask().unwrap(), SigSet::empty());
        unblock_signals().unwrap();
        assert_eq!(SigSet::thread_get_mask().unwrap(), SigSet::empty());
    }

    /// What keeps a process from being confined whose agent has said `said`, and then ended. There is no workdir.
    fn refusal(said: &[u8]) -> String {
        let (mut agent, report) = UnixStream::pair().unwrap();
        agent.write_all(said).unwrap();
        drop(agent);
        let context = fixture::context(&[], Network::None, Path::new("/nonexistent/workdir"));
        let (table, _) = DescriptorTable::at_start().unwrap();
        let confined = confine(table, &context, Origin::Executed, &[], &report, None);
        confined.err().unwrap().operation
    }

    #[test]
    fn a_process_is_not_confined_before_its_agent_says_so() {
        let name = "::a_process_is_not_confined_before_its_agent_says_so";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            assert_eq!(refusal(&[]), "wait for the agent");
        });
    }

    #[test]
    fn a_process_is_confined_when_its_agent_says_so() {
        let name = "::a_process_is_confined_when_its_agent_says_so";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            assert_eq!(refusal(&GO_ON), "chdir to the workdir");
        });
    }

    #[test]
    fn the_exit_code_says_whether_the_failure_was_reported() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let why = || failure("test", "a reason");
        assert_eq!(report_failure(&theirs, why()), 1);
        let said: SpawnReport = stream::receive(&ours, MAX_SMALL_FRAME_BYTES).unwrap();
        assert!(matches!(said, SpawnReport::Failed(failure) if failure.reason == "a reason"));
        drop(ours);
        assert_eq!(report_failure(&theirs, why()), 2, "nobody reads it");
    }

    #[test]
    fn a_cgroup_leaf_must_be_a_directory() {
        let mut context = fixture::context(&[], Network::None, Path::new("/"));
        assert!(open_leaf(&context).unwrap().is_none());
        let scope = tempfile::tempdir().unwrap();
        std::fs::create_dir(scope.path().join("command-3")).unwrap();
        let kernel = scope.path().to_str().unwrap();
        context.policy.cgroup = Some(fixture::placement("/nonexistent/cgroup", kernel));
        assert!(open_leaf(&context).is_err(), "there is no context-0-0");
        context.leaf = Leaf::Command(3);
        assert!(open_leaf(&context).unwrap().is_some());
        open_cgroup(Path::new("/")).unwrap();
        for missing in ["/nonexistent/cgroup", "/proc/self/status"] {
            let layer = open_cgroup(Path::new(missing)).err().and_then(|failure| failure.layer);
            assert_eq!(layer, Some(Layer::Cgroup), "{missing}");
        }
    }
}
