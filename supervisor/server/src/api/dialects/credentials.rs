//! Tokens where clients of Jupyter and LibreChat put them.

use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri, header};

use super::super::Shared;
use super::{jupyter, librechat};

/// Puts a token where the native API looks for it, and takes it out of the target, which may be
/// logged: of `/jupyter/t/TOKEN/…`, of `?token=TOKEN`, or of `Authorization: token TOKEN`. The same at
/// `/librechat`.
pub(in super::super) async fn credentials(
    State(api): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let on = api.engine.settings().dialects;
    let path = request.uri().path();
    let base = [(jupyter::BASE, on.jupyter), (librechat::BASE, on.librechat)].into_iter().find(
        |(base, is_on)| *is_on && path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/')),
    );
    // A session's own server may have the same paths, at a host of its own.
    if let Some((base, _)) = base
        && !api.preview.is_for(&request)
    {
        let (target, token) = split(request.uri(), base);
        if let Some(uri) = target {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        if let Some(token) = token.or_else(|| of_scheme(headers)) {
            // Refused later, as any token of nobody.
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.unwrap_or(HeaderValue::from_static("Bearer"));
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
    }
    next.run(request).await
}

/// The target without token and query, and the token.
fn split(uri: &Uri, base: &str) -> (Option<Uri>, Option<String>) {
    let rest = uri.path().strip_prefix(base).unwrap_or_default();
    let in_path = rest.strip_prefix("/t/").map(|rest| rest.split_once('/').unwrap_or((rest, "")));
    let in_query = || {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?.0;
        pairs.into_iter().find_map(|(name, value)| (name == "token").then_some(value))
    };
    let (path, token) = match in_path {
        Some((token, rest)) => (format!("{base}/{rest}"), Some(decoded(token))),
        None => (uri.path().to_owned(), in_query()),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    (Uri::from_parts(parts).ok(), token)
}

/// A component of a path as text.
fn decoded(component: &str) -> String {
    let query = format!("/?t={}", component.replace('+', "%2B"));
    let uri = query.parse::<Uri>().ok();
    let pairs = uri.and_then(|uri| Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
    pairs.and_then(|pairs| pairs.0.into_iter().next()).map(|(_, value)| value).unwrap_or_default()
}

/// The token of `Authorization: token TOKEN`. The scheme alone is what clients send without one.
fn of_scheme(headers: &mut HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("token") {
        return None;
    }
    let token = token.trim().to_owned();
    headers.remove(header::AUTHORIZATION);
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str) -> (String, Option<String>) {
        let (uri, token) = split(&target.parse().unwrap(), jupyter::BASE);
        (uri.unwrap().to_string(), token)
    }

    #[test]
    fn tokens_leave_the_target() {
        let secret = || Some("a+b/c".to_owned());
        for (target, expected) in [
            ("/jupyter/t/a+b%2Fc/api/kernels", "/jupyter/api/kernels"),
            ("/jupyter/t/a+b%2Fc/api?session_id=1&token=other", "/jupyter/api"),
            ("/jupyter/api/kernels?x=1&token=a%2Bb%2Fc", "/jupyter/api/kernels"),
        ] {
            assert_eq!(of(target), (expected.to_owned(), secret()), "{target}");
        }
        assert_eq!(of("/jupyter/t/x"), ("/jupyter/".to_owned(), Some("x".to_owned())));
        assert_eq!(of("/jupyter/api?session_id=1"), ("/jupyter/api".to_owned(), None));
    }

    #[test]
    fn scheme_of_jupyter_is_read() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            (of_scheme(&mut headers), headers.contains_key(header::AUTHORIZATION))
        };
        assert_eq!(read("token secret"), (Some("secret".to_owned()), false));
        assert_eq!(read("Token  secret"), (Some("secret".to_owned()), false));
        assert_eq!(read("token"), (None, false));
        assert_eq!(read("Bearer secret"), (None, true));
    }
}
