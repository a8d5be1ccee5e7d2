//! Whom a request is for, and by which token: the only place where E2B's credentials are looked at.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;
use vivarium_api_types::TokenHash;

use super::super::super::auth::{self, Shown};
use super::super::super::{Problem, guard};
use super::{Of, refused};
use crate::dialects::e2b::envd::files::Asked;
use crate::dialects::e2b::route::{ACCESS, Target};
use crate::dialects::e2b::sandboxes::{Opened, Purpose, Signed};
use crate::dialects::e2b::{ENVD_PORT, errors};

const API_KEY: &str = "x-api-key";
const TRAFFIC: &str = "e2b-traffic-access-token";

const NO_TOKEN: &str = "this needs the token that the sandbox has given: X-Access-Token";

/// Headers that are the server's own, and not those of a server in a sandbox.
pub(super) const OWN: [&str; 5] = [API_KEY, ACCESS, TRAFFIC, "e2b-sandbox-id", "e2b-sandbox-port"];

/// Who sends a request, and for whom.
#[derive(Clone)]
pub(super) enum Who {
    /// A client of the API; whether its token is one is not known yet.
    Control { key: Option<TokenHash> },
    /// A client of a sandbox, which its token or signature opens.
    Inside { opened: Opened, port: u16 },
}

pub(super) async fn identify(State(of): State<Of>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if guard::is_full(&parts.extensions) {
        return refused(guard::full()).await;
    }
    let who = match Target::of(&parts.uri, &parts.headers) {
        Ok(Target::Control) => control(&of, &mut parts).map_err(Refused::Problem),
        Ok(Target::Sandbox { id, port }) => inside(&of, &parts, &id, port),
        Ok(Target::OfToken) => of_token(&of, &parts),
        Ok(Target::Signed) => signed(&of, &parts, None),
        Err(why) => return errors::answer(StatusCode::BAD_REQUEST, why),
    };
    let who = match who {
        Ok(who) => who,
        Err(Refused::Gone(id)) => return errors::gone(&id),
        Err(Refused::Signature(why)) => {
            auth::refused(&of.api, &parts, &unauthenticated(why));
            return errors::answer(StatusCode::UNAUTHORIZED, why);
        }
        Err(Refused::Problem(problem)) => {
            if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
                auth::refused(&of.api, &parts, &problem);
            }
            return refused(problem).await;
        }
    };
    if let Who::Inside { opened, .. } = &who {
        parts.extensions.insert(Shown(opened.key));
    }
    parts.extensions.insert(who);
    next.run(Request::from_parts(parts, body)).await
}

enum Refused {
    /// There is no such sandbox, or nobody has connected to it since the daemon's start.
    Gone(String),
    /// In the words of E2B's server.
    Signature(&'static str),
    Problem(Problem),
}

/// Puts the token where the native API looks for it.
fn control(of: &Of, parts: &mut Parts) -> Result<Who, Problem> {
    let mut key = None;
    if let Some(text) = one(&parts.headers, API_KEY) {
        key = Some(TokenHash::of(text));
        // Refused later, as any token of nobody.
        let value = HeaderValue::try_from(format!("Bearer {text}"));
        let mut value = value.unwrap_or(HeaderValue::from_static("Bearer"));
        value.set_sensitive(true);
        parts.headers.insert(header::AUTHORIZATION, value);
    } else if let Some(bearer) = one(&parts.headers, header::AUTHORIZATION.as_str()) {
        key = bearer.strip_prefix("Bearer ").map(|text| TokenHash::of(text.trim()));
    }
    if let Some(problem) = guard::refusal(&of.api, &parts.extensions, &parts.uri, &parts.headers) {
        return Err(problem);
    }
    let has_tenants = !of.api.engine.settings().tenants.is_empty();
    Ok(Who::Control { key: key.filter(|_| has_tenants) })
}

fn inside(of: &Of, parts: &Parts, id: &str, port: u16) -> Result<Who, Refused> {
    if !of.sandboxes.knows(id) {
        return Err(Refused::Gone(id.to_owned()));
    }
    let purpose = if port == ENVD_PORT { Purpose::Envd } else { Purpose::Traffic };
    let tokens = [ACCESS, TRAFFIC].into_iter().filter_map(|name| one(&parts.headers, name));
    let mut opened = tokens.filter_map(|token| of.sandboxes.open(id, token, purpose));
    if let Some(opened) = opened.next() {
        return Ok(Who::Inside { opened, port });
    }
    if port == ENVD_PORT && is_signed(parts) {
        return signed(of, parts, Some(id));
    }
    Err(Refused::Problem(unauthenticated(NO_TOKEN)))
}

/// The sandbox whose token is shown.
fn of_token(of: &Of, parts: &Parts) -> Result<Who, Refused> {
    let opened = one(&parts.headers, ACCESS).and_then(|token| of.sandboxes.open_unnamed(token));
    let opened = opened.ok_or_else(|| Refused::Problem(unauthenticated(NO_TOKEN)))?;
    Ok(Who::Inside { opened, port: ENVD_PORT })
}

fn is_signed(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    parts.uri.path() == "/files" && query.split('&').any(|pair| pair.starts_with("signature="))
}

/// The sandbox that has signed a URL.
fn signed(of: &Of, parts: &Parts, id: Option<&str>) -> Result<Who, Refused> {
    let invalid = || Refused::Signature("invalid signature");
    let operation = match parts.method {
        Method::GET | Method::HEAD => "read",
        Method::POST => "write",
        _ => return Err(invalid()),
    };
    let asked = Asked::read(parts.uri.query().unwrap_or_default()).map_err(|_| invalid())?;
    let Some(signature) = asked.signature.as_deref() else {
        return Err(Refused::Signature("missing signature query parameter"));
    };
    let signed = Signed {
        path: asked.path.as_deref().unwrap_or_default(),
        operation,
        user: &asked.user,
        signature,
        expiration: asked.expiration,
    };
    let opened = of.sandboxes.open_signed(id, &signed).ok_or_else(invalid)?;
    // Only who has had a right signature learns that it is too late.
    if asked.expiration.is_some_and(|time| time < Timestamp::now().as_second()) {
        return Err(Refused::Signature("signature is already expired"));
    }
    Ok(Who::Inside { opened, port: ENVD_PORT })
}

/// The value of a header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok().filter(|text| !text.is_empty())
}

fn unauthenticated(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
}
