//! Functions of the client's that code in a session can call.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::schema;

/// JSON as it was written: the order of an object's members counts.
#[derive(Debug, Clone)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text of a value.
    ///
    /// # Errors
    /// Never for a value that serde_json has parsed.
    pub fn of(value: &serde_json::Value) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// How many arrays and objects are inside each other.
    #[must_use]
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
        for byte in self.as_str().bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// JSON that is there: also if it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    JsonText::deserialize(deserializer).map(Some)
}

/// A function of the client's that code can call: `from vivarium import tools; tools.NAME(…)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// ASCII letters, digits and underscores, of which the first is a letter. No keyword of Python.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9_]*$")]
    pub name: String,
    /// What it does: its docstring in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 16384)]
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object; any object if not given. Positional arguments are taken in the order
    /// of its `properties`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<JsonText>,
    /// Milliseconds in which a call has to be answered; the configured time if not given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::scalar::milliseconds"
    )]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// The most calls of it in one execution; the configured number if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_calls: Option<u64>,
}

/// A call that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallInfo {
    /// Unique within the execution.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// Its arguments, by name, as its schema allows them.
    #[schema(value_type = Object)]
    pub arguments: JsonText,
    /// When the call ends by itself if it is not answered.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: jiff::Timestamp,
}

/// `call`: code has called a tool, and waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallEvent {
    pub execution_id: String,
    pub session_id: String,
    /// Unique within the execution.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// Its arguments, by name, as its schema allows them.
    #[schema(value_type = Object)]
    pub arguments: JsonText,
    /// When the call ends by itself if it is not answered.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: jiff::Timestamp,
}

/// How a call ended.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CallOutcome {
    /// With a result.
    Result,
    /// With an error of the client's.
    Error,
    /// It did not reach the client: its arguments are not what the schema says, too large or too deep, or there were
    /// as many calls as may be.
    Refused,
    /// It was not answered in time.
    Timeout,
    /// The code waits for it no more: it was interrupted or cancelled.
    Withdrawn,
    /// The execution ended before.
    Ended,
}

/// `call_ended`: a call waits no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallEndedEvent {
    pub execution_id: String,
    pub session_id: String,
    /// Unique within the execution.
    pub call_id: String,
    /// How it ended: with a `result` or an `error` of the client's, by `timeout`, `withdrawn` (the code was
    /// interrupted, or gave it up), or `ended` with its execution.
    #[schema(schema_with = schema::names::<CallOutcome>)]
    pub outcome: CallOutcome,
}

/// The answer to a call: `result` or `error`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallAnswer {
    /// What the call returns: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<JsonText>,
    /// What the call raises, as `vivarium.ToolError`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub error: Option<CallError>,
}

/// Why a tool has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallError {
    pub message: String,
    /// More about it, which code finds in the exception's `data`: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub data: Option<JsonText>,
}

/// The calls of an execution that wait for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallList {
    /// In the order in which they were made.
    pub calls: Vec<CallInfo>,
}

/// What an execution that is run in rounds waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingReply {
    pub execution_id: String,
    pub session_id: String,
    /// `waiting`: to be answered, and continued.
    pub status: WaitingStatus,
    /// In the order in which they were made.
    pub calls: Vec<CallInfo>,
}

/// That an execution is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingStatus {
    Waiting,
}

/// Answers to calls, after which the execution goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContinueRequest {
    /// By the calls' ids. Those that are missing stay open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, CallAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> JsonText {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_depth_of_json_is_that_of_its_containers() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a": [1, {"b": 2}]}"#, 3),
            (r#"["[[[[", "\"[[", "\\"]"#, 1),
            ("[[], [], [[]]]", 3),
        ] {
            assert_eq!(text(json).depth(), depth, "{json}");
        }
    }

    #[test]
    fn parameters_keep_the_order_of_their_members() {
        let json = r#"{"name":"t","parameters":{"properties":{"z":{},"a":{}}}}"#;
        let spec: ToolSpec = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), json);
    }

    #[test]
    fn a_result_of_null_is_a_result() {
        let answer: CallAnswer = serde_json::from_str(r#"{"result": null}"#).unwrap();
        assert_eq!(answer.result.unwrap().as_str(), "null");
        let answer: CallAnswer = serde_json::from_str("{}").unwrap();
        assert_eq!(answer.result, None);
    }
}
