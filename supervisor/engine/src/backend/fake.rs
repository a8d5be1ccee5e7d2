//! A backend for tests: what it launches is a socket, on the other end of which the test
//! itself plays the agent.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use vivarium_protocol::clock::monotonic_us;
use vivarium_protocol::frame::{self, Decoder, MAX_FRAME_BYTES};
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{
    Changes, Completion, Execute, FileOperation, FileProblem, FileProblemKind, FileReply,
    FromAgent, InputFile, LaunchOrder, Origin, Stream, ToAgent, TransferNumber, Work,
};
use vivarium_protocol::outcome::{KernelEnd, Usage, Value};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::stream::recv_some;

use super::{Backend, Later, LaunchError, LaunchSpec, Launched, TemplateParts};

mod socket;

pub use socket::FakeSocket;

#[derive(Debug)]
pub struct Fake {
    agents: mpsc::UnboundedSender<FakeAgent>,
    pub killed: AtomicUsize,
}

impl Fake {
    /// A backend, and where the agents that it launches come out.
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<FakeAgent>) {
        #[expect(clippy::disallowed_methods, reason = "as many as a test launches")]
        let (agents, launched) = mpsc::unbounded_channel();
        (Arc::new(Self { agents, killed: AtomicUsize::new(0) }), launched)
    }
}

impl Backend for Fake {
    fn probe(&self) -> Result<(), LaunchError> {
        Ok(())
    }

    fn launch(&self, _: LaunchSpec) -> Later<'_, Result<Launched, LaunchError>> {
        Box::pin(async {
            let (ours, theirs) = UnixStream::pair().map_err(LaunchError::Socket)?;
            let gone = |_| LaunchError::Socket(std::io::ErrorKind::NotConnected.into());
            self.agents.send(FakeAgent::new(theirs)).map_err(gone)?;
            Ok(Launched { stream: Some(ours), outermost: None, lease: None })
        })
    }

    fn id_namespace(&self) -> Result<Option<Launched>, LaunchError> {
        Ok(None)
    }

    fn storage(&self) -> Result<Option<Launched>, LaunchError> {
        Ok(None)
    }

    fn template(&self, _: &str) -> Result<Option<TemplateParts>, LaunchError> {
        Ok(None)
    }

    fn kill(&self, launched: Launched) -> Later<'static, bool> {
        self.killed.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            drop(launched);
            true
        })
    }
}

/// The other end of a session.
#[derive(Debug)]
pub struct FakeAgent {
    stream: UnixStream,
    decoder: Decoder,
    sockets: VecDeque<FakeSocket>,
}

impl FakeAgent {
    pub fn new(stream: UnixStream) -> Self {
        let decoder = Decoder::new(MAX_FRAME_BYTES);
        Self { stream, decoder, sockets: VecDeque::new() }
    }

