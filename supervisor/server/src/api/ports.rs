//! Passes requests on to servers that tenant code runs, and their answers back.
//!
//! Each request has a connection of its own, so that nothing a server sends can count as the answer to
//! another. Client and server are both parsed and written anew by hyper; what either says about the
//! connection, about who the client is, or to a browser about the origin stays here ([`request`],
//! [`response`]). Bodies are passed on as they come and never held as a whole.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, Version, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Problem;
use super::connections::Activity;

mod head_limit;
mod location;
mod request;
mod response;
mod tunnel;

use head_limit::HeadLimit;
pub(super) use request::{Front, wants_websocket};

/// How long a server may take for the head of its answer, the client waiting.
const HEAD_WITHIN: Duration = Duration::from_secs(600);

/// The most header lines of an answer, and the most bytes they may have.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 << 10;

/// How much is read at one time of an answer.
const MAX_READ_BYTES: usize = 256 << 10;

/// Passes a request on over a connection, and the answer back.
///
/// # Errors
/// 502 and 504 if the server does not answer with HTTP, or not in time.
pub(super) async fn forward(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    mut request: Request,
    front: &Front,
    tenant: &str,
) -> Result<Response, Problem> {
    let activity = request.extensions().get::<Activity>().cloned();
    if let Some(activity) = &activity {
        activity.end_with_client();
    }
    let is_head = request.method() == axum::http::Method::HEAD;
    let upgrade = request::wants_websocket(&request).then(|| hyper::upgrade::on(&mut request));
    request::prepare(&mut request, front, upgrade.is_some());
    let (stream, answered) = HeadLimit::new(stream);
    let (mut sender, connection) = http1::Builder::new()
        .title_case_headers(true)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_READ_BYTES)
        .handshake::<_, Body>(TokioIo::new(stream))
        .await
        .map_err(|error| no_answer(front, &error))?;
    let conversing = Conversing(tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to a port");
        }
    }));
    let mut answer = match timeout(HEAD_WITHIN, sender.send_request(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(no_answer(front, &error)),
        Err(_) => {
            let within = HEAD_WITHIN.as_secs();
            let detail = format!("port {} did not answer within {within} s", front.port());
            return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "port_timed_out", detail));
        }
    };
    answered.set();
    // The version is that of a connection (RFC 9110, 6.2): in HTTP/1.0 an answer without a length would
    // end the client's.
    *answer.version_mut() = Version::HTTP_11;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut answer);
        let (Some(ours), Some(activity), true) = (upgrade, activity, is_websocket(&answer)) else {
            let port = front.port();
            let detail = format!("port {port} switched to a protocol that was not asked for");
            return Err(Problem::new(StatusCode::BAD_GATEWAY, "bad_port_answer", detail));
        };
        activity.tunnels(tenant, tunnel(ours, theirs, conversing));
        let (mut head, _) = answer.into_parts();
        response::clean(&mut head.headers, front, response::Length::None);
        request::ask_for_websocket(&mut head.headers);
        return Ok(Response::from_parts(head, Body::empty()));
    }
    let (mut head, body) = answer.into_parts();
    let length = if is_head || head.status == StatusCode::NOT_MODIFIED {
        response::Length::OfAnother
    } else {
        response::Length::None
    };
    response::clean(&mut head.headers, front, length);
    head.extensions.clear();
    Ok(Response::from_parts(head, Body::new(Relayed { body, _conversing: conversing })))
}

fn is_websocket(answer: &Response<Incoming>) -> bool {
    let mut upgrades = answer.headers().get_all(header::UPGRADE).iter();
    let first =
        upgrades.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    first && upgrades.next().is_none()
}

fn no_answer(front: &Front, error: &hyper::Error) -> Problem {
    let chain = vivarium_protocol::error_chain(error);
    let detail = format!("port {} gave no answer in HTTP: {chain}", front.port());
    Problem::new(StatusCode::BAD_GATEWAY, "bad_port_answer", detail)
}

async fn tunnel(ours: OnUpgrade, theirs: OnUpgrade, _conversing: Conversing) {
    match tokio::try_join!(ours, theirs) {
        Ok((client, server)) => {
            let ended = tunnel::relay(TokioIo::new(client), TokioIo::new(server)).await;
            ended.unwrap_or_else(|error| tracing::debug!(%error, "tunnel to a port"));
        }
        Err(error) => tracing::debug!(%error, "upgrade to a port"),
    }
}

/// The task that speaks to the server. Dropping this ends it, and closes the connection.
#[derive(Debug)]
struct Conversing(JoinHandle<()>);

impl Drop for Conversing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A server's body, without trailers.
struct Relayed {
    body: Incoming,
    _conversing: Conversing,
}

impl HttpBody for Relayed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
