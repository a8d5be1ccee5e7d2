//! A stream of which the beginning was read and is still to be passed on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};

/// How much is asked for at a time.
const CHUNK: usize = 8 << 10;

/// Reads give what was buffered first.
#[derive(Debug)]
pub(crate) struct Buffered<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl<S> Buffered<S> {
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    /// What was read and not taken.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the first `len` bytes, or all if there are fewer.
    pub(crate) fn consume(&mut self, len: usize) -> Vec<u8> {
        let rest = self.bytes.split_off(len.min(self.bytes.len()));
        std::mem::replace(&mut self.bytes, rest)
    }
}

impl<S: AsyncRead + Unpin> Buffered<S> {
    /// Reads more, and returns whether there was more. Nothing is lost if this is dropped.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        self.bytes.reserve(CHUNK);
        Ok(self.stream.read_buf(&mut self.bytes).await? > 0)
    }
}

impl<S: AsyncRead + AsyncWrite> Buffered<S> {
    pub(crate) fn split(self) -> (Buffered<ReadHalf<S>>, WriteHalf<S>) {
        let (read, write) = tokio::io::split(self.stream);
        (Buffered { stream: read, bytes: self.bytes }, write)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Buffered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let bytes = self.consume(buffer.remaining());
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Buffered<S> {
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