    async fn read<T: serde::de::DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            let read = self.stream.async_io(Interest::READABLE, || {
                let mut bytes = vec![0; 64 << 10];
                recv_some(&self.stream, &mut bytes).map(|(len, fds)| (len, fds, bytes))
            });
            let (len, fds, bytes) = read.await.ok()?;
            self.sockets.extend(fds.into_iter().map(FakeSocket::new));
            if len == 0 {
                return None;
            }
            self.decoder.push(&bytes[..len]);
        }
    }

    /// The next operation on files, which has to be the next message.
    pub async fn file(&mut self) -> (TransferNumber, FileOperation) {
        match self.recv().await {
            Some(ToAgent::File { transfer, operation }) => (transfer, operation),
            other => panic!("no operation on files: {other:?}"),
        }
    }

    /// The socket that came with it.
    pub fn socket(&mut self) -> FakeSocket {
        self.try_socket().unwrap()
    }

    /// The socket that came with it, if it has not been taken.
    pub fn try_socket(&mut self) -> Option<FakeSocket> {
        self.sockets.pop_front()
    }

    pub async fn file_done(
        &mut self,
        transfer: TransferNumber,
        reply: Result<FileReply, FileProblemKind>,
    ) {
        let problem = |kind| FileProblem { kind, detail: "said the agent".to_owned() };
        self.send(FromAgent::FileDone { transfer, reply: reply.map_err(problem) }).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn send(&mut self, message: FromAgent) {
        self.send_bytes(&frame::encode(&message, MAX_FRAME_BYTES).unwrap()).await;
    }

    /// The next message; `None` at end of file.
    pub async fn recv(&mut self) -> Option<ToAgent> {
        loop {
            match self.read().await {
                Some(ToAgent::Ping) => self.send(FromAgent::Pong).await,
                other => return other,
            }
        }
    }

    pub async fn launched(&mut self) -> Policy {
        let LaunchOrder::Start(launch) = self.read().await.unwrap() else {
            panic!("it is not to prepare anything");
        };
        // What came with it is the program, and no socket of a transfer's.
        self.sockets.clear();
        launch.policy
    }

    pub async fn ready(&mut self, generation: u32) {
        self.context_ready(FIRST_CONTEXT, generation).await;
    }

    pub async fn context_ready(&mut self, context: ContextNumber, generation: u32) {
        let protection = Layer::ALL.map(|layer| Report::enforced(layer, "")).to_vec();
        let origin = Origin::Executed;
        self.send(FromAgent::KernelReady { context, generation, protection, origin }).await;
    }

    pub async fn start(&mut self) -> Policy {
        let policy = self.launched().await;
        self.ready(1).await;
        policy
    }

    /// Takes the next execution, which has to be the next message.
    pub async fn accept(&mut self) -> (u64, String, Vec<InputFile>) {
        match self.recv().await {
            Some(ToAgent::Execute(Execute {
                execution,
                work: Work::Code { code, .. },
                files,
                ..
            })) => (execution, code, files),
            other => panic!("not an execution: {other:?}"),
        }
    }

    /// Takes the next execution, code or not, and starts it.
    pub async fn begin(&mut self) -> u64 {
        match self.recv().await {
            Some(ToAgent::Execute(Execute { execution, .. })) => {
                self.send(FromAgent::Started { execution, at_us: monotonic_us() }).await;
                execution
            }
            other => panic!("not an execution: {other:?}"),
        }
    }

    pub async fn print(&mut self, execution: u64, text: &str) {
        let data = text.as_bytes().to_vec();
        self.send(FromAgent::Output { execution, stream: Stream::Stdout, data }).await;
    }

    pub async fn value(&mut self, execution: u64, repr: &str) {
        let value = Value { repr: repr.to_owned(), type_name: "T".to_owned(), mime: vec![] };
        self.send(FromAgent::Value { execution, value }).await;
    }

    pub async fn done(&mut self, execution: u64, completion: Completion) {
        let usage = Usage { cpu_us: 1500, memory_peak_bytes: 7 };
        let message = FromAgent::Done {
            execution,
            completion,
            stdout_dropped: 0,
            stderr_dropped: 0,
            usage,
            account: Default::default(),
            changes: Changes::default(),
        };
        self.send(message).await;
    }

    pub async fn exited(&mut self, generation: u32, execution: Option<u64>, end: KernelEnd) {
        self.context_exited(FIRST_CONTEXT, generation, execution, end).await;
    }

    pub async fn context_exited(
        &mut self,
        context: ContextNumber,
        generation: u32,
        execution: Option<u64>,
        end: KernelEnd,
    ) {
        let message = FromAgent::KernelExited {
            context,
            generation,
            execution,
            end,
            stdout_dropped: 0,
            stderr_dropped: 0,
            usage: Usage::default(),
            changes: Changes::default(),
        };
        self.send(message).await;
    }

    /// Answers executions, printing and returning their code, until the session is over.
    pub async fn echo(mut self) {
        self.start().await;
        while let Some(message) = self.recv().await {
            match message {
                ToAgent::Execute(Execute { execution, work: Work::Code { code, .. }, .. }) => {
                    self.send(FromAgent::Started { execution, at_us: monotonic_us() }).await;
                    self.print(execution, &code).await;
                    self.value(execution, &code).await;
                    self.done(execution, Completion::Ok).await;
                }
                ToAgent::OpenContext { context } => self.context_ready(context, 1).await,
                ToAgent::CloseContext { context } => {
                    self.send(FromAgent::ContextClosed { context }).await;
                }
                ToAgent::Replace { .. } => {
                    let end = KernelEnd::Signaled { signal: 9, by_agent: true };
                    self.exited(1, None, end).await;
                    self.ready(2).await;
                }
                _ => {}
            }
        }
    }
}
