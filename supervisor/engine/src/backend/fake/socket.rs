//! The socket of a transfer, as a test's agent receives it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::task::spawn_blocking;

#[derive(Debug)]
pub struct FakeSocket(Arc<UnixStream>);

impl AsFd for FakeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl FakeSocket {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self(Arc::new(fd.into()))
    }

    /// Waits for bytes; none at end of file.
    pub async fn read(&self) -> Vec<u8> {
        let socket = Arc::clone(&self.0);
        let reading = spawn_blocking(move || {
            let mut bytes = vec![0; 64 << 10];
            let len = (&*socket).read(&mut bytes).unwrap_or(0);
            bytes.truncate(len);
            bytes
        });
        reading.await.unwrap()
    }

    /// Waits until all is written, or nobody reads it; whether it was.
    pub async fn write(&self, bytes: Vec<u8>) -> bool {
        let socket = Arc::clone(&self.0);
        spawn_blocking(move || (&*socket).write_all(&bytes).is_ok()).await.unwrap()
    }
}
