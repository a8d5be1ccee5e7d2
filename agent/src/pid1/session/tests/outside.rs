//! What a session has outside: its supervisor, launcher and kernels, played by the test.

use super::*;

pub(super) struct Outside<'a> {
    pub(super) session: Session<'a>,
    pub(super) supervisor: UnixStream,
    pub(super) launcher: UnixStream,
}

/// A process that the launcher was asked for.
pub(super) struct Spawned {
    pub(super) number: SpawnNumber,
    pub(super) leaf: Leaf,
    pub(super) fds: Vec<OwnedFd>,
}

impl Outside<'_> {
    /// Runs a test of a session whose first kernel is up. It gets that kernel and its leaf.
    pub(super) fn run(test: &str, body: impl FnOnce(Outside<'_>, Spawned, &FakeLeaf)) {
        fixture::in_child(
            &format!("{}::{test}", module_path!().trim_end_matches("::outside")),
            || {
                let workdir = tempfile::tempdir().unwrap();
                let context = context(workdir.path());
                let leaf = FakeLeaf::new();
                let (supervisor, control) = UnixStream::pair().unwrap();
                let (launcher, theirs) = UnixStream::pair().unwrap();
                let first = FirstKernel::ask(&context, Some(control_of(&leaf)), theirs).unwrap();
                let session = Session::new(&context, &control, first, None).unwrap();
                let mut outside = Outside { session, supervisor, launcher };
                let kernel = outside.spawned();
                assert_eq!(kernel.leaf, Leaf::FIRST);
                let kernel = outside.kernel_up(kernel);
                body(outside, kernel, &leaf);
            },
        );
    }

    /// What the launcher is asked for.
    pub(super) fn spawned(&mut self) -> Spawned {
        let (ToLauncher::Spawn { number, leaf, .. }, fds) =
            stream::receive_with(&self.launcher, MAX_SPAWN_FRAME_BYTES).unwrap();
        Spawned { number, leaf, fds }
    }

    /// A process reports that it is confined, and becomes its program.
    pub(super) fn executed(&mut self, mut process: Spawned) -> Spawned {
        let report = UnixStream::from(process.fds.pop().unwrap());
        (&report).read_exact(&mut [0; GO_ON.len()]).unwrap();
        let confined =
            SpawnReport::Confined { pid: PID, origin: Origin::Executed, protection: Vec::new() };
        stream::send(&report, &confined, MAX_SMALL_FRAME_BYTES).unwrap();
        process
    }

    pub(super) fn kernel_up(&mut self, kernel: Spawned) -> Spawned {
        let kernel = self.executed(kernel);
        kernel.write(&[1]);
        assert!(matches!(self.recv(), FromAgent::KernelReady { .. }));
        kernel
    }

    pub(super) fn ended(&mut self, process: &Spawned, end: KernelEnd) {
        let message = FromLauncher::Exited { number: process.number, end, usage: Usage::default() };
        stream::send(&self.launcher, &message, MAX_SMALL_FRAME_BYTES).unwrap();
    }

    /// Tells the agent, which has then handled it.
    pub(super) fn try_send(
        &mut self,
        message: &ToAgent,
        leaf: Option<&FakeLeaf>,
    ) -> Result<(), Failure> {
        let fds = leaf.map(|leaf| leaf.files().into()).unwrap_or(vec![]);
        stream::send_with(&self.supervisor, message, &fds, MAX_FRAME_BYTES).unwrap();
        self.session.turn().map(drop)
    }

    pub(super) fn send(&mut self, message: &ToAgent, leaf: Option<&FakeLeaf>) {
        self.try_send(message, leaf).unwrap();
    }

    pub(super) fn execute(
        &mut self,
        execution: u64,
        context: u32,
        work: Work,
        leaf: Option<&FakeLeaf>,
    ) {
        let (files, outputs) = (vec![], vec![]);
        let request = Execute { execution, context, work, files, outputs };
        self.send(&ToAgent::Execute(request), leaf);
    }

    /// A command that runs.
    pub(super) fn command(&mut self, execution: u64, own: Option<&FakeLeaf>) -> Spawned {
        let spec = CommandSpec::new(vec!["sleep".into()]);
        let spec = CommandSpec { own_leaf: own.is_some(), ..spec };
        self.execute(execution, 0, Work::Command(spec), own);
        let command = self.spawned();
        let command = self.executed(command);
        assert_eq!(self.recv_started(), execution);
        command
    }

    pub(super) fn code(&mut self, execution: u64, context: u32) {
        self.execute(execution, context, Work::code("1".into()), None);
        assert_eq!(self.recv_started(), execution);
    }

    /// What the agent says next.
    pub(super) fn recv(&mut self) -> FromAgent {
        while !self.has_said() {
            self.turn();
        }
        stream::receive(&self.supervisor, MAX_FRAME_BYTES).unwrap()
    }

    /// The execution that has started.
    pub(super) fn recv_started(&mut self) -> u64 {
        match self.recv() {
            FromAgent::Started { execution, .. } => execution,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn turn(&mut self) {
        assert!(self.session.turn().unwrap().is_continue());
    }

    pub(super) fn has_said(&self) -> bool {
        let mut fds = [PollFd::new(self.supervisor.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
    }

    /// The end of a kernel, with the code that it took with it.
    pub(super) fn recv_exit(&mut self) -> (u32, Option<u64>, KernelEnd) {
        match self.recv() {
            FromAgent::KernelExited { context, execution, end, .. } => (context, execution, end),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn recv_done(&mut self) -> (u64, Completion) {
        match self.recv() {
            FromAgent::Done { execution, completion, .. } => (execution, completion),
            other => panic!("{other:?}"),
        }
    }
}

impl Spawned {
    /// A frame from a kernel.
    pub(super) fn write(&self, frame: &[u8]) {
        let mut channel = File::from(self.fds[3].try_clone().unwrap());
        channel.write_all(&u32::try_from(frame.len()).unwrap().to_le_bytes()).unwrap();
        channel.write_all(frame).unwrap();
    }

    /// It runs the code to its end.
    pub(super) fn run(&self, execution: u64) {
        self.write(&[&[5], &execution.to_le_bytes()[..]].concat());
        self.write(&[&[4], &execution.to_le_bytes()[..], &[0]].concat());
    }
}
