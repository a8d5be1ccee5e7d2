//! Servers in sessions, for browsers: each port of each session has an origin of its own.
//!
//! A preview's host is named after the session and port by a keyed hash, so that no two share one, also
//! not sessions that have the same id one after the other. What opens it is a signed token, first in the URL and then in a
//! cookie. Nothing of the API can be reached by such a host, and the API's requests never come here.

use axum::extract::Request;
use axum::http::uri::{Authority, PathAndQuery};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use vivarium_engine::settings::{Preview, PreviewUrl};

use super::connections::Activity;
use super::ports::{Front, forward};
use super::{Problem, Shared};

mod token;

use token::{Key, Token};

/// The parameter of a URL that has the token.
const PARAMETER: &str = "vivarium-preview";

/// The cookie that has it afterwards. By its prefix it is of one host and HTTPS only (RFC 6265bis,
/// 4.1.3.2), so that no other preview can set or see it.
pub(super) const COOKIE: &str = "__Host-vivarium-preview";

/// Where previews are, if anywhere, and what signs their tokens. A new one with each daemon: no session
/// outlives it.
#[derive(Debug, Clone)]
pub(super) struct Previews {
    settings: Preview,
    key: Key,
}

/// The URL of a preview.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) url: String,
    pub(super) expires_at: Timestamp,
}

impl Previews {
    pub(super) fn new(settings: &Preview) -> Self {
        Self { settings: settings.clone(), key: Key::new() }
    }

    /// Whether a request is for a preview, or is made to look so.
    pub(super) fn is_for(&self, request: &Request) -> bool {
        let Some(url) = &self.settings.url else { return false };
        hosts(request).any(|host| host.is_some_and(|host| label(&host, url).is_some()))
    }

    /// The URL that opens a preview.
    ///
    /// # Errors
    /// 409 without `preview.url`.
    pub(super) async fn sign(
        &self,
        api: &Shared,
        tenant: &str,
        session: &str,
        port: u16,
    ) -> Result<Signed, Problem> {
        // First, so that a stranger learns nothing from the rest.
        let made_at = api.engine.session_made_at(tenant, session, port).await?;
        let Some(url) = &self.settings.url else {
            let detail = "this daemon shows no previews";
            let mut problem = Problem::new(StatusCode::CONFLICT, "no_previews", detail);
            problem.fix = Some("configure preview.url".into());
            return Err(problem);
        };
        let expires_at =
            Timestamp::now().saturating_add(self.settings.lifetime).unwrap_or(Timestamp::MAX);
        let token = Token {
            tenant: tenant.to_owned(),
            session: session.to_owned(),
            made_at,
            port,
            expires_at,
        };
        let origin = origin(url, &self.key.label(&token));
        Ok(Signed { url: format!("{origin}/?{PARAMETER}={}", self.key.sign(&token)), expires_at })
    }
}

fn origin(url: &PreviewUrl, label: &str) -> String {
    let PreviewUrl { scheme, host, port } = url;
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{label}.{host}{port}")
}

/// Every host that a request names, in lower case and without a port; `None` for what is no host.
fn hosts(request: &Request) -> impl Iterator<Item = Option<String>> {
    let of_authority = |authority: &Authority| {
        let host = authority.host().to_ascii_lowercase();
        host.strip_suffix('.').map_or(host.clone(), str::to_owned)
    };
    let target = request.uri().authority().map(|authority| Some(of_authority(authority)));
    let named = request.headers().get_all(header::HOST).iter();
    let named = named.map(move |value| {
        let authority = value.to_str().ok()?.parse::<Authority>().ok()?;
        Some(of_authority(&authority))
    });
    target.into_iter().chain(named)
}

/// What a host is called below the host of previews; empty for that host itself.
fn label<'a>(host: &'a str, url: &PreviewUrl) -> Option<&'a str> {
    let rest = host.strip_suffix(url.host.as_str())?;
    if rest.is_empty() { Some(rest) } else { rest.strip_suffix('.') }
}

