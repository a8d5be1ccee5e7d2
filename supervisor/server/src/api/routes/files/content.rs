//! A file's content as a response body. If it ends early, the connection closes before the announced
//! length, so that the client notices.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use vivarium_engine::session::transfer::{ArchiveDownload, Download};

#[derive(Debug)]
pub(super) struct Content(Download);

impl Content {
    pub(super) const fn new(reading: Download) -> Self {
        Self(reading)
    }
}

impl HttpBody for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = self.0.poll_chunk(context);
        chunk.map(|chunk| chunk.map(|chunk| chunk.map(|bytes| Frame::data(bytes.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left())
    }
}

/// A directory as a response body, of which nobody knows how long it will be.
pub(super) fn of_archive(mut archive: ArchiveDownload) -> Body {
    let parts = futures_util::stream::poll_fn(move |context| archive.poll_chunk(context));
    Body::from_stream(parts)
}
