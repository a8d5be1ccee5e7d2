//! Headers of content from tenant code: no client shall render, run or cache it.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Makes a browser save the content under the name at the end of this path.
pub(super) fn headers(path: &str) -> HeaderMap {
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

/// Sets a header to visible ASCII.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: impl AsRef<str>) {
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
