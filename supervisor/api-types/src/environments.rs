//! Environments that are built: a base environment's interpreter with packages on top.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};
use utoipa::{IntoParams, ToSchema};

use super::schema;

/// An environment to build: `requirements`, or `pyproject` with or without `lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildRequest {
    /// 1 to 64 of `A-Z a-z 0-9 _ -`, and no configured environment's. An environment of this name is
    /// replaced when the build has succeeded; sessions that have it keep it.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    pub name: String,
    /// The configured environment whose interpreter it uses; `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The content of a requirements.txt. If it has any `--hash`, every distribution needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<String>,
    /// The content of a pyproject.toml, whose dependencies are installed, and not the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pyproject: Option<String>,
    /// The content of the uv.lock that goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
}

/// How far a build has come.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BuildState {
    Building,
    Succeeded,
    Failed,
}

/// The last build of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildInfo {
    /// Of the environment.
    pub name: String,
    /// `building`, `succeeded` or `failed`.
    #[schema(schema_with = schema::names::<BuildState>)]
    pub state: BuildState,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When it ended; null while it builds.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Why it failed. The log has more.
    pub error: Option<String>,
    /// SHA-256 of what was built.
    pub artefact: Option<String>,
}

/// An environment that was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuiltEnvironmentInfo {
    pub name: String,
    /// Whose it is; null if it is the operator's, for all tenants.
    pub tenant: Option<String>,
    /// SHA-256 over paths, modes and contents of its files.
    pub artefact: String,
    /// The configured environment whose interpreter it uses.
    pub base: String,
    /// Of that interpreter, such as `3.11.2`.
    pub python_version: String,
    /// Whether it has the files of wheels that were given by their hashes, and nothing else.
    pub hash_locked: bool,
    /// When its build ended.
    #[schema(value_type = String, format = DateTime)]
    pub built_at: Timestamp,
    pub size_bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
    /// Whether a session has it now.
    pub in_use: bool,
    /// What is installed, such as `six-1.16.0`, by the names of files that the packages chose.
    pub distributions: Vec<String>,
}

/// Environments that were built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuiltEnvironmentList {
    pub environments: Vec<BuiltEnvironmentInfo>,
}

/// Whose environment an administrator means.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct OwnerQuery {
    /// The tenant; the operator's own, which are for all, if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// What was removed because neither a name nor a session had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CollectReply {
    /// How many.
    pub artefacts: u64,
    /// What they took of the disk.
    pub bytes: u64,
}
