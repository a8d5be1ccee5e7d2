//! The chain of hashes.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A SHA-256 hash, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

/// The hash before the first line of a chain.
pub const GENESIS: Hash = Hash([0; 32]);

/// Bytes of a hash as text.
pub(crate) const HEX_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 hexadecimal digits in lower case")]
pub struct HashError;

impl Hash {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of several parts, each followed by a zero byte.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Self(hash.finalize().into())
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn from_hex(text: &[u8]) -> Result<Self, HashError> {
        if text.len() != HEX_BYTES {
            return Err(HashError);
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
            let &[high, low] = pair else { return Err(HashError) };
            *byte = digit(high)? << 4 | digit(low)?;
        }
        Ok(Self(hash))
    }
}

/// Exactly one text for each hash: upper case is none.
const fn digit(byte: u8) -> Result<u8, HashError> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(HashError),
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        Self::from_hex(text.as_bytes())
    }
}

/// The last line of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Its number; 0 before the first line.
    pub seq: u64,
    pub hash: Hash,
}

impl Head {
    pub const NONE: Self = Self { seq: 0, hash: GENESIS };
}
