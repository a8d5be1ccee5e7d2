//! Bounds what is read of a connection before there is an answer.
//!
//! hyper bounds each head, and skips informational ones (RFC 9110, 15.2) however many there are.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are read before an answer, give or take one read.
const MAX_BYTES: usize = 256 << 10;

/// A stream that fails when too much has been read and there is no answer.
#[derive(Debug)]
pub(super) struct HeadLimit<S> {
    stream: S,
    read: usize,
    is_over: Answered,
}

/// Whether there is an answer. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl Answered {
    /// There is: what follows has no limit.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<S> HeadLimit<S> {
    pub(super) fn new(stream: S) -> (Self, Answered) {
        let is_over = Answered::default();
        (Self { stream, read: 0, is_over: is_over.clone() }, is_over)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read > MAX_BYTES && !self.is_over.0.load(Ordering::Acquire) {
            let why = "too much came before an answer";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read = self.read.saturating_add(buffer.filled().len().saturating_sub(before));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn only_what_precedes_the_answer_is_limited() {
        let (mut stream, answered) =
            HeadLimit::new(tokio::io::join(tokio::io::repeat(b'x'), tokio::io::sink()));
        let mut bytes = vec![0; 1000];
        let mut read = 0;
        let error = loop {
            match stream.read(&mut bytes).await {
                Ok(len) => read += len,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!((MAX_BYTES..MAX_BYTES + 2 * bytes.len()).contains(&read), "{read}");
        answered.set();
        for _ in 0..1000 {
            stream.read_exact(&mut bytes).await.unwrap();
        }
    }
}
