//! Headers of a file from tenant code: no client shall render, run or cache it.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use vivarium_engine::media;

use super::conditional::{ByteRange, Version};

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
    headers.extend(of_download(path));
    headers
}

pub(super) fn of_archive(path: &str) -> HeaderMap {
    let mut headers = of_download(&format!("{}.tar", if path.is_empty() { "files" } else { path }));
    insert(&mut headers, header::CONTENT_TYPE, "application/x-tar");
    insert(&mut headers, header::CACHE_CONTROL, "no-store");
    headers
}

/// So that a browser saves what comes under this path's name.
fn of_download(path: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    insert(&mut headers, header::CONTENT_DISPOSITION, disposition(path));
    insert(&mut headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Should a browser show it all the same, then without scripts and without an origin; and no
    // page of another origin may use it as its script or image.
    insert(&mut headers, header::CONTENT_SECURITY_POLICY, "sandbox");
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    insert(&mut headers, policy, "same-origin");
    headers
}

/// A `Content-Disposition` that saves the file under its name (RFC 6266), encoded by RFC 8187.
fn disposition(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut text = "attachment; filename*=UTF-8''".to_owned();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: impl AsRef<str>) {
    // All of these are visible ASCII.
    if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_quoted_in_content_disposition() {
        assert_eq!(disposition("a/plot 1.png"), "attachment; filename*=UTF-8''plot%201.png");
        assert_eq!(disposition("ü"), "attachment; filename*=UTF-8''%C3%BC");
        let sly = "x\"; filename=\"y.exe\r\nset-cookie: a=b";
        let text = disposition(sly);
        assert!(!text.contains(['"', '\r', '\n', '=']) || text.matches('=').count() == 1, "{text}");
        assert!(HeaderValue::from_str(&text).is_ok());
    }
}
