//! Changes to a session as a JSON merge patch (RFC 7396): what is not named stays, null removes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::schema;
use super::{LimitsSpec, scalar};

/// What a merge patch says of one member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// Nothing: it stays as it is.
    #[default]
    Keep,
    /// Null: it is removed, and the default holds again.
    Remove,
    Set(T),
}

impl<T> Change<T> {
    #[must_use]
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map_or(Self::Remove, Self::Set))
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Remove => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

/// What to change of a session: a JSON merge patch (RFC 7396). Fields that are not given stay as they
/// are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionPatch {
    /// Keys to set, or to remove where the value is null. Null in place of the object removes all.
    #[serde(skip_serializing_if = "Change::is_keep", deserialize_with = "metadata")]
    #[schema(schema_with = schema::metadata_patch)]
    pub metadata: Change<BTreeMap<String, Option<String>>>,
    /// Milliseconds without an execution or keepalive after which the session is reaped, no more
    /// than the configured time. Null is the configured time.
    #[serde(skip_serializing_if = "Change::is_keep", deserialize_with = "change_of_ms")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub idle_timeout_ms: Change<u64>,
    /// When the session ends, whatever it does: a time to come, no later than the configured
    /// `session.max_lifetime` after its creation. Null is that latest time, or none.
    #[serde(skip_serializing_if = "Change::is_keep", deserialize_with = "change_of_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Change<Timestamp>,
    /// Limits to lower: `max_memory_mb`, `max_procs` and `cpu_cores` at once, `max_output_bytes` and
    /// `max_result_bytes` from the next execution on. The others hold as long as the session lives.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "limits")]
    pub limits: Option<LimitsSpec>,
}

fn metadata<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Change<BTreeMap<String, Option<String>>>, D::Error> {
    struct Members(BTreeMap<String, Option<String>>);
    impl<'de> Deserialize<'de> for Members {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            scalar::unique_map(deserializer).map(Self)
        }
    }
    Ok(match Change::<Members>::deserialize(deserializer)? {
        Change::Keep => Change::Keep,
        Change::Remove => Change::Remove,
        Change::Set(Members(members)) => Change::Set(members),
    })
}

/// Limits, of which none may be null: no limit can be lifted.
fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LimitsSpec>, D::Error> {
    super::Object::<super::limits::GivenLimits>::deserialize(deserializer)
        .map(|given| Some(given.0.into()))
}

fn change_of_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Change<u64>, D::Error> {
    Ok(scalar::milliseconds(deserializer)?.map_or(Change::Remove, Change::Set))
}

fn change_of_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Change<Timestamp>, D::Error> {
    Ok(scalar::time(deserializer)?.map_or(Change::Remove, Change::Set))
}
