//! Tool dispatch: one call of a tool, answered by one text, as model servers hand it to a model.
//!
//! The tools are those of MCP. An answer is always a success whose text says what went wrong: the
//! caller passes the text on and drops everything else.

use axum::body::Bytes;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::held;
use super::mcp::tools;
use super::native::{Native, Refusal};
use crate::off_thread;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dispatched {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Answers a call of a tool.
pub async fn respond<N: Native>(native: N, body: &Bytes) -> Response {
    let Dispatched { name, arguments } = match off_thread::from_slice(body).await {
        Ok(call) => call,
        Err(error) => {
            let detail = format!("send {{\"name\": …, \"arguments\": {{…}}}}: {error}");
            return refused(&Refusal::invalid(None, detail));
        }
    };
    let mut params = Map::new();
    params.insert("name".to_owned(), name.into());
    params.insert("arguments".to_owned(), arguments.into());
    match tools::call(&native, &params, None).await {
        Ok(answer) => told(&text(&answer.result), answer.room),
        Err(error) => told(&error.message, None::<N::Room>),
    }
}

/// The answer to a call that was refused.
#[must_use]
pub fn refused(refusal: &Refusal) -> Response {
    told(&refusal.text(), None::<()>)
}

fn told<R: Send + Sync + 'static>(content: &str, room: Option<R>) -> Response {
    held::json(&json!({"content": content}), room)
}

/// A tool's result in words.
fn text(result: &Value) -> String {
    let items = result.get("content").and_then(Value::as_array);
    let parts: Vec<_> = items.into_iter().flatten().map(part).collect();
    parts.join("\n")
}

fn part(item: &Value) -> String {
    let member = |of: &Value, name: &str| {
        of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match item.get("type").and_then(Value::as_str) {
        Some("text") => member(item, "text"),
        Some("resource_link") => format!("[file {}]", member(item, "description")),
        Some("image") => format!("[an image of type {}]", member(item, "mimeType")),
        _ => {
            let resource = item.get("resource").unwrap_or(&Value::Null);
            format!("[a file of type {}, which is not text]", member(resource, "mimeType"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_named() {
        let result = json!({"content": [
            {"type": "text", "text": "done"},
            {"type": "resource_link", "uri": "vivarium://s/a", "description": "a in session s"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "resource", "resource": {"blob": "AA==", "mimeType": "application/zip"}},
        ]});
        let expected = "done\n[file a in session s]\n[an image of type image/png]\n\
                        [a file of type application/zip, which is not text]";
        assert_eq!(text(&result), expected);
        assert_eq!(text(&json!({})), "");
    }
}
