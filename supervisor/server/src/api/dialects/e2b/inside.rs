//! Requests for a port of a sandbox: its files and processes, its interpreter, and servers of its own.

use std::io::Read as _;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use vivarium_client::path;
use vivarium_engine::budget::Reservation;

use super::super::super::{Problem, extract, run_body};
use super::super::InProcess;
use super::{Of, identity, refused};
use crate::dialects::e2b::envd::files::{self, Asked};
use crate::dialects::e2b::sandboxes::Opened;
use crate::dialects::e2b::{Client, ENVD_PORT, INTERPRETER_PORT, envd, errors, interpreter};
use crate::dialects::form::{self, Part};
use crate::dialects::held;
use crate::dialects::native;

/// How much of a compressed body is taken at a time, in bytes.
const PIECE: usize = 256 << 10;

/// Files of one upload.
const MAX_PARTS: usize = 1000;

pub(super) async fn serve(
    of: Of,
    opened: Opened,
    port: u16,
    mut parts: Parts,
    body: Body,
) -> Response {
    let native = match InProcess::for_client(&of.api, of.inner.clone(), &mut parts).await {
        Ok(native) => native,
        Err(problem) => return refused(problem).await,
    };
    let background = native.detached();
    let client = Client { native, background, sandbox: opened.sandbox };
    match port {
        ENVD_PORT if parts.uri.path() == "/files" => file(&of, client, parts, body).await,
        ENVD_PORT if envd::is_client_stream(parts.uri.path()) => {
            run_body::end_with_client(&parts.extensions);
            envd::stream_input(client, &parts.headers, body).await
        }
        ENVD_PORT | INTERPRETER_PORT => match extract::read(&mut parts, body, &of.api).await {
            Ok((body, reservation)) => {
                let body = held::bytes(body, reservation);
                let Parts { method, uri, headers, .. } = &parts;
                if port == ENVD_PORT {
                    envd::respond(client, method, uri.path(), headers, &body).await
                } else {
                    interpreter::respond(client, method, uri.path(), &body).await
                }
            }
            Err(problem) => refused(problem).await,
        },
        port => pass(&client, port, parts, body).await,
    }
}

/// Passes a request on to a server of the sandbox's own.
async fn pass(client: &Client<InProcess>, port: u16, mut parts: Parts, body: Body) -> Response {
    let base = format!("{}/ports/{port}", path::session(&client.sandbox.id));
    let target = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let Ok(uri) = format!("{base}{target}").parse::<Uri>() else {
        return errors::answer(StatusCode::BAD_REQUEST, "this path cannot be passed on");
    };
    parts.uri = uri;
    for name in identity::OWN {
        parts.headers.remove(name);
    }
    parts.headers.remove(header::AUTHORIZATION);
    let mut response = client.native.pass(Request::from_parts(parts, body)).await;
    // What a server has answered is sent with a policy, also where it is a problem of the same type.
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_own = !response.headers().contains_key(header::CONTENT_SECURITY_POLICY);
    if is_own && kind.is_some_and(|kind| kind == "application/problem+json") {
        let refusal = native::refusal(response).await;
        return match refusal.code.as_str() {
            "port_closed" | "no_ports" => errors::port_closed(&client.sandbox.id, port),
            _ => errors::inside(&refusal, &client.sandbox.id),
        };
    }
    // The way to the port is a host here, not a path.
    let headers = response.headers_mut();
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let own = location.and_then(|location| location.strip_prefix(&base)).map(str::to_owned);
    if let Some(own) = own.and_then(|own| HeaderValue::try_from(own).ok()) {
        headers.insert(header::LOCATION, own);
    }
    response
}

