//! What one session may do outside.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vivarium_packages::Source;

use crate::address::{self, AddressClass, Network};
use crate::allow::{Allow, HTTPS_PORT, HostPattern};
use crate::bucket::Rate;
use crate::decision::Reason;
use crate::name::Host;

/// Placeholders are at least this long, so that none is found by chance in a header.
pub const MIN_PLACEHOLDER_LEN: usize = 12;

/// The most entries of an allow-list, and the most secrets, of one session.
pub const MAX_ENTRIES: usize = 1_000;

/// What a session may reach, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rules {
    /// Where it may connect to. Nothing, if this is empty.
    pub allow: Vec<Allow>,
    /// What happens to a destination that no entry allows.
    pub unlisted: Unlisted,
    /// Networks that are reached although their class is refused: the operator's to say.
    pub allow_addresses: Vec<Network>,
    /// How much of it.
    pub limits: Limits,
    /// Bytes of all sessions of its tenant together, both ways; the last that came holds. `None` is
    /// unlimited.
    pub tenant_rate: Option<Rate>,
    /// What the gate puts into its requests.
    pub secrets: Vec<Secret>,
    /// Where the package index that the gate serves inside has its packages from, if it serves one.
    pub packages: Option<Source>,
}

/// What happens to a destination that no entry allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Unlisted {
    /// It is refused.
    #[default]
    Refuse,
    /// The supervisor is asked, and it is refused if there is no answer within this time.
    Ask {
        /// How long the gate waits.
        wait: Duration,
    },
}

/// How much a session may have of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Connections at one time; one more waits until another ends.
    pub max_connections: u32,
    /// Bytes in both directions over the session's life. `None` is unlimited.
    pub max_bytes: Option<u64>,
    /// To resolve a name and connect.
    pub connect: Duration,
    /// To say what is wanted: a request's head, or the first bytes of TLS.
    pub header: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// Of one connection in all. `None` is unlimited.
    pub total: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 64,
            max_bytes: None,
            connect: Duration::from_secs(10),
            header: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            total: None,
        }
    }
}

/// Something that the gate puts into requests in place of what the session knows of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// What code inside has instead.
    pub placeholder: String,
    /// What the destination gets.
    pub value: String,
    /// To whom it goes, over TLS alone, which the gate ends for these hosts.
    pub hosts: Vec<HostPattern>,
    /// The only header in which it is replaced, in any case.
    pub header: String,
}

impl fmt::Debug for Secret {
    /// Without the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("placeholder", &self.placeholder)
            .field("hosts", &self.hosts)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl Drop for Secret {
    /// Overwrites the value, so that it is not in memory that is used again. The compiler may leave
    /// this out; it is no promise.
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.value).into_bytes();
        bytes.fill(0);
    }
}

/// What is wrong with rules. No variant carries a secret's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// The gate does not see methods where it does not end TLS.
    #[error(
        "`{0}` names methods, which the gate can not see within TLS: give a port other than 443, \
         or a secret for these hosts"
    )]
    MethodsUnseen(Allow),
    /// A placeholder that could be found by chance.
    #[error(
        "a placeholder must have {MIN_PLACEHOLDER_LEN} to 256 characters that are printable ASCII, and {0:?} has not"
    )]
    Placeholder(String),
    /// One placeholder is within another.
    #[error("the placeholder {0:?} is within that of another secret for the same header")]
    Ambiguous(String),
    /// The value can not be in a header.
    #[error(
        "the value of the secret with placeholder {0:?} is empty, over 8192 characters, or not printable ASCII"
    )]
    Value(String),
    /// The header is none that can be set.
    #[error("{0:?} is not a header that a secret can be in")]
    Header(String),
    /// A secret without a destination.
    #[error("the secret with placeholder {0:?} names no host")]
    NoHost(String),
    /// An address has no name that a certificate could be for.
    #[error("`{0}` is an address, and secrets go to names")]
    SecretToAddress(HostPattern),
    /// Too long a list.
    #[error("over {MAX_ENTRIES} entries")]
    TooMany,
    /// A limit of nothing.
    #[error("a limit of zero")]
    Zero,
}

/// What rules say about a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It may be reached, by the methods of one of these entries.
    Allowed(Vec<&'a Allow>),
    /// It may not.
    Refused(Reason),
    /// The supervisor is to be asked.
    Ask(Duration),
}

