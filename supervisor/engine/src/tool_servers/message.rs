//! What servers of MCP are asked, and what they answer: JSON, or events of which one is the answer.

use serde::Deserialize;
use serde_json::{Map, Value};
use vivarium_api_types::{CallAnswer, CallError, JsonText};
use vivarium_egress::message::CallResponse;

use super::ServerError;

/// The most of a server's words about an error that are passed on, in characters.
const MAX_MESSAGE_CHARS: usize = 4096;

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    result: Option<JsonText>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// JSON-RPC 2.0, "Error object".
#[derive(Debug, Deserialize)]
struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The result of the request with this id.
pub(super) fn result(response: &CallResponse, id: u64) -> Result<JsonText, ServerError> {
    let body = std::str::from_utf8(&response.body).map_err(|_| ServerError::Malformed)?;
    let answer = match header(response, "content-type") {
        Some(kind) if kind.starts_with("text/event-stream") => {
            let messages = event_data(body);
            messages.iter().filter_map(|data| object(data)).find(|it| is_for(it, id))
        }
        _ => object(body).filter(|message| is_for(message, id) || message.error.is_some()),
    };
    let is_good = (200..300).contains(&response.status);
    match answer {
        Some(Message { error: Some(RpcError { code, message }), .. }) => {
            let message = message.chars().take(MAX_MESSAGE_CHARS).collect();
            Err(ServerError::Refused { code, message })
        }
        Some(Message { result: Some(result), .. }) if is_good => Ok(result),
        _ if !is_good => Err(ServerError::Status(response.status)),
        _ => Err(ServerError::Malformed),
    }
}

pub(super) fn header<'a>(response: &'a CallResponse, name: &str) -> Option<&'a str> {
    let mut headers = response.headers.iter();
    headers.find(|(it, _)| it == name).map(|(_, value)| value.as_str())
}

/// Of an object alone: serde takes arrays for structures, too.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok().filter(|_| text.trim_start().starts_with('{'))
}

fn is_for(message: &Message, id: u64) -> bool {
    message.id.as_ref().and_then(Value::as_u64) == Some(id)
}

/// The data of each event: WHATWG HTML, "Server-sent events".
fn event_data(text: &str) -> Vec<String> {
    let (mut events, mut data) = (Vec::new(), Vec::new());
    for line in text.replace("\r\n", "\n").split_terminator(['\n', '\r']) {
        if line.is_empty() && !data.is_empty() {
            events.push(std::mem::take(&mut data).join("\n"));
        } else if let Some(rest) = line.strip_prefix("data:") {
            data.push(rest.strip_prefix(' ').unwrap_or(rest).to_owned());
        }
    }
    events
}

/// The result of `tools/call`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    content: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    structured_content: Option<JsonText>,
    #[serde(default)]
    is_error: bool,
    /// Since 2026-07-28; `complete`, or what the server wants first.
    #[serde(default)]
    result_type: Option<String>,
}

/// What a call returns or raises in Python: the structured content if there is some, else the text if there is
/// nothing but text, else the blocks of content.
pub(super) fn answer(result: &JsonText) -> CallAnswer {
    let Some(called) = object::<Called>(result.as_str()) else {
        return failed("the tool server's answer is no result of a tool");
    };
    if called.result_type.is_some_and(|kind| kind != "complete") {
        return failed("the tool asks for input, which nobody can give it here");
    }
    if called.content.is_none() && called.structured_content.is_none() {
        return failed("the tool server's answer is no result of a tool");
    }
    let content = called.content.unwrap_or_default();
    let text = texts(&content);
    if called.is_error {
        let words = text.unwrap_or_default();
        let words = if words.is_empty() { "the tool failed".to_owned() } else { words };
        let message = words.chars().take(MAX_MESSAGE_CHARS).collect();
        let error = CallError { message, data: called.structured_content };
        return CallAnswer { result: None, error: Some(error) };
    }
    let value = match (called.structured_content, text) {
        (Some(structured), _) => Ok(structured),
        (None, Some(text)) => JsonText::of(&Value::String(text)),
        (None, None) => {
            JsonText::of(&Value::Array(content.into_iter().map(Value::Object).collect()))
        }
    };
    match value {
        Ok(value) => CallAnswer { result: Some(value), error: None },
        Err(_) => failed("the tool server's answer is no JSON"),
    }
}

