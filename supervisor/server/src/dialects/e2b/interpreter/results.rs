//! Values and displays as E2B's results: one member for each type of content it knows.

use serde_json::{Map, Value, json};
use vivarium_api_types::{MimeBundle, notebook_data};

/// Members, and the types of their content.
const MEMBERS: [(&str, &str); 11] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
];

/// The line of a value or display.
pub(super) fn result(mime: &MimeBundle, is_main: bool) -> Value {
    let content = serde_json::to_value(notebook_data(mime)).unwrap_or_default();
    let (mut told, mut extra) = (Map::new(), Map::new());
    told.insert("type".to_owned(), json!("result"));
    told.insert("is_main_result".to_owned(), json!(is_main));
    if let Value::Object(content) = content {
        for (kind, value) in content {
            match MEMBERS.iter().find(|(of, _)| *of == kind) {
                Some((_, "text")) => drop(told.insert("text".to_owned(), unquoted(value))),
                Some((_, member)) => drop(told.insert((*member).to_owned(), value)),
                None => drop(extra.insert(kind, value)),
            }
        }
    }
    if !extra.is_empty() {
        told.insert("extra".to_owned(), Value::Object(extra));
    }
    Value::Object(told)
}

/// The text of a string loses its outer quotes, as in E2B.
fn unquoted(text: Value) -> Value {
    let Value::String(text) = text else { return text };
    for quote in ['\'', '"'] {
        let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.into();
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(mime: Value) -> Value {
        result(&serde_json::from_value(mime).unwrap(), true)
    }

    #[test]
    fn every_type_has_its_member() {
        let told = told(json!({
            "text/plain": "'a'", "text/html": "<b>", "image/png": "AA==", "x/y": "z",
            "application/json": "{\"a\": 1}", "text/latex": "$x$",
        }));
        let expected = json!({
            "type": "result", "is_main_result": true, "text": "a", "html": "<b>", "png": "AA==",
            "json": {"a": 1}, "latex": "$x$", "extra": {"x/y": told["extra"]["x/y"]},
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn only_outer_quotes_go() {
        assert_eq!(unquoted(json!("'it''s'")), "it''s");
        assert_eq!(unquoted(json!("'")), "'");
        assert_eq!(unquoted(json!("['a']")), "['a']");
    }
}
