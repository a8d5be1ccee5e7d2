//! Detects that a client has left while its request is being answered.
//!
//! A client that has sent its request may shut down its sending side and wait for the answer. A Unix
//! socket distinguishes this from a hang-up. On TCP both look the same until something is sent, so
//! there a client that ends its sending side has left, for the requests that end with their client.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// Watches the other end of one connection.
#[derive(Debug)]
pub(super) struct Departure {
    /// A duplicate: the runtime takes each descriptor once.
    socket: OwnedFd,
    /// The runtime reports a hang-up whatever the interest.
    interest: Interest,
}

impl Departure {
    /// # Errors
    /// As `dup(2)`.
    pub(super) fn of_tcp(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { socket: socket.try_clone_to_owned()?, interest: Interest::READABLE })
    }

    /// # Errors
    /// As `dup(2)`.
    pub(super) fn of_unix(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // Without an interest in reading, half a hang-up (`EPOLLRDHUP`) is not reported.
        Ok(Self { socket: socket.try_clone_to_owned()?, interest: Interest::WRITABLE })
    }

    /// Resolves when the client has left during a request that ends with it.
    pub(super) async fn left(self, mut ends_with_client: watch::Receiver<bool>) {
        loop {
            becomes(&mut ends_with_client, true).await;
            tokio::select! {
                biased;
                () = becomes(&mut ends_with_client, false) => {}
                hung_up = self.hung_up() => match hung_up {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::warn!(%error, "watch a client");
                        becomes(&mut ends_with_client, false).await;
                    }
                },
            }
        }
    }

    async fn hung_up(&self) -> io::Result<()> {
        #[expect(
            deprecated,
            reason = "the replacement is unsafe for the sake of types whose as_raw_fd lies; BorrowedFd's does not"
        )]
        let socket = AsyncFd::with_interest(self.socket.as_fd(), self.interest)?;
        loop {
            let mut guard = socket.ready(self.interest).await?;
            if guard.ready().is_read_closed() || guard.ready().is_write_closed() {
                return Ok(());
            }
            guard.clear_ready();
        }
    }
}

async fn becomes(receiver: &mut watch::Receiver<bool>, value: bool) {
    if receiver.wait_for(|current| *current == value).await.is_err() {
        // The connection is gone, and this task is about to be dropped.
        std::future::pending().await
    }
}
