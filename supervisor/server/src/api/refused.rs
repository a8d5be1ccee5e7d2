//! What is wrong with a request, in the API's words.
//!
//! Serde says it in those of Rust and its own. What it says has few forms, which are taken apart here:
//! the tests hold every one to words that a client of any language knows.

use std::borrow::Cow;

use axum::http::StatusCode;

use super::Problem;
use vivarium_config::suggest;

/// The most that is repeated of what a client sent, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// What is wrong with one field.
struct Refusal {
    code: &'static str,
    /// The member that it is about, below the path.
    member: Option<String>,
    detail: String,
}

/// A body that is not JSON, or not the object that is wanted. `path` leads to the bad field.
pub(super) fn body(path: &str, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let (line, column) = (error.line(), error.column());
    let place = format!(" at line {line} column {column}");
    let message = message.strip_suffix(&place).unwrap_or(&message);
    if !error.is_data() {
        let detail = format!("line {line}, column {column}: {}", syntax(message));
        return Problem::new(StatusCode::BAD_REQUEST, "malformed_json", detail);
    }
    let path = if path == "." { "" } else { path };
    let Refusal { code, member, detail } = refusal(message, &[]);
    let field = match member {
        Some(name) if path.is_empty() => name,
        // The path of a duplicate leads to it already.
        Some(name) if path.ends_with(&name) => shown(path).into_owned(),
        Some(name) => format!("{}.{name}", shown(path)),
        None => shown(path).into_owned(),
    };
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail);
    if field.is_empty() { problem } else { problem.field(field) }
}

/// A bad query. `others` are parameters that the type which was parsed does not know.
pub(super) fn query(path: &str, message: &str, others: &[&str]) -> Problem {
    let Refusal { code, member, detail } = refusal(message, others);
    let name = member.unwrap_or_else(|| shown(path).into_owned());
    let detail = match code {
        "unknown_field" => detail.replacen("field", "parameter", 2),
        "duplicate_field" => format!("{name}: it is given twice"),
        _ => format!("{name}: {detail}"),
    };
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail).field(name)
}

fn refusal(message: &str, others: &[&str]) -> Refusal {
    let of = |code, member: Option<&str>, detail: String| Refusal {
        code,
        member: member.map(|name| shown(name).into_owned()),
        detail,
    };
    if let Some(rest) = message.strip_prefix("unknown field `") {
        // What we expect is ours, and so the last of its kind; the name may be anything.
        let (name, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        let known: Vec<_> = names(known).chain(others.iter().copied()).collect();
        let hint = suggest::hint(name, known.iter().copied());
        let detail = if hint.is_empty() && !known.is_empty() {
            format!("there is no field {:?}: the fields are {}", shown(name), known.join(", "))
        } else {
            format!("there is no field {:?}{hint}", shown(name))
        };
        return of("unknown_field", Some(name.trim_end_matches("`, there are no fields")), detail);
    }
    let quoted = |prefix: &str| message.strip_prefix(prefix)?.strip_suffix('`');
    if let Some(name) = quoted("duplicate field `") {
        return of("duplicate_field", Some(name), format!("{:?} is given twice", shown(name)));
    }
    if let Some(name) = quoted("missing field `") {
        return of("missing_field", Some(name), format!("{name:?} is missing"));
    }
    if let Some(rest) = message.strip_prefix("unknown variant `") {
        let (name, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        let known: Vec<_> = names(known).collect();
        let hint = suggest::hint(name, known.iter().copied());
        let expected: Vec<_> = known.iter().map(|name| format!("{name:?}")).collect();
        let expected = expected.join(", ");
        let detail = format!("expected one of {expected}, but got {:?}{hint}", shown(name));
        return of("invalid_field", None, detail);
    }
    let bad = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    let detail = match bad.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((given, wanted)) => format!("expected {}, but got {}", expected(wanted), got(given)),
        None => message.to_owned(),
    };
    of("invalid_field", None, detail)
}

/// The names in a list such as "one of `a`, `b`".
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split('`').skip(1).step_by(2)
}

