//! Who may administer, and the one place through which every act of theirs goes.
//!
//! An administrator presents a token of scope `admin`, or, without any token, connects to the Unix
//! socket as root or as the daemon's own user, both of whom could replace the daemon anyway
//! (`SO_PEERCRED`, `unix(7)`). A request that a proxy passes on is the proxy's only by its connection:
//! it always takes a token.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use nix::unistd::Uid;
use vivarium_api_types::Scope;
use vivarium_audit::{AdminAct, Event};
use vivarium_engine::EngineError;
use vivarium_metrics::families::administration::Act;

use super::connections::Peer;
use super::guard::Local;
use super::problem::Challenge;
use super::{Problem, Shared, auth};

/// What proxies add to requests of others.
const FORWARDED: [HeaderName; 5] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];

/// The authenticated administrator.
pub(super) struct Administrator {
    /// For the log: `uid 0`, or the tenant of the token and its name.
    pub(super) actor: String,
}

impl FromRequestParts<Shared> for Administrator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, Problem> {
        let headers = &parts.headers;
        if headers.contains_key(header::AUTHORIZATION) {
            let settings = api.engine.settings();
            let (tenant, token) = auth::admit(api, &settings, parts, Scope::Admin)?;
            let name = token.name.as_deref().unwrap_or("unnamed");
            return Ok(Self { actor: format!("token {name} of {tenant}") });
        }
        let local = parts.extensions.get::<Local>().copied();
        let peer = parts.extensions.get::<Peer>().copied();
        match trusted_peer(local, peer, Uid::effective(), headers) {
            Some(uid) => Ok(Self { actor: format!("uid {uid}") }),
            None => {
                let detail = "this takes a token of scope \"admin\", or root or the daemon's own \
                              user on its Unix socket, without a proxy";
                let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
                let problem = problem.challenge(Challenge::NoToken);
                auth::refused(api, parts, &problem);
                Err(problem)
            }
        }
    }
}

/// The user at the other end of a Unix socket, if that is an administrator.
fn trusted_peer(
    local: Option<Local>,
    peer: Option<Peer>,
    own: Uid,
    headers: &HeaderMap,
) -> Option<u32> {
    let (Some(Local::Unix), Some(Peer::User(Some(uid)))) = (local, peer) else { return None };
    let is_direct = FORWARDED.iter().all(|name| !headers.contains_key(name));
    (is_direct && (uid == 0 || uid == own.as_raw())).then_some(uid)
}

/// What an administrator did or tried to, and to whom.
pub(super) struct Deed<'a> {
    pub(super) act: Act,
    pub(super) target: &'a str,
    pub(super) detail: &'a str,
}

/// Records what an administrator did, or was refused. Every route that changes something comes through
/// here once it has.
pub(super) fn record<T>(
    api: &Shared,
    by: &Administrator,
    Deed { act, target, detail }: Deed<'_>,
    result: &Result<T, EngineError>,
) {
    let refused = result.as_ref().err();
    let result = refused.map_or("ok", EngineError::code);
    tracing::info!(actor = by.actor, act = act.name(), target, detail, result, "administration");
    if refused.is_none() {
        api.engine.metrics().administration.acted(act);
    }
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    api.engine.audit().record(|| {
        Event::Admin(Box::new(AdminAct {
            actor: by.actor.clone(),
            action: act.name().into(),
            target: given(target),
            result: result.into(),
            detail: given(detail),
        }))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_daemons_user_administer_without_a_token_and_only_directly() {
        let own = Uid::from_raw(1000);
        let tcp = Local::Tcp(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
        let of = |local, peer, headers: &HeaderMap| trusted_peer(local, peer, own, headers);
        let (none, unix) = (HeaderMap::new(), Some(Local::Unix));
        assert_eq!(of(unix, Some(Peer::User(Some(0))), &none), Some(0));
        assert_eq!(of(unix, Some(Peer::User(Some(1000))), &none), Some(1000));
        for (local, peer) in [
            (unix, Some(Peer::User(Some(1001)))),
            (unix, Some(Peer::User(Some(65534)))),
            (unix, Some(Peer::User(None))),
            (unix, None),
            (None, Some(Peer::User(Some(0)))),
            (Some(tcp), Some(Peer::User(Some(0)))),
            (Some(tcp), Some(Peer::Address([127, 0, 0, 1].into()))),
        ] {
            assert_eq!(of(local, peer, &none), None, "{local:?} {peer:?}");
        }
        for name in FORWARDED {
            let mut headers = HeaderMap::new();
            headers.insert(&name, "x".parse().unwrap());
            assert_eq!(of(unix, Some(Peer::User(Some(0))), &headers), None, "{name}");
        }
    }
}
