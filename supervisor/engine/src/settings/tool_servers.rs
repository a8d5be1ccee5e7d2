//! `[tools.NAME]`: servers of tools that the operator has.

use std::time::Duration;

use vivarium_egress::Network;

use super::SecretSource;

/// A server of tools, which code may call where its tenant may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    /// Its URL, of MCP over streamable HTTP. It has none only while the configuration is read.
    pub mcp: String,
    /// The header that has the secret.
    pub header: String,
    pub secret: Option<SecretSource>,
    /// Which of its tools there are, by its names; all if there is no list.
    pub only: Option<Vec<String>>,
    /// Time in which a call has to be answered.
    pub timeout: Duration,
    /// Networks in which it may be although their class is refused.
    pub allow_addresses: Vec<Network>,
}

impl Default for ToolServer {
    fn default() -> Self {
        Self {
            mcp: String::new(),
            header: "authorization".to_owned(),
            secret: None,
            only: None,
            timeout: Duration::from_secs(60),
            allow_addresses: Vec::new(),
        }
    }
}
