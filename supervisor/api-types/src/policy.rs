//! What holds for a session and its tenant, and where each value came from.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Number;
use strum::{IntoStaticStr, VariantNames};
use utoipa::ToSchema;

use super::schema;

/// Where a value came from.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PolicySource {
    #[default]
    Default,
    /// A section of the configuration file that holds for all tenants.
    File,
    /// A variable of the daemon's environment.
    Environment,
    CommandLine,
    /// The tenant's own part of the configuration.
    Tenant,
    /// The request that made the session, or changed it.
    Request,
}

/// A value, as it is configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PolicyValue {
    Number(Number),
    Text(String),
    List(Vec<String>),
}

impl From<u64> for PolicyValue {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl fmt::Display for PolicyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
            Self::List(values) => values.join(", ").fmt(f),
        }
    }
}

/// One limit, time or quota that holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyEntry {
    /// The key of the configuration, as `sandbox.max_memory_mb`.
    pub key: String,
    /// The value, as it is configured.
    #[schema(schema_with = schema::policy_value)]
    pub value: PolicyValue,
    pub source: PolicySource,
}