async fn file(of: &Of, client: Client<InProcess>, mut parts: Parts, body: Body) -> Response {
    let asked = match Asked::read(parts.uri.query().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(refusal) => return errors::control(&refusal),
    };
    if let Some(refused) = asked.refused(&parts.headers) {
        return refused;
    }
    match parts.method {
        Method::GET | Method::HEAD => files::download(&client, asked.path.as_deref()).await,
        Method::POST if is_multipart(&parts.headers) => {
            let read = async {
                let (body, read) = extract::read(&mut parts, body, &of.api).await?;
                // For the copies that reading the form and writing a file make of it.
                let room = of.api.engine.reserve(&client.sandbox.tenant, body.len() * 2)?;
                Ok::<_, Problem>((parts_of(&parts.headers, body).await?, [read, room]))
            };
            match read.await {
                Ok((parts, _reservations)) => {
                    files::upload(&client, asked.path.as_deref(), parts).await
                }
                Err(problem) => refused(problem).await,
            }
        }
        Method::POST if parts.headers.contains_key(header::CONTENT_ENCODING) => {
            match unzipped(of, &client, &mut parts, body).await {
                Ok((bytes, _reservations)) => {
                    let part = Part { name: String::new(), bytes: bytes.into() };
                    files::upload(&client, asked.path.as_deref(), vec![part]).await
                }
                Err(problem) => refused(problem).await,
            }
        }
        Method::POST => write(&client, asked.path.as_deref(), parts, body).await,
        _ => errors::answer(StatusCode::METHOD_NOT_ALLOWED, "files are read and written"),
    }
}

/// Writes a file of any size, as it comes.
async fn write(
    client: &Client<InProcess>,
    path: Option<&str>,
    mut parts: Parts,
    body: Body,
) -> Response {
    let Some(path) = path else {
        return errors::answer(StatusCode::BAD_REQUEST, "path is missing");
    };
    let Ok(uri) = files::target(&client.sandbox.id, path).parse::<Uri>() else {
        return errors::answer(StatusCode::BAD_REQUEST, "this is no path");
    };
    (parts.method, parts.uri) = (Method::PUT, uri);
    parts.headers.remove(header::AUTHORIZATION);
    let response = client.native.pass(Request::from_parts(parts, body)).await;
    if !response.status().is_success() {
        return files::refused(response, &client.sandbox.id).await;
    }
    axum::Json([files::told(path)]).into_response()
}

/// A body that came compressed. Neither form of it is larger than a body may be, and both are accounted for.
async fn unzipped(
    of: &Of,
    client: &Client<InProcess>,
    parts: &mut Parts,
    body: Body,
) -> Result<(Vec<u8>, [Reservation; 2]), Problem> {
    let coding = parts.headers.get(header::CONTENT_ENCODING);
    if coding.is_none_or(|coding| coding != "gzip") {
        let detail = "the body may be compressed with gzip, and not otherwise";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "unsupported_media_type", detail));
    }
    let (body, zipped) = extract::read(parts, body, &of.api).await?;
    let max = of.api.max_body_bytes;
    let mut room = of.api.engine.reserve(&client.sandbox.tenant, 0)?;
    let (mut reader, mut bytes) = (GzDecoder::new(body.as_ref()), Vec::new());
    loop {
        let before = bytes.len();
        if room.grow(PIECE).is_err() {
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Problem::new(status, "no_room", "there is no room for this body"));
        }
        let read = reader.by_ref().take(PIECE as u64).read_to_end(&mut bytes);
        read.map_err(|error| {
            Problem::new(StatusCode::BAD_REQUEST, "invalid_field", format!("gzip: {error}"))
        })?;
        if bytes.len() == before {
            return Ok((bytes, [zipped, room]));
        }
        if bytes.len() > max {
            return Err(extract::too_large(max));
        }
        tokio::task::yield_now().await;
    }
}

fn is_multipart(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("multipart/form-data"))
}

/// The files of a form. The whole body is bounded and accounted for already.
async fn parts_of(headers: &HeaderMap, body: Bytes) -> Result<Vec<Part>, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let read = form::files(kind.unwrap_or_default(), body, MAX_PARTS).await;
    read.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "invalid_field", error.to_string()))
}
