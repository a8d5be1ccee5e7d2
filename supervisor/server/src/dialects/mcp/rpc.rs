//! JSON-RPC 2.0, as MCP uses it: one message at a time, with parameters in an object.

use serde_json::{Map, Value, json};

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
/// MCP until 2025-11-25.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// MCP 2026-07-28: a header says something else than the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// MCP 2026-07-28.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// JSON-RPC leaves -32000 to -32019 to servers.
pub const TOO_MANY_REQUESTS: i64 = -32000;
pub const CANCELLED: i64 = -32001;

/// The longest id that is repeated, in bytes.
const MAX_ID_BYTES: usize = 1024;

/// The id of a request: a string or an integer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    /// The id, unless it is something that no id can be.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().map(Self::Number),
            Value::String(text) if text.len() <= MAX_ID_BYTES => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    #[must_use]
    pub fn value(&self) -> Value {
        match self {
            Self::Number(number) => json!(number),
            Self::Text(text) => json!(text),
        }
    }
}

/// What one client sends.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Request(Request),
    Notification(Request),
    /// An answer, to something that is never asked here.
    Response,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// None of a notification.
    pub id: Option<Id>,
    pub method: String,
    pub params: Map<String, Value>,
}

impl Request {
    /// A member of `params._meta`.
    #[must_use]
    pub fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl Error {
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    #[must_use]
    pub fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The message that says so.
    #[must_use]
    pub fn message(&self, id: Option<&Id>) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let (Some(data), Some(members)) = (&self.data, error.as_object_mut()) {
            members.insert("data".to_owned(), data.clone());
        }
        json!({"jsonrpc": "2.0", "id": id.map(Id::value), "error": error})
    }
}

/// The message with a result.
#[must_use]
pub fn result(id: Option<&Id>, result: Value) -> Value {
    let mut message = Map::new();
    message.insert("jsonrpc".to_owned(), json!("2.0"));
    message.insert("id".to_owned(), id.map_or(Value::Null, Id::value));
    message.insert("result".to_owned(), result);
    Value::Object(message)
}

/// A notification.
#[must_use]
pub fn notification(method: &str, params: Value) -> Value {
    let mut message = Map::new();
    message.insert("jsonrpc".to_owned(), json!("2.0"));
    message.insert("method".to_owned(), json!(method));
    message.insert("params".to_owned(), params);
    Value::Object(message)
}

/// Reads a message.
///
/// # Errors
/// The error to answer with, and the request's id as far as it has one.
pub fn parse(bytes: &[u8]) -> Result<Message, (Option<Id>, Error)> {
    let refused = |id: &Option<Id>, why: &str| (id.clone(), Error::new(INVALID_REQUEST, why));
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| (None, Error::new(PARSE_ERROR, format!("not JSON: {error}"))))?;
    let mut members = match value {
        Value::Object(members) => members,
        Value::Array(_) => return Err(refused(&None, "send one message at a time, not a batch")),
        _ => return Err(refused(&None, "a message is a JSON object")),
    };
    let id = match members.get("id") {
        None => None,
        Some(id) => {
            Some(Id::read(id).ok_or_else(|| refused(&None, "the id is a string or an integer"))?)
        }
    };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refused(&id, "jsonrpc has to be \"2.0\""));
    }
    let method = match members.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(refused(&id, "the method is a string")),
        None if members.contains_key("result") || members.contains_key("error") => {
            return Ok(Message::Response);
        }
        None => return Err(refused(&id, "there is no method")),
    };
    let params = match members.remove("params") {
        Some(Value::Object(params)) => params,
        None => Map::new(),
        Some(_) => return Err(refused(&id, "params is an object")),
    };
    let is_request = id.is_some();
    let request = Request { id, method, params };
    Ok(if is_request { Message::Request(request) } else { Message::Notification(request) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> (Option<Id>, i64) {
        let (id, error) = parse(text.as_bytes()).unwrap_err();
        (id, error.code)
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let request = parse(br#"{"jsonrpc": "2.0", "id": "a", "method": "ping"}"#).unwrap();
        let Message::Request(request) = request else { panic!("{request:?}") };
        assert_eq!((request.id, request.method.as_str()), (Some(Id::Text("a".into())), "ping"));
        let told = parse(br#"{"jsonrpc": "2.0", "method": "x", "params": {}}"#).unwrap();
        assert!(matches!(told, Message::Notification(_)));
        let answer = parse(br#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#).unwrap();
        assert_eq!(answer, Message::Response);
    }

    #[test]
    fn anything_else_is_refused_with_its_code() {
        for bad in ["", "{", "\u{1}", "{\"a\": 1} {}", &"[".repeat(100_000)] {
            assert_eq!(code(bad), (None, PARSE_ERROR), "{bad:.20}");
        }
        for bad in [
            "[]",
            "null",
            "\"ping\"",
            r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#,
            r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#,
            r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#,
            r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#,
        ] {
            assert_eq!(code(bad), (None, INVALID_REQUEST), "{bad}");
        }
        for bad in [
            r#"{"id": 1, "method": "ping"}"#,
            r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#,
            r#"{"jsonrpc": "2.0", "id": 1}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": 2}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}"#,
        ] {
            assert_eq!(code(bad), (Some(Id::Number(1)), INVALID_REQUEST), "{bad}");
        }
        let long = format!(r#"{{"jsonrpc": "2.0", "id": "{}", "method": "x"}}"#, "a".repeat(2000));
        assert_eq!(code(&long), (None, INVALID_REQUEST));
    }
}
