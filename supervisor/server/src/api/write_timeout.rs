//! Closes a connection whose client reads nothing for too long.
//!
//! Otherwise a client that requests a large file and does not read it would hold the connection, the
//! transfer and its buffers for as long as it likes. [`super::body`] bounds how long a client may
//! take to send.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::body::allowed_for;
use super::delivery::Delivery;

/// A stream whose writes fail after waiting for `limit` at once, or in total for longer than
/// [`allowed_for`] the bytes written.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Made by the first wait and then reset: a new one wakes the runtime.
    timer: Option<Pin<Box<Sleep>>>,
    /// When the current wait began.
    since: Option<Instant>,
    /// The duration of all earlier waits.
    waited: Duration,
    written: u64,
    delivery: Delivery,
}

impl<S> WriteTimeout<S> {
    pub(super) const fn new(stream: S, limit: Duration, delivery: Delivery) -> Self {
        let (timer, since, waited, written) = (None, None, Duration::ZERO, 0);
        Self { stream, limit, timer, since, waited, written, delivery }
    }

    /// The result of an attempt to write, or an error once the time is up.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            if let Some(since) = self.since.take() {
                self.waited += since.elapsed();
            }
            return attempt;
        }
        let left = allowed_for(self.written).saturating_sub(self.waited).min(self.limit);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(left)));
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            if let Some(until) = now.checked_add(left) {
                timer.as_mut().reset(until);
            }
        }
        ready!(timer.as_mut().poll(context));
        let why = "the client took nothing, or too little, of an answer for too long";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }

    fn judge_write(
        &mut self,
        context: &mut Context<'_>,
        attempt: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &attempt {
            self.written += *bytes as u64;
            self.delivery.written();
        }
        self.judge(context, attempt)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge_write(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge_write(context, attempt)
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
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn peer_that_reads_gets_everything() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, Duration::from_secs(3600), Delivery::default());
        let writing = tokio::spawn(async move { ours.write_all(&[7; 100]).await });
        let mut bytes = [0; 100];
        theirs.read_exact(&mut bytes).await.unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(bytes, [7; 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn peer_that_trickles_is_disconnected() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, Duration::from_secs(30), Delivery::default());
        let reading = tokio::spawn(async move {
            while theirs.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        });
        let error = ours.write_all(&[7; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(ours);
        reading.await.unwrap();
    }

    #[tokio::test]
    async fn peer_that_reads_nothing_is_disconnected() {
        let (ours, _theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, Duration::from_millis(20), Delivery::default());
        let error = ours.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
