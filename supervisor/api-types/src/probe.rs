//! Questions about code that is being written: what could follow, and what something is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Code, and a place in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// The code.
    pub code: String,
    /// The place, in characters from its beginning; its end if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u32>,
}

/// What could follow at a place in code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteReply {
    /// What could stand there.
    pub matches: Vec<Match>,
    /// Where what they replace begins, in characters.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
}

/// What could stand somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Match {
    /// The text.
    pub text: String,
    /// What it is, such as `function` or `module`; empty if that is not known.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What stands at a place in code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InspectReply {
    /// Whether it is known.
    pub found: bool,
    /// What it is called there.
    #[serde(default)]
    pub name: Option<String>,
    /// Its class's name.
    #[serde(rename = "type", default)]
    pub type_name: Option<String>,
    /// How it is called, if it can be.
    #[serde(default)]
    pub signature: Option<String>,
    /// Its documentation.
    #[serde(default)]
    pub docstring: Option<String>,
    /// `repr()` of it, perhaps shortened.
    #[serde(default)]
    pub repr: Option<String>,
    /// Its source code, where it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}
