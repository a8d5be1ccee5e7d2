//! What the bytes of a file have to be.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256, Sha384, Sha512};

/// The algorithms that are verified, the one that is preferred first. A hash of another kind counts as none.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha512", 128), ("sha384", 96)];

/// The hash of a file, as an index gives it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hash {
    /// One of [`ALGORITHMS`].
    pub algorithm: &'static str,
    /// Its digits, in lower case.
    pub hex: String,
}

impl Hash {
    /// The hash with this name and these digits; `None` if it is not one that is verified.
    #[must_use]
    pub fn new(algorithm: &str, hex: &str) -> Option<Self> {
        let (algorithm, digits) = ALGORITHMS.into_iter().find(|(name, _)| *name == algorithm)?;
        let is_hex = hex.len() == digits && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| Self { algorithm, hex: hex.to_ascii_lowercase() })
    }

    /// The preferred one of what an index gives.
    #[must_use]
    pub fn of(hashes: &BTreeMap<String, String>) -> Option<Self> {
        ALGORITHMS.iter().find_map(|(name, _)| Self::new(name, hashes.get(*name)?))
    }

    /// The SHA-256 of these bytes.
    #[must_use]
    pub fn sha256(bytes: &[u8]) -> Self {
        Self { algorithm: "sha256", hex: hex(&Sha256::digest(bytes)) }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.algorithm, self.hex)
    }
}

/// Computes a hash of an algorithm as bytes come.
#[derive(Debug, Clone)]
pub enum Hasher {
    /// SHA-256
    Sha256(Sha256),
    /// SHA-384
    Sha384(Sha384),
    /// SHA-512
    Sha512(Sha512),
}

impl Hasher {
    /// One for what `hash` is to be compared with.
    #[must_use]
    pub fn like(hash: Option<&Hash>) -> Self {
        match hash.map(|hash| hash.algorithm) {
            Some("sha384") => Self::Sha384(Sha384::new()),
            Some("sha512") => Self::Sha512(Sha512::new()),
            _ => Self::Sha256(Sha256::new()),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha384(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The hash of all of them.
    #[must_use]
    pub fn finish(self) -> Hash {
        match self {
            Self::Sha256(hasher) => Hash { algorithm: "sha256", hex: hex(&hasher.finalize()) },
            Self::Sha384(hasher) => Hash { algorithm: "sha384", hex: hex(&hasher.finalize()) },
            Self::Sha512(hasher) => Hash { algorithm: "sha512", hex: hex(&hasher.finalize()) },
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_and_malformed_hashes_are_none() {
        let digits = "A".repeat(64);
        assert_eq!(Hash::new("sha256", &digits).unwrap().hex, "a".repeat(64));
        assert_eq!(Hash::new("md5", &"a".repeat(32)), None);
        assert_eq!(Hash::new("sha256", "aa"), None);
        assert_eq!(Hash::new("sha256", &"g".repeat(64)), None);
        assert_eq!(Hash::new("sha512", &digits), None);
    }

    #[test]
    fn each_algorithm_hashes() {
        for (name, start) in
            [("sha256", "ba7816bf"), ("sha384", "cb00753f"), ("sha512", "ddaf35a1")]
        {
            let digits = ALGORITHMS.iter().find(|(known, _)| *known == name).unwrap().1;
            let like = Hash::new(name, &"0".repeat(digits)).unwrap();
            let mut hasher = Hasher::like(Some(&like));
            hasher.update(b"a");
            hasher.update(b"bc");
            let hash = hasher.finish();
            assert!(
                hash.hex.starts_with(start) && Hash::new(name, &hash.hex) == Some(hash),
                "{name}"
            );
        }
    }
}
