//! The standard input of a command that others write to while it runs.
//!
//! It is a pipe whose other end the command reads itself: nothing is kept here, and who writes waits
//! as long as the command does not read.

use std::io;
use std::os::fd::OwnedFd;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

#[derive(Debug)]
pub struct StdinPipe(Mutex<Option<pipe::Sender>>);

/// Why nothing can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl StdinPipe {
    /// A pipe, and the end that the command reads.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
        let write = pipe::Sender::from_owned_fd(write)?;
        Ok((Self(Mutex::new(Some(write))), read))
    }

    /// Writes as much as there is room for, at least something. Tells how much.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, Closed> {
        let mut pipe = self.0.lock().await;
        let written = pipe.as_mut().ok_or(Closed)?.write(bytes).await;
        written.map_err(|_| {
            *pipe = None;
            Closed
        })
    }

    /// Ends it: the command reads what was written, and then its end.
    pub async fn close(&self) {
        *self.0.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn a_writer_waits_for_a_command_that_does_not_read() {
        let (stdin, read) = StdinPipe::new().unwrap();
        let bytes = vec![7; 1 << 20];
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            std::fs::File::from(read).read_to_end(&mut all).map(|_| all)
        });
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let written = stdin.write(rest).await.unwrap();
            rest = &rest[written..];
        }
        stdin.close().await;
        assert_eq!(reader.join().unwrap().unwrap(), bytes);
        assert_eq!(stdin.write(b"x").await, Err(Closed));
    }

    #[tokio::test]
    async fn what_nobody_reads_any_more_is_closed() {
        let (stdin, read) = StdinPipe::new().unwrap();
        assert_eq!(stdin.write(b"x").await, Ok(1));
        drop(read);
        assert_eq!(stdin.write(b"x").await, Err(Closed));
        assert_eq!(stdin.write(b"x").await, Err(Closed));
    }
}
