//! Holds the rate of bytes that a tenant's requests and responses may have (`transfer_rate`).
//!
//! No byte passes without a token. A request that would move content is refused while there is none;
//! what is under way is slowed down. Requests of tenants without such a rate pass as they are.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use vivarium_engine::quotas::Wait;

use super::body::{PAUSE_FOR_TOKENS, Pieces, Shaped, content_length};
use super::{Problem, Shared, auth};

/// A larger body of a request is content. The others are few bytes, and may end what runs.
const SMALL_BYTES: u64 = 64 << 10;

pub(super) async fn shape(State(api): State<Shared>, mut request: Request, next: Next) -> Response {
    let settings = api.engine.settings();
    let mut tenants = settings.tenants.values();
    if !tenants.any(|tenant| tenant.quotas.transfer_rate.is_some()) {
        return next.run(request).await;
    }
    let Ok((tenant, _)) = auth::presented(&settings, request.extensions(), request.headers())
    else {
        return next.run(request).await;
    };
    let of_tenant = settings.tenants.get(tenant);
    if of_tenant.is_none_or(|tenant| tenant.quotas.transfer_rate.is_none()) {
        return next.run(request).await;
    }
    let quotas = api.engine.quotas(tenant);
    if moves_content(&request)
        && let Err(exceeded) = quotas.may_transfer(content_length(request.headers()).unwrap_or(1))
    {
        let problem = Problem::from(api.engine.over_quota(tenant, exceeded));
        let asks_first = request.headers().contains_key(header::EXPECT);
        if !asks_first {
            Pieces::new(request.into_body()).drain().await;
        }
        return problem.into_response();
    }
    let shaped = Shaped::new(quotas);
    request.extensions_mut().insert(shaped.clone());
    next.run(request).await.map(|body| Body::new(ShapedBody::new(body, shaped)))
}

fn moves_content(request: &Request) -> bool {
    if *request.method() == Method::GET {
        return request.uri().path().contains("/files/");
    }
    match content_length(request.headers()) {
        Some(bytes) => bytes > SMALL_BYTES,
        None => !request.body().is_end_stream(),
    }
}

/// A body whose bytes wait for their tokens.
struct ShapedBody {
    inner: Body,
    shaped: Shaped,
    /// What waits, and the tokens that it lacks.
    held: Option<Bytes>,
    missing: u64,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ShapedBody {
    const fn new(inner: Body, shaped: Shaped) -> Self {
        Self { inner, shaped, held: None, missing: 0, pause: None }
    }

    fn poll_tokens(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.missing > 0 {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match self.shaped.take(self.missing) {
                Ok(taken) => self.missing -= taken,
                Err(Wait(time)) => self.pause = Some(Box::pin(sleep(time.max(PAUSE_FOR_TOKENS)))),
            }
        }
        Poll::Ready(())
    }
}

impl hyper::body::Body for ShapedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.held.is_none() {
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.missing = data.len() as u64;
                        self.held = Some(data);
                    }
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        ready!(self.poll_tokens(context));
        Poll::Ready(self.held.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, Bytes::len) as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests;
