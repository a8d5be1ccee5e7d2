//! The launcher: makes a session's namespaces and its agent, and stays outside them to spawn
//! kernels and commands.
//!
//! It is single-threaded, and forked for the session by a process that was started with an empty
//! environment ([`fork_server`]). A tenant's process has to start outside: only a process
//! outside can put it straight into its cgroup ([`crate::spawn`]), and only one that has the id of
//! the user namespace's owner can then enter the session. Where the environment has a template,
//! its zygote forks the kernels ([`zygote_client`]), and they are executed only if that fails.
//!
//! It must never act on anything tenant code says: the only message it takes is the agent's `Spawn`.

mod end;
mod fork_server;
mod id_map;
mod orders;
mod passt;
mod prepared;
mod zygote_client;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vivarium_protocol::discard;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES, MAX_SPAWN_FRAME_BYTES};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{
    Failure, FromAgent, FromLauncher, Program, SpawnNumber, ToLauncher,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};
use vivarium_protocol::stream;

use self::end::{await_end, end_descendants, has_ended};
use self::orders::{Order, Orders};
use self::passt::Pasta;
use self::prepared::{Prepared, Side};
use self::zygote_client::ZygoteClient;
use crate::children::Children;
use crate::failure::{OrFailure, failure, failure_to_fork};
use crate::leaf_control::LeafControl;
use crate::pid1;
use crate::sandbox::{self, Context, HostFacts, SessionNamespaces, clone_diagnosis, clone_flags};
use crate::spawn;
use crate::sys::{self, Forked, SingleThreaded};

pub(crate) use fork_server::main;

fn launch(thread: SingleThreaded, control: &UnixStream, lifeline: UnixStream) -> ExitCode {
    match run(thread, control, lifeline) {
        Ok(code) => code,
        Err(failure) => {
            stream::send_if_open(control, &FromAgent::Failed(failure), MAX_FRAME_BYTES);
            ExitCode::FAILURE
        }
    }
}

fn run(
    thread: SingleThreaded,
    control: &UnixStream,
    lifeline: UnixStream,
) -> Result<ExitCode, Failure> {
    // Orphans become our children, so that wait(2) reports their end.
    prctl::set_child_subreaper(true).or_failure("prctl(SUBREAPER)")?;
    let mut orders = Orders::on(control);
    let mut prepared = None;
    loop {
        prepared = prepared.and_then(|prepared: Prepared| prepared.until_order(control));
        match orders.next()? {
            Order::Start(session) => return start(thread, control, lifeline, session, prepared),
            Order::Check => prepared.iter_mut().for_each(Prepared::check_host),
            Order::Prepare(policy) => {
                drop(prepared.take());
                match prepared::prepare(thread, policy) {
                    Ok(Side::Launcher(made)) => prepared = Some(made),
                    Ok(Side::Agent(agent)) => return Ok(agent.serve(control, lifeline)),
                    Err(failed) => {
                        prepared::log_failure(&failed);
                        end_descendants();
                    }
                }
            }
        }
    }
}

fn start(
    thread: SingleThreaded,
    control: &UnixStream,
    lifeline: UnixStream,
    session: orders::Session,
    prepared: Option<Prepared>,
) -> Result<ExitCode, Failure> {
    let orders::Session { policy, is_ahead, program, first_leaf, template } = session;
    prctl::set_name(c"viv-launcher").or_failure("prctl(NAME)")?;
    let zygote = template.map(|socket| ZygoteClient::new(socket, &policy, is_ahead));
    let host = HostFacts::capture().or_failure("read /proc/self/ns")?;
    let mut context = Context::new(policy, host);
    context.program = Some(program);
    let leaf = context.policy.cgroup.as_ref();
    let leaf = leaf.map(|scope| spawn::open_cgroup(&scope.agent)).transpose()?;
    if let Some(prepared) = prepared {
        match prepared.start(&context, leaf.as_ref(), first_leaf.as_ref()) {
            Ok((agent, to_agent)) => {
                drop(first_leaf);
                context.is_prepared = true;
                let session = New { context, agent, to_agent, zygote, leaf };
                return follow(thread, control, lifeline, session);
            }
            // Nothing is left of it, before another takes its ids.
            Err(failed) => prepared::log_failure(&failed),
        }
    }
    let (to_agent, to_launcher) = UnixStream::pair().or_failure("socketpair")?;
    let flags = clone_flags(&context);
    let forked = sys::clone3(thread, flags, leaf.as_ref().map(AsFd::as_fd)).map_err(|error| {
        if flags.is_empty() {
            failure_to_fork("clone3 into the session's cgroup", error)
        } else {
            clone_diagnosis(error)
        }
    })?;
    let Forked::Parent { child: agent } = forked else {
        drop((to_agent, zygote));
        // While this still has the daemon's id, which alone may search the way to them.
        context.stores = sandbox::take_stores(&context)?;
        return Ok(Agent { context, to_launcher, first_leaf }.serve(control, lifeline));
    };
    drop((to_launcher, first_leaf));
    let session = New { context, agent, to_agent, zygote, leaf };
    follow(thread, control, lifeline, session)
}

