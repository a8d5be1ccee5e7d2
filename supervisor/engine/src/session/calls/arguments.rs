//! The arguments of a call, as code has written them.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use vivarium_api_types::JsonText;

use super::{MAX_CALL_BYTES, MAX_CALL_DEPTH};

/// The arguments, and their text: written anew, so that no second reading can differ from the first.
///
/// # Errors
/// Why the call is refused.
pub(super) fn read(arguments: &[u8]) -> Result<(Value, JsonText), String> {
    if arguments.len() > MAX_CALL_BYTES {
        return Err(format!("its arguments are over the maximum of {MAX_CALL_BYTES} bytes"));
    }
    let value: Value = serde_json::from_slice(arguments).map_err(|error| unreadable(&error))?;
    if !value.is_object() {
        return Err("its arguments are no object".to_owned());
    }
    if let Some(integer) = large_integer(arguments) {
        return Err(format!("{integer} is not between -2^63 and 2^64 - 1: pass it as a string"));
    }
    let text = JsonText::of(&value).map_err(|error| error.to_string())?;
    if text.depth() > MAX_CALL_DEPTH {
        return Err(too_deep());
    }
    Ok((value, text))
}

/// The first integer that would be read as a float near it, shortened.
fn large_integer(json: &[u8]) -> Option<String> {
    // Strings too, so that no digits of theirs are taken for a number.
    static TOKEN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*"#).ok());
    let is_integer = |token: &&str| !token.contains(['"', '.', 'e', 'E']);
    let fits = |token: &str| token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok();
    let tokens = TOKEN.as_ref()?.find_iter(std::str::from_utf8(json).ok()?);
    let integer = tokens.map(|it| it.as_str()).filter(is_integer).find(|token| !fits(token))?;
    let start: String = integer.chars().take(24).collect();
    Some(if start.len() < integer.len() { format!("{start}…") } else { start })
}

fn too_deep() -> String {
    format!("its arguments are nested more than {MAX_CALL_DEPTH} deep")
}

/// `serde_json` gives up at 128 levels, and has no kind of its own for that.
fn unreadable(error: &serde_json::Error) -> String {
    if error.to_string().starts_with("recursion limit exceeded") {
        return too_deep();
    }
    format!("its arguments are no JSON: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_refused() {
        let kept = [
            r#"{"a":-9223372036854775808,"b":18446744073709551615}"#,
            r#"{"a":"99999999999999999999 \" 99999999999999999999"}"#,
            r#"{"a":1e+25,"b":[0,-0.5,1e400]}"#,
        ];
        for json in &kept[..2] {
            assert_eq!(read(json.as_bytes()).unwrap().1.as_str(), *json);
        }
        assert_eq!(large_integer(kept[2].as_bytes()), None);
        for json in
            ["18446744073709551616", "-9223372036854775809", "10000000000000000000000000000"]
        {
            let refused = read(format!(r#"{{"\"":"\\","a":[{json}]}}"#).as_bytes()).unwrap_err();
            assert!(refused.contains("pass it as a string"), "{refused}");
        }
    }
}
