//! Bearer tokens (RFC 6750), and their hashes in the configuration.
//!
//! A token is never stored, logged or compared; its SHA-256 is. An ordinary comparison will do: its
//! timing reveals at most how long a prefix the client's hash shares with a stored one. Clients
//! cannot choose their hash, and stored hashes are no secret, since a token has 256 random bits.
//! For the same reason a slow hash, as for passwords, would add nothing.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Begins every token, so that people and secret scanners know one when they see it.
const PREFIX: &str = "viv_";

/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes: {0}")]
pub struct TokenError(getrandom::Error);

/// A token. Only [`Token::expose`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new token of 256 random bits (getrandom(2)).
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn fresh() -> Result<Self, TokenError> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(TokenError)?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The SHA-256 of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Parses 64 hexadecimal digits, as `sha256sum` prints them.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()))
            .collect::<Option<_>>()?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        bytes.try_into().ok().filter(|_| rest.is_empty()).map(Self)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn hashes_are_those_of_sha256sum() {
        assert_eq!(TokenHash::of("abc").to_string(), ABC);
        assert_eq!(TokenHash::from_hex(ABC), Some(TokenHash::of("abc")));
        assert_eq!(TokenHash::from_hex(&ABC.to_uppercase()), Some(TokenHash::of("abc")));
        for bad in
            ["", "ab", &ABC[1..], &ABC.replace('b', "g"), &format!("{ABC}0"), &"é".repeat(32)]
        {
            assert_eq!(TokenHash::from_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn tokens_are_random_and_not_shown_by_accident() {
        let (one, two) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.expose().len(), PREFIX.len() + 43);
        // RFC 6750, 2.1: b64token.
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert!(one.expose().chars().all(fits), "{}", one.expose());
        assert_eq!(format!("{one:?}"), "Token(…)");
        assert_eq!(one.hash(), TokenHash::of(one.expose()));
    }
}
