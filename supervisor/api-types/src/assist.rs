//! Questions to a kernel about code that is being written.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::message::Assist;

/// The answer to a question about code, and what that question is.
pub trait AssistReply: Serialize + DeserializeOwned {
    /// The body of the request.
    type Request: Debug + Send + Sync + Serialize + DeserializeOwned + Into<ProbeRequest>;
    /// The question; its name is the end of the route's path.
    const KIND: Assist;
}

/// Code, and a place in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// The code.
    pub code: String,
    /// The place, in characters from its beginning; its end if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u32>,
    /// The context whose kernel is asked; `main` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
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

impl AssistReply for CompleteReply {
    type Request = ProbeRequest;
    const KIND: Assist = Assist::Complete;
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

impl AssistReply for InspectReply {
    type Request = ProbeRequest;
    const KIND: Assist = Assist::Inspect;
}

/// Code that may need another line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IsCompleteRequest {
    /// The code.
    pub code: String,
    /// The context whose kernel is asked; `main` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

impl From<IsCompleteRequest> for ProbeRequest {
    fn from(IsCompleteRequest { code, context }: IsCompleteRequest) -> Self {
        Self { code, cursor: None, context }
    }
}

/// Whether code can be executed, as the kernel judges it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IsCompleteReply {
    pub status: Completeness,
    /// The indentation of the next line of incomplete code; otherwise empty.
    #[serde(default)]
    pub indent: String,
}

impl AssistReply for IsCompleteReply {
    type Request = IsCompleteRequest;
    const KIND: Assist = Assist::IsComplete;
}

/// Whether code can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// It can.
    Complete,
    /// It needs another line.
    Incomplete,
    /// No further line makes it Python.
    Invalid,
}
