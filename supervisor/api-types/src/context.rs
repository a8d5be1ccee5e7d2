//! Contexts: the kernels of a session.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::message::Origin;

use super::{SessionState, schema};

/// The id of the context that every session has, and that code runs in if it names none.
pub const MAIN_CONTEXT: &str = "main";

/// A context to open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextSpec {
    /// Unique within the session: 1 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`. A random one if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    pub id: Option<String>,
}

/// A context: a kernel with variables and a queue of its own, in a session whose files and limits it
/// shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextInfo {
    /// `main` is the one that every session has.
    pub id: String,
    pub session_id: String,
    pub state: SessionState,
    /// Whether its kernel was `forked` from the environment's template or `executed`; null before
    /// there is one. Both are confined alike.
    #[schema(schema_with = schema::names_or_null::<Origin>)]
    pub kernel_origin: Option<Origin>,
    /// Counts its kernels from 1; null before there is one.
    pub generation: Option<u64>,
    /// The id of the execution that its kernel runs; null if it runs none.
    pub running: Option<String>,
    /// Executions that wait for it.
    pub queued: u64,
}

/// The contexts of a session, `main` first, then in the order in which they were opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextList {
    /// All of them: there are few.
    pub contexts: Vec<ContextInfo>,
}

/// How much a reset has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResetScope {
    /// The context's kernel and what it had started; of `main` also the commands that are not to
    /// survive a reset.
    Context,
    /// Every process of the session, since without the cgroup layer they are not told apart.
    Session,
}
