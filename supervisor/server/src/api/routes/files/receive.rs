//! The content of an upload, read only as fast as the session takes it.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use vivarium_engine::Upload;
use vivarium_engine::session::transfer::Uploaded;

use crate::api::Problem;
use crate::api::body::{Pieces, content_length};

/// Conditional headers, which uploads do not support and so refuse.
const CONDITIONS: [HeaderName; 4] =
    [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE, header::CONTENT_RANGE];

/// Refuses a request whose headers would be ignored, or whose content is not what `unpack` needs.
pub(super) fn check(headers: &HeaderMap, unpack: bool) -> Result<(), Problem> {
    if let Some(name) = CONDITIONS.into_iter().find(|name| headers.contains_key(name)) {
        // RFC 9110, 14.5, of Content-Range: 400.
        let detail = format!("a file is written as a whole and unconditionally, without {name}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "unsupported_header", detail));
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let coding = text(header::CONTENT_ENCODING).unwrap_or("identity");
    if !coding.trim().eq_ignore_ascii_case("identity") {
        return Err(unsupported("a content is taken as it is, without Content-Encoding"));
    }
    let kind = text(header::CONTENT_TYPE).and_then(|kind| kind.split(';').next());
    let is_tar = kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-tar"));
    if unpack && !is_tar {
        return Err(unsupported("what is unpacked is a tar archive, as application/x-tar"));
    }
    Ok(())
}

fn unsupported(detail: &str) -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
}

pub(super) struct Incoming {
    body: Pieces,
    announced_bytes: Option<u64>,
    /// Whether the client waits for `100 Continue` before it sends anything (RFC 9110, 10.1.1).
    asks_first: bool,
    started: bool,
}

impl Incoming {
    pub(super) fn new(parts: &Parts, body: Body) -> Self {
        let headers = &parts.headers;
        let asks_first = headers.contains_key(header::EXPECT);
        let announced_bytes = content_length(headers);
        Self {
            body: Pieces::of(&parts.extensions, body),
            announced_bytes,
            asks_first,
            started: false,
        }
    }

    pub(super) const fn announced(&self) -> Option<u64> {
        self.announced_bytes
    }

    pub(super) async fn copy_to(&mut self, mut upload: Upload) -> Result<Uploaded, Problem> {
        self.started = true;
        while let Some(data) = self.body.next().await? {
            upload = upload.send(&data).await?;
        }
        Ok(upload.finish().await?)
    }

    /// Discards the rest for a client that reads its answer only after sending everything.
    pub(super) async fn drain(self) {
        if self.started || !self.asks_first {
            self.body.drain().await;
        }
    }
}
