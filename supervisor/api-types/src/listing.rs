//! What lists are asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SessionState;

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// At most this many, 1 to 1000.
    #[param(default = 100, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of the previous part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 100, after: None }
    }
}

/// Which sessions to list: those that have all of what is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    pub page: Page,
    /// One of these states; any if empty.
    pub state: Vec<SessionState>,
    /// Metadata that has these values.
    pub metadata: BTreeMap<String, String>,
}

impl SessionQuery {
    /// Whether a session in this state, with this metadata, has all of what is asked for.
    #[must_use]
    pub fn admits(&self, state: SessionState, metadata: &BTreeMap<String, String>) -> bool {
        (self.state.is_empty() || self.state.contains(&state))
            && self.metadata.iter().all(|(key, value)| metadata.get(key) == Some(value))
    }
}

/// The filters of a [`SessionQuery`], for the OpenAPI document.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "described here, read one by one")]
pub struct SessionFilters {
    /// Only sessions in this state. Given several times: in one of these states.
    state: Option<Vec<SessionState>>,
    /// Only sessions whose metadata has this value under this key: `metadata[KEY]=VALUE`. Given
    /// several times: those that have all of them.
    #[param(style = DeepObject, explode)]
    metadata: Option<BTreeMap<String, String>>,
}
