//! An image on its way between a pipe and a compressed, sealed file. Who has the other end is not trusted: it may
//! write without end, or neither write nor read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use std::vec;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use vivarium_audit::Hash;
use vivarium_protocol::discard;
use vivarium_protocol::image::END;

use super::KernelFile;
use super::parts::{self, KnownParts, Parts};
use super::seal::What;

/// Memory changes little from one moment to the next, and time matters more than the last tenth of the size.
pub(super) const LEVEL: i32 = 1;

const CHUNK_BYTES: usize = 256 << 10;

/// What of an image is held in memory before it is put into parts.
const AHEAD_MAX_BYTES: u64 = 16 << 20;

/// What the kernel lets a user have without a privilege: pipe(7), pipe-max-size.
const PIPE_BYTES: i32 = 1 << 20;

/// How much may come, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Of memory and files.
    pub(crate) bytes: u64,
    /// Of the compressed file.
    pub(crate) file_bytes: u64,
    pub(crate) until: Instant,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error("it has more memory and files than it may have")]
    TooLarge,
    #[error("its tenant has no room for it")]
    Full,
    #[error("it was not written to its end")]
    Cut,
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            io::ErrorKind::UnexpectedEof => Self::Cut,
            _ => Self::Io(error),
        }
    }
}

/// What came from the pipes.
#[derive(Debug)]
pub(crate) struct Received {
    /// Of which template all say that they are.
    pub(crate) template: Hash,
    /// How many bytes came from each.
    pub(crate) lengths: Vec<u64>,
    /// Where its parts are, and what they are, if it was put into parts.
    pub(crate) parts: Option<(Parts, KnownParts)>,
}

/// Writes what comes from pipes, from one after the other, to a file: whole, or as those parts that the image before has
/// not. What comes from each has to end with the mark of a whole kernel, and
/// all of the same template. With the right to be `ahead` it is read before it is put into parts: the kernels do not wait
/// for that. `at_end` is told, or dropped, when nothing more comes. Blocks.
pub(crate) fn receive(
    pipes: Vec<OwnedFd>,
    KernelFile { file, key, image }: KernelFile,
    bounds: Bounds,
    before: Option<&KnownParts>,
    ahead: Option<OwnedSemaphorePermit>,
    at_end: oneshot::Sender<()>,
) -> Result<Received, ReceiveError> {
    let mut incoming = Incoming::new(pipes, bounds, at_end)?;
    let bounded = Bounded { file, left: bounds.file_bytes };
    let sealing = key.seal(bounded, What::Kernel { image: &image.to_string() })?;
    let mut writer = zstd::Encoder::new(sealing, LEVEL)?;
    let parts = match before {
        Some(before) => {
            let mut held = Vec::new();
            if ahead.is_some() {
                incoming.by_ref().take(AHEAD_MAX_BYTES).read_to_end(&mut held)?;
            }
            let all = held.as_slice().chain(&mut incoming);
            Some(parts::write(all, &mut writer, image, before)?)
        }
        None => {
            let mut buffer = vec![0; CHUNK_BYTES];
            while let count @ 1.. = incoming.read(&mut buffer)? {
                writer.write_all(buffer.get(..count).unwrap_or_default())?;
            }
            None
        }
    };
    drop(writer.finish()?.finish()?);
    let Incoming { template, lengths, .. } = incoming;
    Ok(Received { template: template.ok_or(ReceiveError::Cut)?.into(), lengths, parts })
}

/// What comes from pipes, one after the other.
struct Incoming {
    rest: vec::IntoIter<File>,
    /// The one that is read.
    pipe: Option<Pipe>,
    bounds: Bounds,
    total: u64,
    /// The first bytes of each.
    template: Option<[u8; 32]>,
    /// Of those that were read to their end.
    lengths: Vec<u64>,
    at_end: Option<oneshot::Sender<()>>,
}

/// A pipe, with the first and last bytes that came from it.
struct Pipe {
    file: File,
    bytes: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Pipe {
    const fn new(file: File) -> Self {
        Self { file, bytes: 0, first: Vec::new(), last: Vec::new() }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let wanted = size_of::<[u8; 32]>().saturating_sub(self.first.len());
        self.first.extend_from_slice(bytes.get(..wanted.min(bytes.len())).unwrap_or_default());
        let end = bytes.len().saturating_sub(END.len());
        self.last.extend_from_slice(bytes.get(end..).unwrap_or_default());
        drop(self.last.drain(..self.last.len().saturating_sub(END.len())));
    }

    /// Of which template it says that it is, if all of it came.
    fn template(&self) -> Option<[u8; 32]> {
        self.first.as_slice().try_into().ok().filter(|_| self.last == END)
    }
}

impl Incoming {
    fn new(pipes: Vec<OwnedFd>, bounds: Bounds, at_end: oneshot::Sender<()>) -> io::Result<Self> {
        let pipes: Vec<_> = pipes.into_iter().map(nonblocking).collect::<io::Result<_>>()?;
        let mut rest = pipes.into_iter();
        let pipe = rest.next().map(Pipe::new);
        let (lengths, at_end) = (Vec::new(), Some(at_end));
        Ok(Self { rest, pipe, bounds, total: 0, template: None, lengths, at_end })
    }

    /// Goes on with the next pipe.
    fn end_pipe(&mut self, ended: &Pipe) -> io::Result<()> {
        let template = ended.template().ok_or(io::ErrorKind::UnexpectedEof)?;
        if *self.template.get_or_insert(template) != template {
            return Err(io::Error::other("its kernels are of several templates"));
        }
        self.lengths.push(ended.bytes);
        self.pipe = self.rest.next().map(Pipe::new);
        Ok(())
    }
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut pipe) = self.pipe.take() {
            if Instant::now() >= self.bounds.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match pipe.file.read(buffer) {
                Ok(0) if !buffer.is_empty() => {
                    self.end_pipe(&pipe)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&pipe.file, PollFlags::POLLIN, self.bounds.until)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.total += count as u64;
                    if self.total > self.bounds.bytes {
                        return Err(io::ErrorKind::FileTooLarge.into());
                    }
                    pipe.note(buffer.get(..count).unwrap_or_default());
                    self.pipe = Some(pipe);
                    return Ok(count);
                }
            }
            self.pipe = Some(pipe);
        }
        if let Some(at_end) = self.at_end.take() {
            discard(at_end.send(()), "nobody waits for it");
        }
        Ok(0)
    }
}

/// A file that does not grow above its bound.
struct Bounded {
    file: File,
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(io::ErrorKind::QuotaExceeded)?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes to a pipe what a kernel reads. Blocks.
pub(crate) fn send(reader: &mut impl Read, pipe: OwnedFd, until: Instant) -> io::Result<()> {
    let mut pipe = nonblocking(pipe)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = reader.read(&mut buffer)?;
        let mut rest = buffer.get(..count).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            match pipe.write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&pipe, PollFlags::POLLOUT, until)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It has read all that it wants.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

fn nonblocking(pipe: OwnedFd) -> io::Result<File> {
    let flags = OFlag::from_bits_truncate(fcntl(&pipe, FcntlArg::F_GETFL)?);
    fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    // A larger one is faster; a host that allows none works as well.
    if let Err(error) = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)) {
        tracing::debug!(%error, "a pipe of the usual size");
    }
    Ok(pipe.into())
}

fn wait(pipe: &File, events: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(pipe.as_fd(), events)], timeout) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
