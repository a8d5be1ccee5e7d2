//! Headers of a file.

use axum::http::{HeaderMap, header};
use vivarium_engine::media;

use super::conditional::{ByteRange, Version};
use crate::api::untrusted::{self, insert};

/// The validators of a version, also for a response without content.
pub(super) fn validators(version: &Version) -> HeaderMap {
    let mut headers = HeaderMap::new();
    insert(&mut headers, header::ETAG, version.etag());
    if let Some(modified) = version.last_modified() {
        insert(&mut headers, header::LAST_MODIFIED, modified);
    }
    insert(&mut headers, header::CACHE_CONTROL, "no-store");
    headers
}

pub(super) fn of_content(path: &str, range: &ByteRange, size: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    insert(&mut headers, header::CONTENT_TYPE, media::of_name(path));
    insert(&mut headers, header::CONTENT_LENGTH, range.length.to_string());
    insert(&mut headers, header::ACCEPT_RANGES, "bytes");
    if range.is_part {
        let last = range.start + range.length.saturating_sub(1);
        let range = format!("bytes {}-{last}/{size}", range.start);
        insert(&mut headers, header::CONTENT_RANGE, range);
    }
    headers.extend(untrusted::headers(path));
    headers
}

pub(super) fn of_archive(path: &str) -> HeaderMap {
    let mut headers =
        untrusted::headers(&format!("{}.tar", if path.is_empty() { "files" } else { path }));
    insert(&mut headers, header::CONTENT_TYPE, "application/x-tar");
    insert(&mut headers, header::CACHE_CONTROL, "no-store");
    headers
}