/// Answers a request for a preview.
pub(super) async fn serve(api: &Shared, request: Request) -> Response {
    answer(api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(api: &Shared, mut request: Request) -> Result<Response, Problem> {
    let Some(url) = &api.preview.settings.url else {
        return Err(no_preview());
    };
    let mut hosts = hosts(&request).collect::<Vec<_>>();
    hosts.dedup();
    let [Some(host)] = hosts.as_slice() else {
        let detail = "the request names several hosts, or none";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_host", detail));
    };
    let label = label(host, url).filter(|label| !label.is_empty()).ok_or_else(no_preview)?;
    let origin = origin(url, label);
    let key = &api.preview.key;
    let tenants = &api.engine.settings().tenants;
    // Only what is for this very host opens it, and as long as its tenant may ask for more.
    let opens = |text: &str| {
        let token = key.verify(text)?;
        let is_open = token.expires_at > Timestamp::now()
            && (tenants.is_empty() || tenants.contains_key(&token.tenant));
        (is_open && key.label(&token) == label).then_some(token)
    };
    let (given, rest) = take_parameter(request.uri().query().unwrap_or_default());
    if let Some(given) = given {
        let token = opens(given).ok_or_else(not_open)?;
        return open(&request, &origin, given, &rest, &token);
    }
    let token = cookies(request.headers())
        .find_map(|(name, value)| if name == COOKIE { opens(value) } else { None });
    let token = token.ok_or_else(not_open)?;
    refuse_other_origins(&request, &origin)?;
    if matches!(*request.method(), Method::TRACE | Method::CONNECT) {
        return Err(
            super::problem::no_method(request.method().clone(), request.uri().clone()).await
        );
    }
    if api.engine.settings().tenants.len() > 1
        && let Some(activity) = request.extensions().get::<Activity>()
    {
        activity.count_towards(&token.tenant)?;
    }
    let made_at = api.engine.session_made_at(&token.tenant, &token.session, token.port).await?;
    if made_at != token.made_at {
        return Err(not_open());
    }
    let all = request.uri().path_and_query().cloned();
    let target = all.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let front = Front::of_its_own(token.port, target, url.scheme.clone());
    keep_own_cookies(request.headers_mut());
    let stream = api.engine.connect_port(&token.tenant, &token.session, token.port).await?;
    forward(stream, request, &front, &token.tenant).await
}

/// Keeps the token in a cookie, and has the browser ask again without it in the URL.
fn open(
    request: &Request,
    origin: &str,
    given: &str,
    rest: &str,
    token: &Token,
) -> Result<Response, Problem> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(not_open());
    }
    let seconds = (token.expires_at.as_second() - Timestamp::now().as_second()).max(1);
    let cookie =
        format!("{COOKIE}={given}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    // Absolute, as a path may look like another host.
    let there = format!("{origin}{}{rest}", request.uri().path());
    let headers = [
        (header::SET_COOKIE, cookie.as_str()),
        (header::LOCATION, there.as_str()),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// The token of a query, and the query without it, with its question mark.
fn take_parameter(query: &str) -> (Option<&str>, String) {
    let value = |pair: &'_ str| pair.split_once('=').is_some_and(|(name, _)| name == PARAMETER);
    let given = query.split('&').find(|pair| value(pair)).and_then(|pair| pair.split_once('='));
    let rest: Vec<_> = query.split('&').filter(|pair| !pair.is_empty() && !value(pair)).collect();
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    (given.map(|(_, value)| value), rest)
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

/// Leaves the cookies that the server in the session has set itself.
fn keep_own_cookies(headers: &mut HeaderMap) {
    let own = cookies(headers).filter(|(name, _)| !name.eq_ignore_ascii_case(COOKIE));
    let own: Vec<_> = own.map(|(name, value)| format!("{name}={value}")).collect();
    headers.remove(header::COOKIE);
    if let Ok(own) = HeaderValue::from_str(&own.join("; "))
        && !own.is_empty()
    {
        headers.insert(header::COOKIE, own);
    }
}

/// Previews are of one site, so that a browser sends each its cookie whichever of them asks. A page of
/// another origin may have a browser go to a preview, and no more (RFC 6454, Fetch Metadata).
fn refuse_other_origins(request: &Request, own: &str) -> Result<(), Problem> {
    let all = |name: &'static str, test: &dyn Fn(&str) -> bool| {
        let mut values = request.headers().get_all(name).iter();
        values.all(|value| value.to_str().is_ok_and(test))
    };
    let is_own = all("origin", &|origin| origin.eq_ignore_ascii_case(own))
        && all("sec-fetch-site", &|site| matches!(site, "none" | "same-origin"));
    let has = |name: &str| request.headers().contains_key(name);
    let goes_there = *request.method() == Method::GET
        && ["sec-fetch-mode", "sec-fetch-dest"].into_iter().all(has)
        && !["origin", "upgrade"].into_iter().any(has)
        && all("sec-fetch-mode", &|mode| mode == "navigate")
        && all("sec-fetch-dest", &|dest| dest == "document");
    if is_own || goes_there {
        return Ok(());
    }
    let detail = "requests from web pages of another origin are refused";
    Err(Problem::new(StatusCode::FORBIDDEN, "cross_origin", detail))
}

fn no_preview() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "unknown_preview", "there is no such preview")
}

fn not_open() -> Problem {
    let detail = "this preview is not open to you, or not any more: ask for a new URL \
                  (POST /v1/sessions/{id}/previews)";
    Problem::new(StatusCode::FORBIDDEN, "preview_closed", detail)
}

#[cfg(test)]
mod tests;
