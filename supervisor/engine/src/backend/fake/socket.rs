//! What a test's agent was handed: a socket of this very process, by its number. Its owner is
//! known to the kernel only, and so it can be used without code that is not safe.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::os::fd::RawFd;

use nix::sys::socket::{MsgFlags, recv, send};
use tokio::task::spawn_blocking;

#[derive(Debug)]
pub struct FakeSocket(RawFd);

impl FakeSocket {
    pub(super) const fn new(number: RawFd) -> Self {
        Self(number)
    }

    /// Waits for bytes; none at end of file.
    pub async fn read(&self) -> Vec<u8> {
        let number = self.0;
        let reading = spawn_blocking(move || {
            let mut bytes = vec![0; 64 << 10];
            let len = recv(number, &mut bytes, MsgFlags::empty()).unwrap_or(0);
            bytes.truncate(len);
            bytes
        });
        reading.await.unwrap()
    }

    /// Waits until all is written, or nobody reads it; whether it was.
    pub async fn write(&self, bytes: Vec<u8>) -> bool {
        let number = self.0;
        let writing = spawn_blocking(move || {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                match send(number, rest, MsgFlags::MSG_NOSIGNAL) {
                    Ok(len) => rest = &rest[len..],
                    Err(_) => return false,
                }
            }
            true
        });
        writing.await.unwrap()
    }
}

impl Drop for FakeSocket {
    fn drop(&mut self) {
        nix::unistd::close(self.0).unwrap();
    }
}
