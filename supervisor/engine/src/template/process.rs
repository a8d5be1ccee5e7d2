//! One template process: its start, what is said to it, and its end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;
use vivarium_protocol::frame::{Decoder, MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES, encode};
use vivarium_protocol::message::{FromTemplate, StartTemplate, ToTemplate};
use vivarium_protocol::stream::send_some;

use super::memory::TemplateMemory;
use super::{Programs, Suspicion};
use crate::backend::ids::IdPool;
use crate::backend::{Backend, Launched, Outermost, TemplateParts};
use crate::recv;

/// How long the imports of an environment may take.
const BUILD_WITHIN: Duration = Duration::from_secs(120);

/// How often a template is asked whether it is there, and how long it may take to answer. Forks
/// are what it does in between, each of some milliseconds. Where one is missed it is asked at once.
const PING_EVERY: Duration = Duration::from_secs(5);
const PONG_WITHIN: Duration = Duration::from_secs(2);

/// Why there is no template, or none any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("{0}")]
    Unfit(String),
    #[error("this installation has no library for templates (libvivarium_agent.so)")]
    NoLibrary,
    #[error(transparent)]
    Launch(#[from] crate::backend::LaunchError),
    #[error(transparent)]
    Workdir(#[from] crate::recover::WorkdirError),
    #[error("its process {0}")]
    Gone(&'static str),
    #[error("its socket")]
    Io(#[from] io::Error),
    #[error("its socket")]
    Frame(#[from] vivarium_protocol::frame::FrameError),
    #[error("it did not answer within {0:?}")]
    Hangs(Duration),
}

impl TemplateError {
    const GONE: Self = Self::Gone("has ended (its log says more)");
}

/// What is said to a template, from any thread and without waiting.
#[derive(Debug)]
pub struct Sender {
    socket: Mutex<OwnedFd>,
    memory: Option<Arc<TemplateMemory>>,
}

impl Sender {
    pub(super) fn memory(&self) -> Option<Arc<TemplateMemory>> {
        self.memory.clone()
    }

    /// Sends a small message, with a descriptor if there is one.
    pub(super) fn send(&self, message: &ToTemplate, fd: Option<OwnedFd>) -> io::Result<()> {
        let bytes = encode(message, MAX_SMALL_FRAME_BYTES)?;
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = send_some(&*socket, &bytes, fd.as_slice())?;
        // So few bytes go at once or not at all: they are one buffer of the socket's.
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

#[derive(Debug)]
pub(super) struct Process {
    launched: Launched,
    stream: UnixStream,
    decoder: Decoder,
    /// What its kernels share, if they can be saved.
    memory: Option<Arc<TemplateMemory>>,
}

impl Process {
    pub(super) async fn start(
        backend: &dyn Backend,
        environment: &str,
        order: &StartTemplate,
        programs: &Programs,
        ids: Option<&IdPool>,
    ) -> Result<Self, TemplateError> {
        let Some(parts) = backend.template(environment)? else {
            return Err(TemplateError::NoLibrary);
        };
        let TemplateParts { mut launched, library: installed } = parts;
        let Some(mut stream) = launched.stream.take() else {
            return Err(TemplateError::Gone("has no socket"));
        };
        let started = timeout(BUILD_WITHIN, async {
            let library = match &programs.library {
                Some(other) => other.try_clone()?,
                None => installed,
            };
            let mut alongside = vec![library];
            if let Some(ids) = ids {
                alongside.extend(ids.namespace()?);
            }
            send_order(&mut stream, order, &alongside).await?;
            let mut decoder = Decoder::new(MAX_SMALL_FRAME_BYTES);
            let mut alongside = Vec::new();
            let said: Result<_, TemplateError> =
                recv::recv_with(&mut stream, &mut decoder, &mut alongside).await;
            match said?.ok_or(TemplateError::GONE)? {
                FromTemplate::Ready => {
                    let memory = alongside.pop();
                    let memory = memory.map(|file| TemplateMemory::new(file, programs.hash));
                    Ok((decoder, memory.transpose()?.map(Arc::new)))
                }
                FromTemplate::Unfit(reason) => Err(TemplateError::Unfit(reason)),
                FromTemplate::Pong(_) => Err(TemplateError::Gone("spoke out of turn")),
            }
        });
        match started.await.unwrap_or(Err(TemplateError::Hangs(BUILD_WITHIN))) {
            Ok((decoder, memory)) => Ok(Self { launched, stream, decoder, memory }),
            Err(error) => {
                launched.stream = Some(stream);
                backend.kill(launched).await;
                Err(error)
            }
        }
    }

    pub(super) fn sender(&self) -> io::Result<Sender> {
        let socket = std::os::fd::AsFd::as_fd(&self.stream).try_clone_to_owned()?;
        Ok(Sender { socket: Mutex::new(socket), memory: self.memory.clone() })
    }

    /// Asks it now and then whether it is there; why it is not any more.
    pub(super) async fn watch(&mut self, sender: &Sender, doubt: &Suspicion) -> TemplateError {
        let mut number = 0;
        loop {
            // Whatever it says between two questions, be it that it ends, is out of turn.
            tokio::select! {
                received = timeout(PING_EVERY, recv(&mut self.stream, &mut self.decoder)) => match received {
                    Ok(Ok(_)) => return TemplateError::Gone("spoke out of turn"),
                    Ok(Err(error)) => return error,
                    Err(_) => {}
                },
                () = doubt.raised() => {}
            }
            number += 1;
            if let Err(error) = sender.send(&ToTemplate::Ping(number), None) {
                return error.into();
            }
            match timeout(PONG_WITHIN, recv(&mut self.stream, &mut self.decoder)).await {
                Ok(Ok(FromTemplate::Pong(answer))) if answer == number => doubt.clear(),
                Ok(Ok(_)) => return TemplateError::Gone("spoke out of turn"),
                Ok(Err(error)) => return error,
                Err(_) => return TemplateError::Hangs(PONG_WITHIN),
            }
        }
    }

    /// Ends it, and returns when it is gone.
    pub(super) async fn end(self, backend: &dyn Backend) {
        let Self { mut launched, stream, .. } = self;
        // Its end of file, which a process that hangs does not heed, and which other copies of the
        // socket keep from it: so it is told by a signal as well.
        if let Some(Outermost::Executed(child)) = &mut launched.outermost {
            child.start_kill().unwrap_or_else(|error| tracing::debug!(%error, "a template's end"));
        }
        launched.stream = Some(stream);
        backend.kill(launched).await;
    }
}

async fn send_order(
    stream: &mut UnixStream,
    order: &StartTemplate,
    alongside: &[OwnedFd],
) -> Result<(), TemplateError> {
    let bytes = encode(order, MAX_FRAME_BYTES)?;
    let sent =
        stream.async_io(Interest::WRITABLE, || send_some(&*stream, &bytes, alongside)).await?;
    stream.write_all(bytes.get(sent..).unwrap_or_default()).await?;
    Ok(())
}

/// What it says next. Safe to cancel: nothing is lost.
async fn recv(
    stream: &mut UnixStream,
    decoder: &mut Decoder,
) -> Result<FromTemplate, TemplateError> {
    let received: Result<_, TemplateError> = recv::recv(stream, decoder).await;
    received?.ok_or(TemplateError::GONE)
}
