//! `/files`: content of files, read and written.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use vivarium_client::path;

use super::super::errors::{self, bad};
use super::super::listing::pairs;
use super::super::{Client, paths};
use crate::dialects::form::Part;
use crate::dialects::native::{self, Call, Content, Native, Refusal};

/// What a request for a file says in its query.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub path: Option<String>,
    pub user: String,
    pub signature: Option<String>,
    /// In seconds since 1970.
    pub expiration: Option<i64>,
}

impl Asked {
    /// # Errors
    /// [`Refusal`] if it cannot be read.
    pub fn read(query: &str) -> Result<Self, Refusal> {
        let mut asked = Self::default();
        for (name, value) in pairs(query)? {
            match name.as_str() {
                "path" => asked.path = Some(value),
                "username" => asked.user = value,
                "signature" => asked.signature = Some(value),
                "signature_expiration" => {
                    let time = value.parse();
                    let why = "seconds since 1970";
                    asked.expiration = Some(time.map_err(|_| bad("signature_expiration", why))?);
                }
                _ => {}
            }
        }
        Ok(asked)
    }

    /// The answer to who asks as somebody whom the sandbox has not, or for what is not offered.
    #[must_use]
    pub fn refused(&self, headers: &HeaderMap) -> Option<Response> {
        if !super::is_user(&self.user) {
            let why = super::unknown_user(&self.user);
            return Some(errors::answer(StatusCode::UNAUTHORIZED, &why));
        }
        let is_metadata = |name: &http::HeaderName| name.as_str().starts_with("x-metadata-");
        headers.keys().any(is_metadata).then(|| errors::not_offered("metadata of files"))
    }
}

/// The file of the API that a path means.
#[must_use]
pub fn target(sandbox: &str, path: &str) -> String {
    path::file(sandbox, &paths::absolute(path))
}

/// Answers with the content of a file.
pub async fn download<N: Native>(client: &Client<N>, path: Option<&str>) -> Response {
    let path = path.unwrap_or_default();
    let call = Call::new(Method::GET, target(&client.sandbox.id, path));
    let response = match client.native.call(call).await {
        Ok(response) if response.status().is_success() => response,
        Ok(response) => return refused(response, &client.sandbox.id).await,
        Err(refusal) => return errors::inside(&refusal, &client.sandbox.id),
    };
    let (head, body) = response.into_parts();
    // Of what is no file there is an archive, whose length nobody knows.
    let Some(length) = head.headers.get(header::CONTENT_LENGTH).cloned() else {
        let why = format!("{path} is a directory");
        return errors::answer(StatusCode::BAD_REQUEST, &why);
    };
    // Never shown as a page of this origin, whatever tenant code calls it.
    let headers = [
        (header::CONTENT_LENGTH, length),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

/// What the API has refused, in the dialect's form.
pub async fn refused(response: http::Response<Body>, sandbox: &str) -> Response {
    errors::inside(&native::refusal(response).await, sandbox)
}

/// Writes files. `path` is that of the only one; without it, each has its own as its name.
pub async fn upload<N: Native>(
    client: &Client<N>,
    path: Option<&str>,
    parts: Vec<Part>,
) -> Response {
    if path.is_some() && parts.len() != 1 {
        let why = "one path is for one file";
        return errors::answer(StatusCode::BAD_REQUEST, why);
    }
    let mut written = Vec::new();
    for part in parts {
        let path = path.unwrap_or(&part.name);
        let call = Call::new(Method::PUT, target(&client.sandbox.id, path));
        let call = Call { content: Content::Bytes(part.bytes.into()), ..call };
        if let Err(refusal) = native::whole(&client.native, call).await {
            return errors::inside(&refusal, &client.sandbox.id);
        }
        written.push(told(path));
    }
    Json(written).into_response()
}

/// What is told of a file that was written.
#[must_use]
pub fn told(path: &str) -> Value {
    let path = paths::absolute(path);
    json!({"name": paths::name(&path), "path": path, "type": "file"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_say_what_was_signed() {
        let query = "path=a%20b%2Fc&username=user&signature=v1_a%2Bb&signature_expiration=5";
        let expected = Asked {
            path: Some("a b/c".to_owned()),
            user: "user".to_owned(),
            signature: Some("v1_a+b".to_owned()),
            expiration: Some(5),
        };
        assert_eq!(Asked::read(query), Ok(expected));
        assert!(Asked::read("signature_expiration=soon").is_err());
    }

    #[test]
    fn paths_lead_to_files_of_the_session() {
        assert_eq!(target("i1", "a b.txt"), "/v1/sessions/i1/files/%2Fhome/user/a%20b%2Etxt");
        assert_eq!(told("/tmp/x")["path"], "/tmp/x");
    }
}
