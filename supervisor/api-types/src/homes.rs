//! Homes and volumes: what of a tenant's files outlives sessions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};
use utoipa::ToSchema;

use super::schema;

/// Whose home a session has.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HomeKind {
    /// None: what it writes goes with it.
    #[default]
    Off,
    /// That of all sessions of its id.
    Session,
    /// That of all the tenant's sessions that ask for it.
    Tenant,
}

/// A volume that a session is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeMount {
    /// Its name.
    pub name: String,
    /// Where it appears, beneath `/mnt`; `/mnt/NAME` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether the session can only read it. One session at a time can write to it.
    #[serde(default)]
    pub read_only: bool,
}

/// A volume to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// 1 to 64 of `A-Z a-z 0-9 _ -`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    pub name: String,
}

/// What a home or volume takes of the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StorageInfo {
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When a session last had it.
    #[schema(value_type = String, format = DateTime)]
    pub last_used_at: Timestamp,
    /// Whether a session has it now.
    pub in_use: bool,
    /// As last measured; null if it was not yet.
    pub used_bytes: Option<u64>,
    /// Files, directories and links, as last measured.
    pub used_inodes: Option<u64>,
    /// Null is no maximum.
    pub max_bytes: Option<u64>,
    pub max_inodes: Option<u64>,
}

/// A home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HomeInfo {
    /// The id of its sessions, or `@tenant`.
    pub id: String,
    /// `session` or `tenant`.
    #[schema(schema_with = schema::names::<HomeKind>)]
    pub kind: HomeKind,
    pub storage: StorageInfo,
}

/// The tenant's homes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HomeList {
    pub homes: Vec<HomeInfo>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeInfo {
    pub name: String,
    pub storage: StorageInfo,
}

/// The tenant's volumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeList {
    pub volumes: Vec<VolumeInfo>,
}
