//! What opens a preview: for which port of which session it is, and until when, signed.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

/// Bytes of the keyed hash that is in a host's name.
const LABEL_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) tenant: String,
    pub(super) session: String,
    /// A later session may have the same id.
    pub(super) made_at: Timestamp,
    pub(super) port: u16,
    pub(super) expires_at: Timestamp,
}

/// Signs with HMAC-SHA256 (RFC 2104).
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

impl Key {
    /// A random key, of a whole block.
    pub(super) fn new() -> Self {
        let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
        for part in key.chunks_mut(size_of::<Uuid>()) {
            part.copy_from_slice(Uuid::new_v4().as_bytes());
        }
        Self(Hmac::new(&key))
    }

    /// What the host of this preview is called: the same for all tokens of a port of a session.
    pub(super) fn label(&self, token: &Token) -> String {
        let Token { tenant, session, made_at, port, .. } = token;
        let text = serde_json::to_vec(&("label", tenant, session, made_at, port));
        let hash = self.hash(&text.unwrap_or_default()).finalize().into_bytes();
        let hash: String =
            hash.iter().take(LABEL_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("{port}-{hash}")
    }

    pub(super) fn sign(&self, token: &Token) -> String {
        let text = serde_json::to_vec(&("token", token)).unwrap_or_default();
        let hash = self.hash(&text).finalize().into_bytes();
        format!("{}.{}", BASE64.encode(text), BASE64.encode(hash))
    }

    /// The token, if it is one that was signed with this key. It may have expired.
    pub(super) fn verify(&self, signed: &str) -> Option<Token> {
        let (text, hash) = signed.split_once('.')?;
        let (text, hash) = (BASE64.decode(text).ok()?, BASE64.decode(hash).ok()?);
        self.hash(&text).verify_slice(&hash).ok()?;
        let (kind, token): (String, Token) = serde_json::from_slice(&text).ok()?;
        (kind == "token").then_some(token)
    }

    fn hash(&self, text: &[u8]) -> Hmac<Sha256> {
        let mut hash = self.0.clone();
        hash.update(text);
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token {
            tenant: "t".to_owned(),
            session: "s".to_owned(),
            made_at: Timestamp::UNIX_EPOCH,
            port: 8000,
            expires_at: Timestamp::MAX,
        }
    }

    #[test]
    fn only_what_this_key_has_signed_is_a_token() {
        let (key, other) = (Key::new(), Key::new());
        let signed = key.sign(&token());
        assert_eq!(key.verify(&signed), Some(token()));
        assert_eq!(other.verify(&signed), None);
        let (text, hash) = signed.split_once('.').unwrap();
        let mut bytes = BASE64.decode(text).unwrap();
        bytes[10] ^= 1;
        for wrong in [
            format!("{}.{hash}", BASE64.encode(&bytes)),
            format!("{text}."),
            format!("{text}.{}", &hash[..hash.len() - 4]),
            text.to_owned(),
            String::new(),
            ".".to_owned(),
        ] {
            assert_eq!(key.verify(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_port_of_each_session_has_a_label_of_its_own() {
        let key = Key::new();
        let mut labels = vec![Key::new().label(&token()), key.label(&token())];
        let others = [
            Token { tenant: "u".to_owned(), ..token() },
            Token { session: "S".to_owned(), ..token() },
            Token { made_at: Timestamp::MAX, ..token() },
            Token { port: 80, ..token() },
        ];
        labels.extend(others.iter().map(|token| key.label(token)));
        for label in &labels {
            assert!(
                label.len() <= 63
                    && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            );
            assert_eq!(labels.iter().filter(|other| *other == label).count(), 1, "{labels:?}");
        }
        let later = Token { expires_at: Timestamp::UNIX_EPOCH, ..token() };
        assert_eq!(key.label(&later), key.label(&token()));
    }
}
