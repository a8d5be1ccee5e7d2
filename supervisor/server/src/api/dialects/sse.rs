//! The older transport of MCP on the daemon's listeners.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts as _, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use super::super::auth::Caller;
use super::super::extract;
use super::super::query::Params;
use super::super::run_body;
use super::super::serve::Stopping;
use super::super::{Problem, Shared};
use super::InProcess;
use crate::dialects::mcp::sse::{Connections, connect, take};
use crate::dialects::native::Native;

type All = Connections<<InProcess as Native>::Room>;

pub(super) fn added(routes: Router<Shared>, inner: &Router, api: &Shared) -> Router<Shared> {
    let all = All::default();
    let (inner, opened, of) = (inner.clone(), all.clone(), Arc::clone(api));
    let open = move |request| open(Arc::clone(&of), inner.clone(), opened.clone(), request);
    let of = Arc::clone(api);
    let send = move |request| async move {
        send(of, &all, request).await.unwrap_or_else(IntoResponse::into_response)
    };
    routes.route("/sse", get(open)).route("/messages", post(send))
}

async fn open(api: Shared, inner: Router, all: All, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let native = match InProcess::for_client(&api, inner, &mut parts).await {
        Ok(native) => native,
        Err(problem) => return problem.into_response(),
    };
    run_body::end_with_client(&parts.extensions);
    let stopping = parts.extensions.remove::<Stopping>();
    let ended = async {
        match stopping {
            Some(stopping) => stopping.begun().await,
            None => std::future::pending().await,
        }
    };
    let tenant = native.tenant.clone();
    connect(native, &tenant, &all, ended)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct To {
    session_id: String,
}

async fn send(api: Shared, all: &All, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let Caller(tenant) = Caller::from_request_parts(&mut parts, &api).await?;
    let Params(To { session_id }) = Params::from_request_parts(&mut parts, &api).await?;
    let (body, room) = extract::read_json(&mut parts, body, &api).await?;
    Ok(take(all, &tenant, &session_id, body, room).await)
}