impl Rules {
    /// Everything that is wrong with these rules.
    #[must_use]
    pub fn errors(&self) -> Vec<RulesError> {
        let mut errors = Vec::new();
        if self.allow.len() > MAX_ENTRIES || self.secrets.len() > MAX_ENTRIES {
            return vec![RulesError::TooMany];
        }
        for entry in &self.allow {
            let is_seen = !entry.has_port(HTTPS_PORT) || self.ends_tls_for_all(&entry.hosts);
            if !entry.methods.is_empty() && !is_seen {
                errors.push(RulesError::MethodsUnseen(entry.clone()));
            }
        }
        for secret in &self.secrets {
            errors.extend(secret.errors());
            let is_within = self.secrets.iter().any(|other| {
                !std::ptr::eq(secret, other)
                    && other.header.eq_ignore_ascii_case(&secret.header)
                    && other.placeholder.contains(&secret.placeholder)
            });
            if is_within {
                errors.push(RulesError::Ambiguous(secret.placeholder.clone()));
            }
        }
        let limits = &self.limits;
        let times = [limits.connect, limits.header, limits.idle];
        if limits.max_connections == 0
            || limits.max_bytes == Some(0)
            || times.contains(&Duration::ZERO)
            || limits.total == Some(Duration::ZERO)
        {
            errors.push(RulesError::Zero);
        }
        errors
    }

    /// What the allow-list says about a destination.
    #[must_use]
    pub fn verdict(&self, host: &Host, port: u16) -> Verdict<'_> {
        let entries: Vec<_> = self.allow.iter().filter(|one| one.matches(host, port)).collect();
        if !entries.is_empty() {
            return Verdict::Allowed(entries);
        }
        match self.unlisted {
            Unlisted::Ask { wait } => Verdict::Ask(wait),
            Unlisted::Refuse if self.allow.iter().any(|one| one.hosts.matches(host)) => {
                Verdict::Refused(Reason::PortNotListed)
            }
            Unlisted::Refuse => Verdict::Refused(Reason::NotListed),
        }
    }

    /// Why an address is not connected to; `own` are the host's.
    #[must_use]
    pub fn refused_address(&self, address: IpAddr, own: &[IpAddr]) -> Option<AddressClass> {
        refused_address(&self.allow_addresses, address, own)
    }

    /// Whether the gate ends TLS for a host.
    #[must_use]
    pub fn ends_tls(&self, host: &Host) -> bool {
        self.secrets_for(host).next().is_some()
    }

    /// The secrets of which a host gets the values.
    pub fn secrets_for(&self, host: &Host) -> impl Iterator<Item = &Secret> {
        self.secrets.iter().filter(|secret| secret.hosts.iter().any(|one| one.matches(host)))
    }

    fn ends_tls_for_all(&self, hosts: &HostPattern) -> bool {
        self.secrets.iter().flat_map(|secret| &secret.hosts).any(|own| own.covers(hosts))
    }
}

/// Why an address is not connected to, where `allowed` are reached whatever their class.
#[must_use]
pub fn refused_address(
    allowed: &[Network],
    address: IpAddr,
    own: &[IpAddr],
) -> Option<AddressClass> {
    if allowed.iter().any(|network| network.contains(address)) {
        return None;
    }
    address::class(address).or_else(|| own.contains(&address).then_some(AddressClass::Host))
}

/// Headers that say where a message goes or ends, and belong to the gate.
const RESERVED_HEADERS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Secret {
    fn errors(&self) -> Vec<RulesError> {
        let mut errors = Vec::new();
        let is_printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let placeholder = || self.placeholder.clone();
        if !(MIN_PLACEHOLDER_LEN..=256).contains(&self.placeholder.len())
            || !is_printable(&self.placeholder)
        {
            errors.push(RulesError::Placeholder(placeholder()));
        }
        let is_value = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if self.value.is_empty()
            || self.value.len() > 8192
            || !self.value.bytes().all(is_value)
            || self.value.starts_with(' ')
            || self.value.ends_with(' ')
        {
            errors.push(RulesError::Value(placeholder()));
        }
        let header = self.header.to_ascii_lowercase();
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if header.is_empty()
            || header.len() > 128
            || !header.bytes().all(is_token)
            || RESERVED_HEADERS.contains(&header.as_str())
        {
            errors.push(RulesError::Header(self.header.clone()));
        }
        if self.hosts.is_empty() {
            errors.push(RulesError::NoHost(placeholder()));
        }
        for host in &self.hosts {
            if matches!(host, HostPattern::Exact(Host::Address(_))) {
                errors.push(RulesError::SecretToAddress(host.clone()));
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests;