/// What serde calls what it wants.
fn expected(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" => "an object",
        "string or map" | "variant identifier" => "a string",
        _ if wanted.starts_with("struct ") => "an object",
        _ => wanted,
    }
}

/// What serde calls what it got. Of a string the beginning is repeated.
fn got(given: &str) -> Cow<'_, str> {
    let number = |kind: &str| given.strip_prefix(kind)?.strip_suffix('`');
    match given {
        "map" => "an object".into(),
        "sequence" => "an array".into(),
        "null" | "unit value" | "Option value" => "null".into(),
        "byte array" => "a string that is not UTF-8".into(),
        _ => {
            let value = ["boolean `", "integer `", "floating point `"].into_iter().find_map(number);
            match value.or_else(|| given.strip_prefix("string ")) {
                Some(value) => shown(value),
                None => shown(given),
            }
        }
    }
}

/// The beginning of what may be long, printable.
fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None if text.chars().all(is_plain) => text.into(),
        end => {
            let end = end.map_or(text.len(), |(end, _)| end);
            let part = text.get(..end).unwrap_or_default();
            let mut shown: String =
                part.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect();
            if end < text.len() {
                shown.push('…');
            }
            shown.into()
        }
    }
}

/// What serde_json says of text that is not JSON.
fn syntax(message: &str) -> Cow<'_, str> {
    let text = match message {
        "EOF while parsing a list" => "the body ends within an array",
        "EOF while parsing an object" => "the body ends within an object",
        "EOF while parsing a string" => "the body ends within a string",
        "EOF while parsing a value" => "the body ends where a value is expected",
        "expected value" | "expected ident" => "this is no JSON value",
        "key must be a string" => "the name of a member has to be a string",
        "trailing characters" => "something follows the JSON value",
        "trailing comma" => "a value has to follow a comma",
        "recursion limit exceeded" => "values are nested too deeply",
        "invalid unicode code point" => "the string is not UTF-8",
        "number out of range" => "the number is too large",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "\\u escapes beyond U+FFFF come in pairs"
        }
        _ if message.starts_with("control character") => {
            "control characters in a string have to be escaped"
        }
        _ => return message.replace('`', "'").into(),
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(message: &str) -> String {
        refusal(message, &[]).detail
    }

    #[test]
    fn types_and_values_are_told_in_words_of_json() {
        for (message, expected) in [
            (
                "invalid type: string \"x\", expected u64",
                "expected a whole number, 0 or more, but got \"x\"",
            ),
            ("invalid type: map, expected a string", "expected a string, but got an object"),
            ("invalid type: null, expected a boolean", "expected true or false, but got null"),
            (
                "invalid type: floating point `1.5`, expected u32",
                "expected a whole number from 0 to 4294967295, but got 1.5",
            ),
            (
                "invalid type: string \", expected u64\", expected a map",
                "expected an object, but got \", expected u64\"",
            ),
            (
                "unknown variant `fulll`, expected one of `none`, `full`",
                "expected one of \"none\", \"full\", but got \"fulll\" (did you mean \"full\"?)",
            ),
            ("missing field `code`", "\"code\" is missing"),
            (
                "unknown field `kode`, expected one of `code`, `files`",
                "there is no field \"kode\" (did you mean \"code\"?)",
            ),
            (
                "unknown field `a`b`, expected `code`",
                "there is no field \"a`b\": the fields are code",
            ),
        ] {
            assert_eq!(detail(message), expected);
        }
    }

    #[test]
    fn what_a_client_sent_is_bounded_and_printable() {
        let long = format!("unknown field `{}\u{7}`, expected `code`", "é".repeat(10_000));
        let found = refusal(&long, &[]);
        assert!(found.detail.len() < 400 && found.member.unwrap().chars().count() < 100);
        let bell = detail("invalid type: string \"x\", expected u64\u{7}");
        assert!(!bell.contains("u64\""), "{bell}");
        assert_eq!(shown("a\u{0}b"), "a\u{fffd}b");
    }
}
