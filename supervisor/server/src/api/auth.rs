//! Authentication: the tenant whose token a request presents (RFC 6750, 2.1), and whether the token
//! is for what it asks ([`scopes`]).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use jiff::Timestamp;
use vivarium_api_types::{Scope, TokenHash};
use vivarium_engine::settings::{DEFAULT_TENANT, Settings, TenantToken};

use super::connections::{Activity, Peer};
use super::problem::Challenge;
use super::{Problem, Shared, scopes};

/// The authenticated tenant. A route can act for no other.
pub(super) struct Caller(pub(super) String);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, Problem> {
        let settings = api.engine.settings();
        let required = scopes::required(parts)?;
        if settings.tenants.is_empty() && required != Scope::Admin {
            return Ok(Self(DEFAULT_TENANT.to_owned()));
        }
        let (tenant, _) = admit(api, &settings, parts, required)?;
        if settings.tenants.len() > 1
            && let Some(activity) = parts.extensions.get::<Activity>()
        {
            activity.count_towards(tenant)?;
        }
        Ok(Self(tenant.to_owned()))
    }
}

/// The token that is presented and its tenant, if it is for this. A refusal goes into the audit log.
pub(super) fn admit<'a>(
    api: &Shared,
    settings: &'a Settings,
    parts: &Parts,
    required: Scope,
) -> Result<(&'a str, &'a TenantToken), Problem> {
    let presented = presented(settings, &parts.extensions, &parts.headers);
    let presented =
        presented.and_then(|found| scopes::check(found.1.scopes, required).map(|()| found));
    presented.inspect_err(|refusal| refused(api, parts, refusal))
}

/// The token that a client has shown to a dialect, by its hash. Only a dialect puts this into the
/// extensions of a request; `None` stands for one that was shown while there were no tenants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown(pub(super) Option<TokenHash>);

/// The token that is presented, or stood for, and its tenant.
pub(super) fn presented<'a>(
    settings: &'a Settings,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<(&'a str, &'a TenantToken), Problem> {
    match extensions.get::<Shown>() {
        Some(Shown(hash)) => of_hash(settings, hash.as_ref()),
        None => authenticate(settings, headers),
    }
}

/// Has the audit log say that somebody was not let in.
pub(super) fn refused(api: &Shared, parts: &Parts, refusal: &Problem) {
    let has_token = parts.headers.contains_key(header::AUTHORIZATION);
    let reason = match refusal.code {
        "token_expired" => "expired token",
        "scope_required" => "token of another scope",
        _ if has_token => "unknown token",
        _ => "no token",
    };
    let peer = || match parts.extensions.get::<Peer>() {
        Some(Peer::Address(address)) => address.to_string(),
        Some(Peer::User(Some(user))) => format!("uid:{user}"),
        Some(Peer::User(None)) | None => "unknown".to_owned(),
    };
    api.engine.audit().auth_failed(peer, reason);
}

/// The token that is presented, and its tenant.
///
/// # Errors
/// 401, with the challenge of RFC 6750, 3.
pub(super) fn authenticate<'a>(
    settings: &'a Settings,
    headers: &HeaderMap,
) -> Result<(&'a str, &'a TenantToken), Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        let detail = "this needs the token of a tenant: Authorization: Bearer TOKEN \
                      (VIVARIUM_TOKEN for the command line)";
        return Err(refuse(Challenge::NoToken, detail));
    };
    let token = value.to_str().ok().and_then(bearer).filter(|_| values.next().is_none());
    of_hash(settings, token.map(TokenHash::of).as_ref())
}

fn of_hash<'a>(
    settings: &'a Settings,
    hash: Option<&TokenHash>,
) -> Result<(&'a str, &'a TenantToken), Problem> {
    let Some((tenant, token)) = hash.and_then(|hash| settings.token(hash)) else {
        let detail = "this is the token of no tenant: it may be mistyped, or no longer be valid";
        return Err(refuse(Challenge::InvalidToken, detail));
    };
    // Only who has the token learns that it was one.
    if token.has_expired(Timestamp::now()) {
        let detail = "this token has expired: ask for a new one";
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "token_expired", detail);
        return Err(problem.challenge(Challenge::InvalidToken));
    }
    Ok((tenant, token))
}

/// The token after the scheme, whose case does not matter (RFC 9110, 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn refuse(challenge: Challenge, detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail).challenge(challenge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_engine::testing::{settings, tenant};

    fn tenant_of(values: &[&str]) -> Result<String, String> {
        let mut settings = settings();
        settings.tenants.insert("a".to_owned(), tenant("secret"));
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        let tenant = authenticate(&settings, &headers).map(|(tenant, _)| tenant.to_owned());
        tenant.map_err(|problem| problem.detail.into())
    }

    #[test]
    fn bearer_token_names_the_tenant() {
        for value in ["Bearer secret", "bearer secret", "BEARER   secret "] {
            assert_eq!(tenant_of(&[value]).as_deref(), Ok("a"), "{value}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_not_repeated() {
        assert!(tenant_of(&[]).unwrap_err().contains("needs the token"));
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "secret",
            "Bearersecret",
            "Basic secret",
            "Bearer Secret",
            "Bearer secretx",
            "Bearer secret, Bearer secret",
            "Bearer a secret",
        ] {
            let detail = tenant_of(&[bad]).unwrap_err();
            assert!(
                detail.contains("the token of no tenant") && !detail.contains("ecret"),
                "{bad}"
            );
        }
        assert!(tenant_of(&["Bearer secret", "Bearer secret"]).is_err());
    }
}
