//! The routes of dialects, and the native API as they reach it: with the credentials of their own
//! client, and through the same routes.

mod credentials;
mod e2b;
mod jupyter;
mod librechat;
mod sse;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{Extensions, HeaderMap, HeaderValue, header};
use hyper::service::Service;
use hyper::upgrade::OnUpgrade;
use hyper_util::service::TowerToHyperService;
use vivarium_engine::Engine;
use vivarium_engine::budget::Reservation;

use super::auth::{Caller, Shown};
use super::body::Shaped;
use super::connections::{Activity, Peer};
use super::delivery::Delivery;
use super::guard::Local;
use super::{Api, Problem, Shared, extract, reply, routes};
use crate::dialects::dispatch;
use crate::dialects::held;
use crate::dialects::mcp;
use crate::dialects::mcp::in_flight::InFlight;
use crate::dialects::native::{Call, Content, Native, Refusal};

pub(super) use credentials::credentials;
pub(super) use e2b::router as e2b;

/// The routes with those of the dialects that are switched on. None of them is in the OpenAPI document:
/// each has a specification of its own.
pub(super) fn added(native: Router<Shared>, api: &Shared) -> Router<Shared> {
    let on = api.engine.settings().dialects;
    let inner = native.clone().with_state(Arc::clone(api));
    let mut routes = native;
    if on.mcp {
        let (api, inner, in_flight) = (Arc::clone(api), inner.clone(), InFlight::default());
        let serve =
            move |request| serve_mcp(Arc::clone(&api), inner.clone(), in_flight.clone(), request);
        routes = routes.route("/mcp", post(serve));
    }
    if on.mcp_legacy_sse {
        routes = sse::added(routes, &inner, api);
    }
    if on.tools {
        let (api, inner) = (Arc::clone(api), inner.clone());
        let serve = move |request| serve_tools(Arc::clone(&api), inner.clone(), request);
        routes = routes.route("/tools", post(serve));
    }
    if on.librechat {
        routes = librechat::added(routes, api, &inner);
    }
    if on.jupyter {
        routes = jupyter::added(routes, inner, api);
    }
    routes
}

async fn serve_mcp(api: Shared, inner: Router, in_flight: InFlight, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let read = extract::read_json(&mut parts, body, &api).await;
    let body = match read {
        Ok((body, reservation)) => held::bytes(body, reservation),
        Err(problem) => return problem.into_response(),
    };
    let native = match InProcess::for_client(&api, inner, &mut parts).await {
        Ok(native) => native,
        Err(problem) => return problem.into_response(),
    };
    let tenant = native.tenant.clone();
    mcp::http::respond(native, &tenant, &in_flight, &parts.headers, &body).await
}

async fn serve_tools(api: Shared, inner: Router, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let native = match InProcess::for_client(&api, inner, &mut parts).await {
        Ok(native) => native,
        Err(problem) => return problem.into_response(),
    };
    match extract::read_json(&mut parts, body, &api).await {
        Ok((body, reservation)) => dispatch::respond(native, &held::bytes(body, reservation)).await,
        // The caller hands the content of any answer to a model, and drops one that is no success.
        Err(problem) => dispatch::refused(&problem.into()),
    }
}

/// The native API in this process, as one client may use it.
#[derive(Debug, Clone)]
pub struct InProcess {
    inner: Router,
    engine: Engine,
    tenant: String,
    authorization: Option<HeaderValue>,
    /// What is known of the connection.
    extensions: Extensions,
}

impl InProcess {
    /// The API of an embedded engine, which has no tenants.
    #[must_use]
    pub fn embedded(engine: Engine) -> Self {
        let api = Arc::new(Api::new(engine.clone()));
        Self {
            inner: Router::from(routes::routes()).with_state(api),
            engine,
            tenant: vivarium_engine::DEFAULT_TENANT.to_owned(),
            authorization: None,
            extensions: Extensions::new(),
        }
    }

    /// The API as the client of this request may use it.
    async fn for_client(
        api: &Shared,
        inner: Router,
        parts: &mut http::request::Parts,
    ) -> Result<Self, Problem> {
        let Caller(tenant) = Caller::from_request_parts(parts, api).await?;
        let mut extensions = Extensions::new();
        let from = &parts.extensions;
        carry::<Activity>(from, &mut extensions);
        carry::<Peer>(from, &mut extensions);
        carry::<Local>(from, &mut extensions);
        carry::<Shown>(from, &mut extensions);
        let authorization = parts.headers.get(header::AUTHORIZATION).cloned();
        Ok(Self { inner, engine: api.engine.clone(), tenant, authorization, extensions })
    }

    /// The same for what goes on when its client's connection is closed.
    fn detached(&self) -> Self {
        let mut extensions = Extensions::new();
        carry::<Shown>(&self.extensions, &mut extensions);
        Self { extensions, ..self.clone() }
    }

    /// Passes a request on as it is, but for what is known of its connection.
    async fn pass(&self, mut request: Request) -> Response {
        let mut extensions = self.extensions.clone();
        if let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() {
            extensions.insert(upgrade);
        }
        carry::<Shaped>(request.extensions(), &mut extensions);
        carry::<Delivery>(request.extensions(), &mut extensions);
        *request.extensions_mut() = extensions;
        let service = TowerToHyperService::new(self.inner.clone());
        let response: Result<Response, Infallible> = service.call(request).await;
        response.unwrap_or_else(|never| match never {})
    }

    fn request(&self, call: Call) -> Result<Request, http::Error> {
        let range = call.range_header();
        let (kind, body) = match call.content {
            Content::None => (None, Vec::new()),
            Content::Json(body) => (Some("application/json"), body),
            Content::Bytes(body) => (Some("application/octet-stream"), body),
        };
        let mut headers = HeaderMap::new();
        if let Some(kind) = kind {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        if call.is_streamed {
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some(range) = range {
            headers.insert(header::RANGE, HeaderValue::try_from(range)?);
        }
        if let Some(last) = call.last_event_id {
            headers.insert("last-event-id", HeaderValue::from(last));
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let request = Request::builder().method(call.method).uri(call.path);
        let mut request = request.body(Body::from(body))?;
        *request.headers_mut() = headers;
        *request.extensions_mut() = self.extensions.clone();
        Ok(request)
    }
}

fn carry<T: Clone + Send + Sync + 'static>(from: &Extensions, to: &mut Extensions) {
    if let Some(extension) = from.get::<T>() {
        to.insert(extension.clone());
    }
}

impl Native for InProcess {
    type Room = Reservation;

    async fn call(&self, call: Call) -> Result<Response, Refusal> {
        let mut request =
            self.request(call).map_err(|error| Refusal::unreachable(error.to_string()))?;
        let delivery = Delivery::default();
        request.extensions_mut().insert(delivery.clone());
        let service = TowerToHyperService::new(self.inner.clone());
        let response: Result<Response, Infallible> = service.call(request).await;
        // The dialect has the answer, and gives its own sessions an id.
        delivery.written();
        response.map_err(|never| match never {})
    }

    async fn room(&self, bytes: usize) -> Result<Reservation, Refusal> {
        reply::room(&self.engine, &self.tenant, bytes).await.map_err(Refusal::from)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            code: problem.code.to_owned(),
            status: problem.status,
            detail: problem.detail.into(),
            ..Self::default()
        }
    }
}
