//! Questions about code that is being written.

use std::time::Duration;

use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use vivarium_api_types::{CompleteReply, Completeness, InspectReply, IsCompleteReply};
use vivarium_client::path;

use super::kernel::Kernel;
use super::shell::failed;
use super::wire::Request;
use crate::dialects::native::{self, Call, Native, Refusal};

/// How often a kernel is asked again that somebody else keeps busy, and after how long each time.
const TRIES: u32 = 50;
const APART: Duration = Duration::from_millis(100);

fn code(request: &Request) -> &str {
    request.content.get("code").and_then(Value::as_str).unwrap_or_default()
}

/// Asks the session's kernel. What has its turn here waits only for what others do there.
async fn ask<N: Native, T: DeserializeOwned + Send + 'static>(
    kernel: &Kernel<N>,
    native: &N,
    question: &str,
    body: &Value,
) -> Result<T, Refusal> {
    let call = Call::new(Method::POST, format!("{}/{question}", path::session(&kernel.id)));
    let call = call.json(body);
    let mut tries = 0;
    loop {
        match native::json::<N, T>(native, call.clone()).await {
            Ok((answer, _)) => return Ok(answer),
            Err(refusal) if refusal.code != "busy" || tries == TRIES => return Err(refusal),
            Err(_) => {
                tries += 1;
                sleep(APART).await;
            }
        }
    }
}

fn probe(request: &Request) -> Value {
    let mut body = json!({"code": code(request)});
    let cursor = request.content.get("cursor_pos").and_then(Value::as_u64);
    if let (Some(cursor), Some(members)) = (cursor, body.as_object_mut()) {
        members.insert("cursor".to_owned(), json!(cursor));
    }
    body
}

pub(super) async fn complete<N: Native>(
    kernel: &Kernel<N>,
    native: &N,
    request: &Request,
) -> Value {
    match ask::<N, CompleteReply>(kernel, native, "complete", &probe(request)).await {
        Ok(CompleteReply { matches, start, end }) => {
            let texts: Vec<_> = matches.iter().map(|found| found.text.as_str()).collect();
            let types: Vec<_> = matches
                .iter()
                .map(|found| {
                    json!({"text": found.text, "type": found.kind, "start": start, "end": end})
                })
                .collect();
            json!({
                "status": "ok",
                "matches": texts,
                "cursor_start": start,
                "cursor_end": end,
                "metadata": {"_jupyter_types_experimental": types},
            })
        }
        Err(refusal) => failed(&refusal),
    }
}

pub(super) async fn inspect<N: Native>(kernel: &Kernel<N>, native: &N, request: &Request) -> Value {
    match ask::<N, InspectReply>(kernel, native, "inspect", &probe(request)).await {
        Ok(reply) => {
            let level = request.content.get("detail_level").and_then(Value::as_u64);
            let mut data = Map::new();
            if reply.found {
                data.insert("text/plain".to_owned(), json!(described(&reply, level >= Some(1))));
            }
            json!({"status": "ok", "found": reply.found, "data": data, "metadata": {}})
        }
        Err(refusal) => failed(&refusal),
    }
}

/// A name in words, as a prompt shows it.
fn described(reply: &InspectReply, with_source: bool) -> String {
    let name = reply.name.as_deref().unwrap_or_default();
    let signature = reply.signature.as_deref().map(|signature| format!("{name}{signature}"));
    let source = reply.source.as_deref().filter(|_| with_source);
    let docstring = reply.docstring.as_deref().filter(|_| source.is_none());
    let lines = [
        ("Signature:  ", signature.as_deref()),
        ("Type:       ", reply.type_name.as_deref()),
        ("String form: ", reply.repr.as_deref().filter(|_| reply.signature.is_none())),
        ("Docstring:\n", docstring),
        ("Source:\n", source),
    ];
    let lines = lines.into_iter().filter_map(|(label, text)| Some(format!("{label}{}", text?)));
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) async fn is_complete<N: Native>(
    kernel: &Kernel<N>,
    native: &N,
    request: &Request,
) -> Value {
    let body = json!({"code": code(request)});
    match ask::<N, IsCompleteReply>(kernel, native, "is_complete", &body).await {
        Ok(IsCompleteReply { status, indent }) => match status {
            Completeness::Complete => json!({"status": "complete"}),
            Completeness::Incomplete => json!({"status": "incomplete", "indent": indent}),
            Completeness::Invalid => json!({"status": "invalid"}),
        },
        Err(_) => json!({"status": "unknown"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_described_with_docstring_or_source() {
        let reply = InspectReply {
            found: true,
            name: Some("f".to_owned()),
            type_name: Some("function".to_owned()),
            signature: Some("(x)".to_owned()),
            docstring: Some("Doc.".to_owned()),
            repr: Some("<function f>".to_owned()),
            source: Some("def f(x): pass".to_owned()),
        };
        let said = described(&reply, false);
        assert_eq!(said, "Signature:  f(x)\nType:       function\nDocstring:\nDoc.");
        assert!(described(&reply, true).ends_with("Source:\ndef f(x): pass"));
    }
}
