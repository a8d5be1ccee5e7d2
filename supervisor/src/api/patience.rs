//! A connection that is given up when its peer takes nothing for too long.
//!
//! Without this a client that asks for a large file and does not read it holds the connection,
//! the transfer and what was read for it for as long as it likes. How long a client may take to
//! send is bounded where that is read ([`super::extract`]).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail when one has waited for longer than its patience.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Made by the first wait, and then moved: to make one wakes the runtime.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl<S> Patient<S> {
    pub(super) const fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, timer: None, is_waiting: false }
    }

    /// What came of an attempt to write, or that it has been waited for long enough.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.is_waiting = false;
            return attempt;
        }
        let patience = self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        if !std::mem::replace(&mut self.is_waiting, true)
            && let Some(until) = Instant::now().checked_add(patience)
        {
            timer.as_mut().reset(until);
        }
        ready!(timer.as_mut().poll(context));
        let why = format!("the client took nothing for {} s", self.patience.as_secs_f64());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, attempt)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn a_peer_that_reads_is_waited_for() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = Patient::new(ours, Duration::from_secs(3600));
        let writing = tokio::spawn(async move { ours.write_all(&[7; 100]).await });
        let mut bytes = [0; 100];
        theirs.read_exact(&mut bytes).await.unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(bytes, [7; 100]);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_is_given_up() {
        let (ours, _theirs) = duplex(4);
        let mut ours = Patient::new(ours, Duration::from_millis(20));
        let error = ours.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
