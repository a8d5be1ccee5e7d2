//! A request, without the daemon's URL and the token.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::http::request::Builder;
use hyper::{Method, Request};
use tokio::io::{AsyncRead, ReadBuf};

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How much of a body is read and sent at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A request under construction.
#[derive(Debug)]
pub struct ApiRequest {
    builder: Builder,
    body: Body,
}

impl ApiRequest {
    /// A request without a body.
    #[must_use]
    pub fn new(method: Method, path: &str) -> Self {
        Self { builder: Request::builder().method(method).uri(path), body: bytes(Vec::new()) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// Sets a body of bytes.
    #[must_use]
    pub fn bytes(self, body: Vec<u8>) -> Self {
        let mut request = self.header(CONTENT_TYPE, "application/octet-stream");
        request.body = bytes(body);
        request
    }

    /// Sets a body that is already JSON.
    #[must_use]
    pub fn json_bytes(self, json: Vec<u8>) -> Self {
        let mut request = self.header(CONTENT_TYPE, "application/json");
        request.body = bytes(json);
        request
    }

    /// Sets a body that is read from `reader` while it is sent; `length_bytes` if that is known.
    #[must_use]
    pub fn stream(
        self,
        content_type: &str,
        reader: impl AsyncRead + Send + 'static,
        length_bytes: Option<u64>,
    ) -> Self {
        let mut request = self.header(CONTENT_TYPE, content_type);
        request.body =
            Streamed { reader: Box::pin(reader), left_bytes: length_bytes }.boxed_unsync();
        request
    }

    pub(super) fn into_parts(self) -> (Builder, Body) {
        (self.builder, self.body)
    }
}

fn bytes(all: Vec<u8>) -> Body {
    Full::new(Bytes::from(all)).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is read while it is sent.
struct Streamed {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    left_bytes: Option<u64>,
}

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left_bytes == Some(0) {
            return Poll::Ready(None);
        }
        let most = self.left_bytes.map_or(CHUNK_BYTES, |left| {
            usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES))
        });
        let mut chunk = vec![0; most];
        let mut buffer = ReadBuf::new(&mut chunk);
        match self.reader.as_mut().poll_read(context, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => {}
        }
        let read = buffer.filled().len();
        if read == 0 {
            // After too few bytes the daemon would wait for the rest.
            return Poll::Ready(self.left_bytes.map(|left| {
                Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("it was to have {left} bytes more"),
                ))
            }));
        }
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        }
        chunk.truncate(read);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left_bytes.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
