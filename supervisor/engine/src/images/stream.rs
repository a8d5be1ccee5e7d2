//! An image on its way between a pipe and a compressed, sealed file. Who has the other end is not trusted: it may
//! write without end, or neither write nor read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_audit::Hash;
use vivarium_protocol::image::END;

use super::KernelFile;
use super::seal::What;

/// Memory changes little from one moment to the next, and time matters more than the last tenth of the size.
const LEVEL: i32 = 1;

const CHUNK_BYTES: usize = 256 << 10;

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
    Io(#[from] io::Error),
}

/// Writes what comes from a pipe to a file; of which template it says that it is. All that came has to end with
/// the mark of a whole image. Blocks.
pub(crate) fn receive(
    pipe: OwnedFd,
    KernelFile { file, key, image }: KernelFile,
    bounds: Bounds,
) -> Result<Hash, ReceiveError> {
    let mut pipe = nonblocking(pipe)?;
    let bounded = Bounded { file, left: bounds.file_bytes };
    let sealing = key.seal(bounded, What::Kernel { image: &image.to_string() }).map_err(explain)?;
    let mut writer = zstd::Encoder::new(sealing, LEVEL)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut total, mut first, mut last) = (0_u64, Vec::new(), Vec::new());
    loop {
        let count = match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&pipe, PollFlags::POLLIN, bounds.until)?;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        total += count as u64;
        if total > bounds.bytes {
            return Err(ReceiveError::TooLarge);
        }
        let wanted = size_of::<[u8; 32]>().saturating_sub(first.len());
        first.extend_from_slice(bytes.get(..wanted.min(count)).unwrap_or_default());
        last.extend_from_slice(bytes.get(count.saturating_sub(END.len())..).unwrap_or_default());
        drop(last.drain(..last.len().saturating_sub(END.len())));
        writer.write_all(bytes).map_err(explain)?;
    }
    if last != END {
        return Err(ReceiveError::Cut);
    }
    let sealing = writer.finish().map_err(explain)?;
    sealing.finish().map_err(explain)?.file.sync_all()?;
    let template: [u8; 32] = first.try_into().map_err(|_| ReceiveError::Cut)?;
    Ok(template.into())
}

fn explain(error: io::Error) -> ReceiveError {
    if error.kind() == io::ErrorKind::QuotaExceeded { ReceiveError::Full } else { error.into() }
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
pub(crate) fn send(mut reader: impl Read, pipe: OwnedFd, until: Instant) -> io::Result<()> {
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
