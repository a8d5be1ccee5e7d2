//! The input of processes: in single calls, and as a stream of the client's.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use vivarium_client::path;

use super::super::Client;
use super::super::connect::{self, Failure, STREAM_TYPE, envelope};
use super::super::envelope::{Decoder, MAX_MESSAGE_BYTES};
use super::process::{Of, known};
use super::processes::Selector;
use crate::dialects::held;
use crate::dialects::native::{self, Call, Content, Native};

/// A message that is larger counts towards the tenant's memory while it comes, as the largest would.
const LARGE_BYTES: usize = 256 << 10;

/// Padded or not, as JSON of Protocol Buffers may be.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Send {
    process: Selector,
    input: Input,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

/// A message of a stream of input.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Streamed {
    start: Option<Of>,
    data: Option<Data>,
    keepalive: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    input: Input,
}

impl Input {
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let text = self.stdin.as_ref().or(self.pty.as_ref());
        let text = text.ok_or_else(|| Failure::new("invalid_argument", "there is no input"))?;
        BASE64.decode(text).map_err(|error| Failure::invalid(&error))
    }
}

pub(super) async fn send<N: Native>(client: &Client<N>, asked: Send) -> Result<Value, Failure> {
    let pid = known(&client.sandbox, &asked.process)?;
    write(client, pid, asked.input.bytes()?).await?;
    Ok(json!({}))
}

pub(super) async fn close<N: Native>(client: &Client<N>, asked: Of) -> Result<Value, Failure> {
    let pid = known(&client.sandbox, &asked.process)?;
    let mut at = stdin(client, pid);
    path::add(&mut at, "close", true);
    let call = Call::new(Method::POST, at);
    let call = Call { content: Content::Bytes(Vec::new()), ..call };
    native::whole(&client.native, call).await?;
    Ok(json!({}))
}

fn stdin<N: Native>(client: &Client<N>, pid: u32) -> String {
    format!("{}/stdin", path::execution(&client.sandbox.id, &pid.to_string()))
}

async fn write<N: Native>(client: &Client<N>, pid: u32, bytes: Vec<u8>) -> Result<(), Failure> {
    if bytes.is_empty() {
        return Ok(());
    }
    let call = Call::new(Method::POST, stdin(client, pid));
    let call = Call { content: Content::Bytes(bytes), ..call };
    native::whole(&client.native, call).await?;
    Ok(())
}

/// Writes what a client streams, in its order. No more is read than was written, but for one message.
pub(super) async fn stream<N: Native>(client: &Client<N>, mut body: Body) -> Result<(), Failure> {
    let (mut decoder, mut pid, mut room) = (Decoder::default(), None, None::<Arc<N::Room>>);
    loop {
        while let Some(message) =
            decoder.next_message().map_err(|error| Failure::invalid(&error))?
        {
            let message: Streamed = super::read(&held::bytes(message, room.clone())).await?;
            if message.start.is_none() && message.data.is_none() && message.keepalive.is_none() {
                return Err(Failure::new("invalid_argument", "a message without an event"));
            }
            if let Some(of) = &message.start {
                pid = Some(known(&client.sandbox, &of.process)?);
            }
            if let Some(data) = &message.data {
                let pid = pid.ok_or_else(|| {
                    Failure::new("invalid_argument", "the first message names the process")
                })?;
                write(client, pid, data.input.bytes()?).await?;
            }
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    if room.is_none() && decoder.buffered() > LARGE_BYTES {
                        room = Some(Arc::new(client.native.room(2 * MAX_MESSAGE_BYTES).await?));
                    }
                    decoder.feed(&data);
                }
            }
            Some(Err(error)) => return Err(Failure::invalid(&error)),
            None => return decoder.end().map_err(|error| Failure::invalid(&error)),
        }
    }
}

/// The answer to a stream of input.
pub(super) fn ended(answered: Result<(), Failure>) -> Response {
    let body = match answered {
        Ok(()) => [envelope(&json!({})), connect::end(None)].concat(),
        Err(failure) => return connect::failed(&failure),
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(STREAM_TYPE))], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_read_with_and_without_padding() {
        let of = |text: &str| {
            let input: Input = serde_json::from_value(json!({"stdin": text})).unwrap();
            input.bytes().map_err(|failure| failure.code)
        };
        assert_eq!(of("aGk="), Ok(b"hi".to_vec()));
        assert_eq!(of("aGk"), Ok(b"hi".to_vec()));
        assert_eq!(of("!"), Err("invalid_argument"));
        assert_eq!(Input::default().bytes().unwrap_err().code, "invalid_argument");
    }
}
