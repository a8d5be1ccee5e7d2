//! Lines as CSV (RFC 4180).

use serde_json::Value;

/// The columns, as paths into a line.
const COLUMNS: [&str; 32] = [
    "seq",
    "time",
    "event",
    "tenant",
    "session",
    "execution",
    "kind",
    "code_sha256",
    "status",
    "cause",
    "duration_ms",
    "usage.cpu_ms",
    "usage.memory_peak_bytes",
    "egress.allowed",
    "egress.denied",
    "host",
    "port",
    "decision",
    "actor",
    "action",
    "target",
    "result",
    "outcome",
    "by",
    "reason",
    "environment",
    "network",
    "name",
    "change",
    "image",
    "checkpoint",
    "from",
];

/// The header, or the row of a line; `None` if the line is not JSON.
#[must_use]
pub fn csv(line: Option<&str>) -> Option<String> {
    let Some(line) = line else { return Some(COLUMNS.join(",")) };
    let line: Value = serde_json::from_str(line).ok()?;
    let cell = |path: &&str| {
        let found = path.split('.').try_fold(&line, |value, key| value.get(key));
        match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => quoted(text),
            Some(other) => other.to_string(),
        }
    };
    Some(COLUMNS.iter().map(cell).collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    // A spreadsheet would take it for a formula (OWASP, "CSV Injection").
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if guard.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_columns_of_the_header() {
        assert!(csv(None).unwrap().starts_with("seq,time,event,tenant,"));
        let line = r#"{"seq":1,"time":"t","event":"admin","tenant":"a,\"b\nc","session":"=1+1",
                       "usage":{"cpu_ms":3},"actor":"uid:0"}"#;
        let row = csv(Some(line)).unwrap();
        assert_eq!(row, "1,t,admin,\"a,\"\"b\nc\",\"'=1+1\",,,,,,,3,,,,,,,uid:0,,,,,,,,,,,,,");
        let line = r#"{"seq":2,"time":"t","event":"approval_ended","tenant":"a","session":"s",
                       "environment":"e","network":"none","name":"n","change":"created",
                       "outcome":"denied","by":"uid 0","reason":"no, never"}"#;
        let row = csv(Some(line)).unwrap();
        assert!(row.ends_with(",denied,uid 0,\"no, never\",e,none,n,created,,,"), "{row}");
        assert_eq!(csv(Some("{")), None);
    }
}
