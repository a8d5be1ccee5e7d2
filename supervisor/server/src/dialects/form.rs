//! Files of an upload: the parts of a multipart body that have a file name.

use axum::body::Bytes;
use futures_util::stream;

/// A file of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub bytes: Bytes,
}

/// Why a body is no upload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    #[error("the body has to be multipart/form-data, with a boundary")]
    ContentType,
    #[error("the body is cut or malformed: {0}")]
    Malformed(String),
    #[error("at most {0} files")]
    TooMany(usize),
}

/// Reads a body that is there as a whole, and bounded already, and has at most `max` files. Parts without a
/// file name are passed over.
///
/// # Errors
/// [`BadForm`]
pub async fn files(content_type: &str, body: Bytes, max: usize) -> Result<Vec<Part>, BadForm> {
    let boundary = multer::parse_boundary(content_type).map_err(|_| BadForm::ContentType)?;
    let body = stream::iter([Ok::<_, std::io::Error>(body)]);
    let mut form = multer::Multipart::new(body, boundary);
    let mut files = Vec::new();
    while let Some(field) = form.next_field().await.map_err(malformed)? {
        let Some(name) = field.file_name().map(str::to_owned) else { continue };
        if files.len() == max {
            return Err(BadForm::TooMany(max));
        }
        let bytes = field.bytes().await.map_err(malformed)?;
        files.push(Part { name, bytes });
    }
    Ok(files)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn malformed(error: multer::Error) -> BadForm {
    BadForm::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=B";

    fn part(name: &str, content: &str) -> String {
        format!(
            "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
    }

    #[tokio::test]
    async fn files_are_read_and_fields_passed_over() {
        let field = "--B\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\nuser\r\n";
        let body = format!("{field}{}{}--B--\r\n", part("a/é.txt", "x\r\ny"), part("", ""));
        let read = files(KIND, body.into(), 2).await.unwrap();
        let names: Vec<_> = read.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["a/é.txt", ""]);
        assert_eq!(read[0].bytes, "x\r\ny");
    }

    #[tokio::test]
    async fn cut_and_excessive_bodies_are_refused() {
        let whole = format!("{}--B--\r\n", part("a", "x"));
        // The line end after the last boundary may be missing.
        for end in 0..whole.len() - 4 {
            let read = files(KIND, whole[..end].to_owned().into(), 1).await;
            assert!(matches!(read, Err(BadForm::Malformed(_))), "{end}: {read:?}");
        }
        let many = |count: usize| format!("{}--B--", part("a", "").repeat(count));
        assert_eq!(files(KIND, many(3).into(), 3).await.unwrap().len(), 3);
        assert_eq!(files(KIND, many(4).into(), 3).await, Err(BadForm::TooMany(3)));
        for kind in ["", "text/plain", "multipart/form-data", "multipart/mixed; boundary=B"] {
            let read = files(kind, whole.clone().into(), 1).await;
            assert_eq!(read, Err(BadForm::ContentType), "{kind}");
        }
    }
}
