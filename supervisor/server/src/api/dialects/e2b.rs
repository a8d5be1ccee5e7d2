//! E2B's listeners: whom a request is for, who sends it, and its way to the dialect.

mod identity;
mod inside;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::StatusCode;
use tower_http::catch_panic::CatchPanicLayer;

use super::super::{Problem, Shared, extract, metrics, problem, routes, shaping};
use super::InProcess;
use crate::dialects::e2b::control::{self, Asked, Caller};
use crate::dialects::e2b::errors;
use crate::dialects::e2b::sandboxes::Sandboxes;
use crate::dialects::held;
use crate::dialects::native;
use identity::Who;

/// Every path but `/`. The dialect says which there are.
const ROUTE: &str = "/{*e2b}";

/// What the routes have.
#[derive(Clone)]
struct Of {
    api: Shared,
    inner: Router,
    sandboxes: Sandboxes,
}

/// The routes of E2B's listeners.
pub(in super::super) fn router(api: &Shared) -> Router {
    let inner = Router::from(routes::routes()).with_state(Arc::clone(api));
    let of = Of { api: Arc::clone(api), inner, sandboxes: Sandboxes::default() };
    let metrics = api.engine.metrics();
    Router::new()
        .route("/", any(serve))
        .route(ROUTE, any(serve))
        .layer(from_fn_with_state(Arc::clone(api), shaping::shape))
        .layer(from_fn_with_state(of.clone(), identity::identify))
        .layer(CatchPanicLayer::custom(problem::panicked))
        // `extract` has its own limit.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(metrics, metrics::count))
        .with_state(of)
}

async fn serve(State(of): State<Of>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    match parts.extensions.remove::<Who>() {
        Some(Who::Control { key }) => match read(&of, &mut parts, body).await {
            Ok((native, body)) => {
                let tenant = native.tenant.clone();
                let caller =
                    Caller { native: &native, sandboxes: &of.sandboxes, tenant: &tenant, key };
                let idempotency_key = parts.headers.get("idempotency-key");
                let asked = Asked {
                    method: &parts.method,
                    path: parts.uri.path(),
                    query: parts.uri.query().unwrap_or_default(),
                    body: &body,
                    idempotency_key: idempotency_key.and_then(|key| key.to_str().ok()),
                };
                control::respond(&caller, asked).await
            }
            Err(problem) => refused(problem).await,
        },
        Some(Who::Inside { opened, port }) => inside::serve(of, opened, port, parts, body).await,
        None => errors::answer(StatusCode::INTERNAL_SERVER_ERROR, "a defect of the server"),
    }
}

async fn read(
    of: &Of,
    parts: &mut Parts,
    body: axum::body::Body,
) -> Result<(InProcess, axum::body::Bytes), Problem> {
    let native = InProcess::for_client(&of.api, of.inner.clone(), parts).await?;
    let (body, reservation) = extract::read(parts, body, &of.api).await?;
    Ok((native, held::bytes(body, reservation)))
}

/// A problem in the form of E2B.
async fn refused(problem: Problem) -> Response {
    errors::control(&native::refusal(problem.into_response()).await)
}
