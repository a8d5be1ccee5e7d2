//! Requests, and what comes of them.

use serde_json::Value;
use vivarium_tests::http::{Client, Endpoint, Response};

/// What comes of a request.
pub(crate) enum Answer {
    Whole(Response),
    /// Its head came, and not all of its content.
    BrokeOff,
    Nothing,
}

/// Sends a request on a connection of its own.
pub(crate) fn send(endpoint: &Endpoint, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
    let Ok(mut connection) = Client::try_connect(endpoint) else { return Answer::Nothing };
    connection.ask(method, path, &[], body);
    let Some(mut answer) = connection.receive_head() else { return Answer::Nothing };
    let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
    match connection.exactly(length) {
        Some(content) => {
            answer.body = content;
            Answer::Whole(answer)
        }
        None => Answer::BrokeOff,
    }
}

/// Whether a problem is one of these.
pub(crate) fn is_one_of(code: &str, lists: &[&[&str]]) -> bool {
    lists.iter().any(|list| list.contains(&code))
}

/// A problem's code.
pub(crate) fn code(answer: &Response) -> String {
    let is_problem = answer.header("content-type") == Some("application/problem+json");
    assert!(is_problem, "{}", text(answer));
    answer.json()["code"].as_str().unwrap_or_default().to_owned()
}

/// For complaints.
pub(crate) fn text(answer: &Response) -> String {
    format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))
}

/// What came of a request, in a word or two.
pub(crate) fn what(answer: &Response) -> String {
    if answer.status >= 300 {
        return format!("{} {}", answer.status, code(answer));
    }
    let is_json = answer.header("content-type") == Some("application/json");
    let outcome = if is_json { answer.json() } else { Value::Null };
    match (outcome["status"].as_str(), outcome["cause"].as_str()) {
        (Some(status), cause) => format!("{status} {}", cause.unwrap_or_default()),
        _ => answer.status.to_string(),
    }
}
