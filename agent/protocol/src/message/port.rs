//! Connections to ports of a session.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

/// An address of the loopback interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoopbackAddress {
    /// 127.0.0.1
    V4,
    /// `::1`
    V6,
}

/// A TCP port of the session's own loopback interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connect {
    /// The port.
    pub port: NonZeroU16,
    /// The address.
    pub address: LoopbackAddress,
}
