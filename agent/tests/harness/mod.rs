//! A session as the supervisor drives it.
#![allow(dead_code)] // not every file of tests uses all of it

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::layer::{Intent, Layer, Plan, Report};
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{
    Execute, FileProblem, FileReply, FromAgent, InputFile, Launch, LaunchOrder, Stream, ToAgent,
    Work,
};
use vivarium_protocol::policy::{CpuCores, Interpreter, Limits, Network, Policy};
use vivarium_protocol::sequence::Sequence;
use vivarium_protocol::stream::{self, StreamError, receive, send_with};
use vivarium_protocol::units::Limit;

pub(crate) use self::outcome::{Outcome, command};
pub(crate) use self::scope::Scope;
use self::start::{AGENT, Launcher};

mod egress;
mod outcome;
mod scope;
mod start;
#[allow(unused_imports)] // as above
pub(crate) use start::until;
pub(crate) mod transfers;

const PYTHON: &str = "/usr/bin/python3";

fn interpreter() -> Interpreter {
    let output = Command::new(AGENT).args(["inspect", PYTHON]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    Interpreter {
        path: PathBuf::from(PYTHON),
        prefixes: serde_json::from_value(value["prefixes"].clone()).unwrap(),
        isolate: serde_json::from_value(value["isolate"].clone()).unwrap(),
        program: Arc::new(STANDARD.decode(value["program"].as_str().unwrap()).unwrap().into()),
        version: value["version"].as_str().unwrap().to_owned(),
        wasm: None,
    }
}

pub(crate) fn policy() -> Policy {
    let limit = |value| Limit::new(value).unwrap();
    let mut plan = Plan::full();
    plan.set(
        Layer::Cgroup,
        &Intent::Unavailable { detail: "not in this test".into(), fix: String::new() },
    );
    Policy {
        plan,
        limits: Limits {
            max_memory_mb: limit(2048),
            max_cpu_secs: limit(300),
            max_procs: limit(64),
            max_open_fds: limit(1024),
            max_file_size_mb: limit(256),
            max_disk_mb: limit(64),
            max_inodes: limit(1000),
            cpu_cores: CpuCores::ONE,
            max_output_bytes: limit(1 << 20),
            max_result_bytes: limit(1 << 20),
        },
        network: Network::Loopback,
        interpreter: interpreter(),
        ca_certificate: None,
        env: vec![("LANG".to_owned(), "C.UTF-8".to_owned())],
        read_paths: vec![],
        workdir: PathBuf::from("/workspace"),
        host_workdir: None,
        cgroup: None,
        ids: None,
        passt: None,
        stores: Vec::new(),
        hidden_paths: Vec::new(),
    }
}

pub(crate) struct Session {
    /// Whether its next kernels are the test's to start.
    has_leaves: bool,
    launcher: Pid,
    socket: UnixStream,
    /// At the end of this the session ends.
    _lifeline: UnixStream,
    sequence: Sequence,
    /// Contexts whose kernel is up.
    ready: BTreeSet<ContextNumber>,
    closing: BTreeSet<ContextNumber>,
    next: u64,
    pub(crate) protection: Vec<Report>,
    next_transfer: u64,
    /// What was said of transfers while something else was waited for.
    done: Vec<(u64, Result<FileReply, FileProblem>)>,
    /// Of executions that are not over.
    outcomes: BTreeMap<u64, Outcome>,
    /// Of those that are, and were not asked for.
    over: BTreeMap<u64, Outcome>,
}

/// The kernel program, as the supervisor passes it.
fn program_file(program: &[u8]) -> File {
    let mut file = File::from(memfd_create(c"program", MFdFlags::MFD_CLOEXEC).unwrap());
    file.write_all(program).unwrap();
    file
}

impl Session {
    fn launch_by(
        launcher: Launcher,
        mut policy: Policy,
        scope: Option<&Scope>,
    ) -> Result<Self, String> {
        let Launcher { pid: launcher, socket, lifeline } = launcher;
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let program = program_file(&std::mem::take(&mut policy.interpreter.program));
        let launch = LaunchOrder::Start(Launch {
            protocol_version: PROTOCOL_VERSION,
            policy,
            is_ahead: false,
        });
        let mut given = vec![program];
        given.extend(scope.into_iter().flat_map(|scope| scope.leaf("context-0-0")));
        send_with(&socket, &launch, &given, MAX_FRAME_BYTES).unwrap();
        let mut session = Self {
            launcher,
            has_leaves: scope.is_some(),
            socket,
            _lifeline: lifeline,
            sequence: Sequence::default(),
            ready: BTreeSet::new(),
            closing: BTreeSet::new(),
            next: 1,
            protection: vec![],
            next_transfer: 1,
            done: vec![],
            outcomes: BTreeMap::new(),
            over: BTreeMap::new(),
        };
        session.wait_until_ready().map(|()| session)
    }

    pub(crate) fn send(&mut self, message: &ToAgent) {
        stream::send(&self.socket, message, MAX_FRAME_BYTES).unwrap();
    }

    pub(crate) fn recv(&mut self) -> Option<FromAgent> {
        match receive(&self.socket, MAX_FRAME_BYTES) {
            Ok(message) => {
                self.sequence.accept(&message).unwrap();
                match &message {
                    FromAgent::KernelReady { context, protection, .. } => {
                        self.protection.clone_from(protection);
                        self.ready.insert(*context)
                    }
                    FromAgent::KernelExited { context, .. } => self.ready.remove(context),
                    _ => false,
                };
                Some(message)
            }
            Err(StreamError::Closed) => None,
            Err(error) => panic!("the agent fell silent: {error:?}"),
        }
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<(), String> {
        loop {
            match self.recv() {
                Some(FromAgent::KernelReady { .. }) => return Ok(()),
                Some(message @ FromAgent::KernelExited { .. }) => self.note_exit(message),
                Some(message) if message.execution().is_some() => self.note(message),
                Some(FromAgent::Failed(failure)) => return Err(failure.to_string()),
                other => return Err(format!("{other:?}")),
            }
        }
    }

    pub(crate) fn start(&mut self, code: &str, files: Vec<InputFile>) -> u64 {
        self.start_work(Work::code(code.to_owned()), files, &[])
    }

    pub(crate) fn start_in(&mut self, context: ContextNumber, code: &str) -> u64 {
        self.send_execute(context, Work::code(code.to_owned()), vec![], &[])
    }

    pub(crate) fn start_work(
        &mut self,
        work: Work,
        files: Vec<InputFile>,
        outputs: &[&str],
    ) -> u64 {
        self.send_execute(FIRST_CONTEXT, work, files, outputs)
    }

    fn send_execute(
        &mut self,
        context: ContextNumber,
        work: Work,
        files: Vec<InputFile>,
        outputs: &[&str],
    ) -> u64 {
        let execution = self.next;
        self.next += 1;
        if work.is_command() {
            self.sequence.sent_command(execution);
        } else {
            self.sequence.sent(context, execution);
        }
        let outputs = outputs.iter().map(|&name| name.to_owned()).collect();
        self.send(&ToAgent::Execute(Execute { execution, context, work, files, outputs }));
        execution
    }

    /// A command whose standard input is this pipe.
    pub(crate) fn start_with_pipe(&mut self, work: Work, pipe: OwnedFd) -> u64 {
        self.start_with(work, &[pipe.into()])
    }

    /// A command with these files: the read end of its pipe, and those of its own leaf.
    pub(crate) fn start_with(&mut self, work: Work, files: &[File]) -> u64 {
        let execution = self.next;
        self.next += 1;
        self.sequence.sent_command(execution);
        let context = FIRST_CONTEXT;
        let execute = Execute { execution, context, work, files: vec![], outputs: vec![] };
        send_with(&self.socket, &ToAgent::Execute(execute), files, MAX_FRAME_BYTES).unwrap();
        execution
    }

    /// Whether it is known that an execution is over.
    pub(crate) fn is_over(&self, execution: u64) -> bool {
        self.over.contains_key(&execution)
    }

    pub(crate) fn start_shell(&mut self, line: &str, stdin: &[u8]) -> u64 {
        self.start_work(command(&["/bin/sh", "-c", line], stdin), vec![], &[])
    }

    pub(crate) fn shell(&mut self, line: &str) -> Outcome {
        self.start_shell(line, b"");
        self.finish()
    }

    pub(crate) fn wait_for_output(&mut self) {
        while !matches!(self.recv(), Some(FromAgent::Output { .. })) {}
    }

    /// What comes of the execution that was started last.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.finish_of(self.next - 1)
    }

    /// What comes of this execution; what is said of others meanwhile is kept for them.
    pub(crate) fn finish_of(&mut self, execution: u64) -> Outcome {
        loop {
            if let Some(outcome) = self.over.remove(&execution) {
                return outcome;
            }
            let message = self.recv().expect("the session ended");
            self.note(message);
        }
    }

    fn note(&mut self, message: FromAgent) {
        let number = message.execution().unwrap_or_default();
        let outcome = self.outcomes.entry(number).or_default();
        match message {
            FromAgent::Started { .. } | FromAgent::KernelReady { .. } => {}
            FromAgent::File { file, .. } => outcome.files.push(file),
            FromAgent::CpuLimitReached { .. } => outcome.cpu_limit_reached = true,
            FromAgent::FileDone { transfer, reply } => self.done.push((transfer, reply)),
            FromAgent::Output { stream: Stream::Stdout, data, .. } => outcome.stdout.extend(data),
            FromAgent::Output { stream: Stream::Stderr, data, .. } => outcome.stderr.extend(data),
            FromAgent::Value { value, .. } => {
                outcome.repr = Some(value.repr);
                outcome.mime = value.mime;
            }
            FromAgent::Display { display, .. } => outcome.displays.push(display),
            FromAgent::Exception { exception, .. } => outcome.exception = Some(exception.type_name),
            FromAgent::Done { completion, stdout_dropped, changes, usage, account, .. } => {
                outcome.account = account;
                outcome.changes = changes;
                outcome.cpu_us = usage.cpu_us;
                outcome.completion = Some(completion);
                outcome.stdout_dropped = stdout_dropped;
                self.end(number);
            }
            FromAgent::KernelExited { context, .. } => {
                self.note_exit(message);
                if !self.has_leaves && !self.closing.contains(&context) {
                    self.wait_for_kernel(context);
                }
            }
            FromAgent::FilesRefused { reason, .. } => {
                outcome.refused = Some(reason);
                self.end(number);
            }
            other => panic!("{other:?}"),
        }
    }

    fn note_exit(&mut self, message: FromAgent) {
        if let FromAgent::KernelExited { execution: Some(number), end, changes, .. } = message {
            let outcome = self.outcomes.entry(number).or_default();
            outcome.changes = changes;
            outcome.end = Some(end);
            self.end(number);
        }
    }

    /// Waits until the kernel of a context is up.
    pub(crate) fn wait_for_kernel(&mut self, context: ContextNumber) {
        while !self.ready.contains(&context) {
            let message = self.recv().expect("the session ended");
            self.note(message);
        }
    }

    /// Opens a context, with its kernel.
    pub(crate) fn open_context(&mut self, context: ContextNumber) {
        self.begin_context(context);
        self.wait_for_kernel(context);
    }

    /// Asks for a context, whose kernel may not be there yet.
    pub(crate) fn begin_context(&mut self, context: ContextNumber) {
        self.begin_context_in(context, &[]);
    }

    /// With the files of its leaf.
    pub(crate) fn begin_context_in(&mut self, context: ContextNumber, leaf: &[File]) {
        self.sequence.open(context);
        let message = ToAgent::OpenContext { context };
        send_with(&self.socket, &message, leaf, MAX_FRAME_BYTES).unwrap();
    }

    /// Starts the next kernel of a context, in a leaf that was made for it.
    pub(crate) fn start_kernel(&mut self, context: ContextNumber, before: u32, leaf: &[File]) {
        let message = ToAgent::StartKernel { context, leaf: Leaf::Kernel { context, before } };
        send_with(&self.socket, &message, leaf, MAX_FRAME_BYTES).unwrap();
    }

    /// Closes a context. What it ran is over then.
    pub(crate) fn close_context(&mut self, context: ContextNumber) {
        self.sequence.close(context);
        self.closing.insert(context);
        self.send(&ToAgent::CloseContext { context });
        loop {
            match self.recv().expect("the session ended") {
                FromAgent::ContextClosed { context: closed } if closed == context => return,
                message => self.note(message),
            }
        }
    }

    pub(crate) fn execute_in(&mut self, context: ContextNumber, code: &str) -> Outcome {
        self.start_in(context, code);
        self.finish()
    }

    fn end(&mut self, number: u64) {
        let outcome = self.outcomes.remove(&number).unwrap_or_default();
        self.over.insert(number, outcome);
    }

    pub(crate) fn execute(&mut self, code: &str) -> Outcome {
        self.start(code, vec![]);
        self.finish()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        let ended = waitpid(self.launcher, None).unwrap();
        if std::thread::panicking() {
            return;
        }
        let was_up = !self.protection.is_empty();
        let is_success = ended == WaitStatus::Exited(self.launcher, 0);
        assert!(is_success || !was_up, "the launcher ends with its session: {ended:?}");
    }
}