/// What the agent serves its session with.
struct Agent {
    context: Context,
    to_launcher: UnixStream,
    first_leaf: Option<LeafControl>,
}

impl Agent {
    fn serve(self, control: &UnixStream, lifeline: UnixStream) -> ExitCode {
        let code = pid1::main(&self.context, control, self.to_launcher, self.first_leaf);
        drop(lifeline); // closes with the agent, and not before
        code
    }
}

/// Serves a session, and ends with nothing of it left.
fn follow(
    thread: SingleThreaded,
    control: &UnixStream,
    lifeline: UnixStream,
    session: New,
) -> Result<ExitCode, Failure> {
    let (agent, has_pid_namespace) = (session.agent, session.context.applies(Layer::Namespaces));
    let served = serve(thread, control, lifeline, session);
    if served.is_err() {
        // A launcher that exits leaves nobody behind.
        discard(kill(agent, Signal::SIGKILL), "it may have ended");
        await_end(agent);
    }
    if !has_pid_namespace {
        end_descendants();
    }
    served
}

/// A session whose agent has started.
struct New {
    context: Context,
    agent: Pid,
    to_agent: UnixStream,
    zygote: Option<ZygoteClient>,
    /// The agent's.
    leaf: Option<OwnedFd>,
}

/// Finishes the session whose agent has started, and spawns processes in it until the agent ends.
fn serve(
    thread: SingleThreaded,
    control: &UnixStream,
    lifeline: UnixStream,
    session: New,
) -> Result<ExitCode, Failure> {
    let New { context, agent, to_agent, zygote, leaf } = session;
    if context.applies(Layer::Namespaces) && !context.is_prepared {
        id_map::write(&context, agent)?;
    }
    let namespaces =
        SessionNamespaces::open(&context, agent).or_failure("open the session's namespaces")?;
    let send_mapped = || {
        stream::send(&to_agent, &FromLauncher::Mapped, MAX_SMALL_FRAME_BYTES)
            .or_failure("tell the agent of its ids")
    };
    // The agent lets nothing in its session make namespaces any more, which pasta does. This takes no order of the
    // agent's before it has given its capabilities up.
    if context.policy.passt.is_none() {
        send_mapped()?;
    }
    sandbox::give_up_capabilities()?;
    let mut pasta = Pasta::start(thread, &context, &namespaces, leaf.as_ref().map(AsFd::as_fd))?;
    drop(leaf);
    if let Some(pasta) = &mut pasta {
        pasta.await_interface(lifeline.as_fd())?;
        send_mapped()?;
    }
    // The agent, which is there, does not inherit this filter.
    sandbox::confine_launcher(&context)?;
    // From here on the agent alone holds the control socket: its end must be the session's.
    release(control)?;
    let lifeline = Some(lifeline);
    let children = Vec::new();
    let launcher = Launcher {
        thread,
        context,
        namespaces,
        agent,
        to_agent,
        lifeline,
        zygote,
        pasta,
        children,
    };
    launcher.serve()
}

/// Closes the launcher's copy of the control socket: /dev/null takes its number.
fn release(control: &UnixStream) -> Result<(), Failure> {
    let null = sys::open_null().or_failure("open /dev/null")?;
    sys::replace(control.as_fd(), null.as_fd()).or_failure("release the control socket")
}

struct Launcher {
    thread: SingleThreaded,
    context: Context,
    namespaces: SessionNamespaces,
    agent: Pid,
    to_agent: UnixStream,
    /// `None` once the supervisor has closed its end.
    lifeline: Option<UnixStream>,
    zygote: Option<ZygoteClient>,
    /// Until it has ended.
    pasta: Option<Pasta>,
    /// The session's processes that are this process's own children.
    children: Vec<(SpawnNumber, Pid)>,
}

