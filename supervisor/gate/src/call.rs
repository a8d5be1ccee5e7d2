//! Requests for the daemon itself, such as webhooks: any host, with the checks of addresses that
//! sessions have, one answer of bounded length, no redirects.

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use vivarium_egress::message::{Call, CallError, CallResponse, MAX_CALL_BODY_BYTES};
use vivarium_egress::{Host, Reason};
use vivarium_protocol::discard;

use crate::dial;
use crate::shared::Shared;

/// Headers that are the gate's.
const OWN_HEADERS: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

/// Makes a call.
pub(crate) async fn make(shared: &Shared, call: Call) -> Result<CallResponse, CallError> {
    let within = call.timeout;
    timeout(within, send(shared, call)).await.unwrap_or(Err(CallError::Timeout))
}

fn not_made(why: &str) -> CallError {
    CallError::Request(why.to_owned())
}

async fn send(shared: &Shared, call: Call) -> Result<CallResponse, CallError> {
    if call.body.len() > MAX_CALL_BODY_BYTES {
        return Err(not_made("its body is too long"));
    }
    let uri: http::Uri = call.url.parse().map_err(|_| not_made("its URL"))?;
    let is_https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(not_made("its URL is not http or https")),
    };
    let authority = uri.authority().ok_or_else(|| not_made("its URL has no host"))?;
    if authority.as_str().contains('@') {
        return Err(not_made("its URL names a user"));
    }
    let host: Host = authority.host().parse().map_err(|_| not_made("its URL has no host"))?;
    let default = if is_https { 443 } else { 80 };
    let port = authority.port_u16().unwrap_or(default);
    let refused = |reason| CallError::Refused(reason);
    let allowed = &call.allow_addresses;
    let (stream, _) = dial::connect(shared, allowed, &host, port, call.timeout)
        .await
        .map_err(|refusal| refused(refusal.reason))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let said = if port == default { host.to_string() } else { format!("{host}:{port}") };
    let mut request = hyper::Request::builder().method(call.method.as_str()).uri(path);
    request = request.header("host", said).header("connection", "close");
    for (name, value) in &call.headers {
        if !OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Full::new(Bytes::from(call.body)));
    let request = request.map_err(|_| not_made("its method or a header"))?;
    let max = call.max_response_bytes.min(MAX_CALL_BODY_BYTES);
    if !is_https {
        return exchange(stream, request, max).await;
    }
    let name = match &host {
        Host::Name(name) => name.to_string(),
        Host::Address(address) => address.to_string(),
    };
    let stream = shared.tls.connect(&name, stream).await;
    exchange(stream.map_err(|_| refused(Reason::Certificate))?, request, max).await
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: hyper::Request<Full<Bytes>>,
    max: usize,
) -> Result<CallResponse, CallError> {
    let broken = |error: hyper::Error| CallError::Broken(error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let (parts, body) = response.into_parts();
    let collected = Limited::new(body, max).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            CallError::TooLarge(max)
        } else {
            CallError::Broken("its body ended early".to_owned())
        }
    });
    connection.abort();
    discard(connection.await, "it was ended");
    let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).ok();
    let headers = parts.headers.iter();
    let headers = headers.filter_map(|(name, value)| Some((name.to_string(), text(value)?)));
    Ok(CallResponse {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: collected?.to_bytes().to_vec(),
    })
}
