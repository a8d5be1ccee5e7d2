//! What the gate decided about a connection, and why.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::AddressClass;

/// The supervisor's name for a session, never reused while a gate lives.
pub type SessionKey = u64;

/// Number of a connection within its session, from 1.
pub type ConnectionNumber = u64;

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Decision {
    /// It does.
    Allowed,
    /// It does not.
    Refused,
}

/// How the session asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Via {
    /// HTTP's CONNECT.
    Connect,
    /// A request with an absolute URL.
    Http,
    /// SOCKS5.
    Socks5,
    /// Neither could be read.
    Unknown,
}

/// Why it was decided so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// Allowed: an entry of the allow-list says so.
    Listed,
    /// Allowed: no entry says so, and who was asked did.
    Approved,
    /// Allowed: the package index, or what the gate fetches for it.
    Packages,
    /// No entry is about this host.
    NotListed,
    /// An entry is about this host, and none about this port of it.
    PortNotListed,
    /// The entries have other methods.
    MethodNotListed,
    /// Who was asked refused it, or did not answer in time.
    NotApproved,
    /// The address is of a class that is refused. Of several, the first.
    Address(AddressClass),
    /// The name has no address, or the resolver gave no answer.
    Unresolved,
    /// No address of it took the connection in time.
    Unreachable,
    /// The name within TLS is another than the one asked for.
    SniMismatch,
    /// No name within TLS, or one that is encrypted.
    SniMissing,
    /// Port 443 is for TLS.
    NotTls,
    /// The destination's certificate is not good for its name.
    Certificate,
    /// A request that the gate does not pass on: malformed, ambiguous, or of a kind it does not do.
    BadRequest,
    /// The session did not say in time what it wants.
    Timeout,
    /// The session's bytes are used up.
    ByteLimit,
    /// The tenant's bytes are used up for now.
    EgressRate,
}

/// A decision. It is sent before any byte goes to the destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Whose connection.
    pub session: SessionKey,
    /// Which of its connections.
    pub connection: ConnectionNumber,
    /// Whether it goes on.
    pub decision: Decision,
    /// The rule or check that decided.
    pub reason: Reason,
    /// How it was asked for.
    pub via: Via,
    /// The name or address that was asked for; empty if it could not be read.
    pub destination: String,
    /// The port; 0 if it could not be read.
    pub port: u16,
    /// The method of a request that the gate read.
    pub method: Option<String>,
    /// The address that it is connected to, or that was refused.
    pub address: Option<IpAddr>,
}