impl Launcher {
    fn serve(mut self) -> Result<ExitCode, Failure> {
        let children = Children::watch().or_failure("signalfd")?;
        loop {
            if self.reap(&children) {
                return Ok(ExitCode::SUCCESS);
            }
            let Ready { message: has_message, zygote, over } = self.wait(children.as_fd())?;
            if over {
                self.end_agent();
            }
            if zygote {
                self.recv_zygote();
            }
            if !has_message {
                continue;
            }
            match stream::receive_with::<ToLauncher>(&self.to_agent, MAX_SPAWN_FRAME_BYTES) {
                Ok((ToLauncher::Spawn { number, program, leaf }, fds)) => {
                    self.context.leaf = leaf;
                    self.spawn(number, &program, &fds)?;
                }
                // The agent's end of the socket closes with the agent: its end follows.
                Err(_) => return Ok(await_end(self.agent)),
            }
        }
    }

    fn spawn(
        &mut self,
        number: SpawnNumber,
        program: &Program,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        let Self { thread, context, namespaces, .. } = self;
        if let Some(zygote) = self.zygote.as_mut().filter(|_| *program == Program::Kernel) {
            match zygote.fork(context, namespaces, number, fds) {
                Ok(()) => return Ok(()),
                // Why is the agent's to say.
                Err(_) if has_ended(&self.to_agent) => return Ok(()),
                Err(failed) => log_not_forked(&failed),
            }
        }
        match spawn::spawn_process(*thread, context, namespaces, program, fds)? {
            Some(pid) => self.children.push((number, pid)),
            None => {
                let end = KernelEnd::NotStarted("it could not be spawned".to_owned());
                send_exit(&self.to_agent, number, end, Usage::default());
            }
        }
        Ok(())
    }

    fn recv_zygote(&mut self) {
        let ended = self.zygote.as_mut().map(ZygoteClient::read).unwrap_or_default();
        for (number, end, usage) in ended {
            send_exit(&self.to_agent, number, end, usage);
        }
    }

    /// Waits for any event. The agent's message is left for later while a child's end is there.
    fn wait(&self, children: BorrowedFd<'_>) -> Result<Ready, Failure> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        // Without a lifeline, another entry for the children.
        let lifeline = self.lifeline.as_ref().map_or(children, AsFd::as_fd);
        let mut fds = vec![readable(self.to_agent.as_fd()), readable(children), readable(lifeline)];
        fds.extend(self.zygote.iter().flat_map(ZygoteClient::fds).map(readable));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(failure("poll", error)),
        }
        let has = |fd: &PollFd<'_>| fd.any() == Some(true);
        let [message, child, lifeline, zygote @ ..] = fds.as_slice() else {
            return Ok(Ready::default());
        };
        Ok(Ready {
            message: !has(child) && has(message),
            zygote: zygote.iter().any(has),
            over: self.lifeline.is_some() && has(lifeline),
        })
    }

    /// Kills the agent, which may hang, since the supervisor has closed the lifeline. It is reaped as any
    /// child.
    fn end_agent(&mut self) {
        self.lifeline = None;
        discard(kill(self.agent, Signal::SIGKILL), "it may have ended");
    }

    /// Reaps every child that has ended and reports those that the agent asked for. Returns whether
    /// the agent itself has ended. Without a pid namespace the tenant's orphans come here too.
    fn reap(&mut self, children: &Children) -> bool {
        let mut agent_ended = false;
        for ended in children.ended() {
            agent_ended |= ended.pid == self.agent;
            if let Some(mut pasta) = self.pasta.take_if(|pasta| pasta.pid() == ended.pid) {
                pasta.log_end(&ended.end());
            }
            if let Some(index) = self.children.iter().position(|(_, pid)| *pid == ended.pid) {
                let (number, _) = self.children.swap_remove(index);
                send_exit(&self.to_agent, number, ended.end(), ended.usage());
            }
        }
        agent_ended
    }
}

#[derive(Debug, Default)]
struct Ready {
    message: bool,
    /// The zygote wrote, or a kernel that it forked has ended.
    zygote: bool,
    over: bool,
}

fn log_not_forked(failed: &Failure) {
    crate::log::print_line(&format!(
        "a kernel is executed and not forked from its template: {failed}"
    ));
}

fn send_exit(to_agent: &UnixStream, number: SpawnNumber, end: KernelEnd, usage: Usage) {
    let message = FromLauncher::Exited { number, end, usage };
    stream::send_if_open(to_agent, &message, MAX_SMALL_FRAME_BYTES);
}