/// An answer that raises this.
pub(super) fn failed(message: impl Into<String>) -> CallAnswer {
    CallAnswer { result: None, error: Some(CallError { message: message.into(), data: None }) }
}

/// All of it, if it is nothing but text.
fn texts(content: &[Map<String, Value>]) -> Option<String> {
    let text = |block: &Map<String, Value>| match block.get("type")?.as_str()? {
        "text" => block.get("text")?.as_str().map(str::to_owned),
        _ => None,
    };
    let texts = content.iter().map(text).collect::<Option<Vec<_>>>()?;
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, kind: &str, body: &str) -> CallResponse {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        CallResponse { status, headers, body: body.as_bytes().to_vec() }
    }

    fn python(result: &str) -> (Option<String>, Option<String>) {
        let CallAnswer { result, error } = answer(&serde_json::from_str(result).unwrap());
        (result.map(|it| it.as_str().to_owned()), error.map(|it| it.message))
    }

    #[test]
    fn the_answer_is_found_in_json_and_among_events() {
        let of =
            |kind, body| result(&response(200, kind, body), 7).map(|it| it.as_str().to_owned());
        let json = r#"{"jsonrpc":"2.0","id":7,"result":{"b":1,"a":2}}"#;
        assert_eq!(of("application/json", json).unwrap(), r#"{"b":1,"a":2}"#);
        let events = "event: message\r\ndata: {\"method\": \"notifications/progress\"}\r\n\r\n\
                      : alive\n\nid: 1\ndata: {\"id\": 7,\ndata: \"result\": {}}\n\n";
        assert_eq!(of("text/event-stream; charset=utf-8", events).unwrap(), "{}");
        for (kind, body) in [
            ("application/json", r#"{"id": 8, "result": {}}"#),
            ("application/json", "[]"),
            ("text/html", "<p>"),
            ("text/event-stream", "data: {\"id\": 7, \"result\": {}}\n"),
        ] {
            assert!(matches!(of(kind, body), Err(ServerError::Malformed)), "{body}");
        }
    }

    #[test]
    fn errors_are_the_servers_or_those_of_http() {
        let error = r#"{"id": null, "error": {"code": -32022, "message": "no such version"}}"#;
        let of = |status, body| result(&response(status, "application/json", body), 7).unwrap_err();
        assert!(matches!(of(400, error), ServerError::Refused { code: -32022, .. }));
        assert!(matches!(of(401, "{}"), ServerError::Status(401)));
        assert!(matches!(of(502, r#"{"id": 7, "result": {}}"#), ServerError::Status(502)));
    }

    #[test]
    fn python_gets_structured_content_or_text_or_blocks() {
        let ok = |json: &str| (Some(json.to_owned()), None);
        let text = r#"{"content": [{"type": "text", "text": "a"}]}"#;
        assert_eq!(python(text), ok("\"a\""));
        let both = r#"{"content": [{"type": "text", "text": "a"}], "structuredContent": {"n": 1}}"#;
        assert_eq!(python(both), ok("{\"n\": 1}"));
        assert_eq!(python(r#"{"content": []}"#), ok("[]"));
        let image = r#"{"content": [{"type": "image", "data": "AA=="}]}"#;
        assert_eq!(python(image), ok(r#"[{"data":"AA==","type":"image"}]"#));
        let error = r#"{"content": [{"type": "text", "text": "no"}], "isError": true}"#;
        assert_eq!(python(error), (None, Some("no".to_owned())));
        let asks = python(r#"{"resultType": "input_required"}"#);
        assert!(asks.1.unwrap().contains("asks for input"));
        for nonsense in ["[]", r#"{"nonsense": 1}"#, r#"{"content": {}}"#] {
            assert!(python(nonsense).1.unwrap().contains("no result of a tool"), "{nonsense}");
        }
    }
}
