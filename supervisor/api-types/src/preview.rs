//! Servers in sessions, shown to browsers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which server to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// The port that the server listens on, on a loopback address.
    #[schema(minimum = 1)]
    pub port: u16,
}

/// Where a browser sees a server in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewReply {
    /// Opens the preview, for whoever has it.
    pub url: String,
    /// When the URL, and the cookie that it sets, stop working.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
