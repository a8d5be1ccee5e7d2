//! The tokens of tenants: whose they are, what they may do, and until when.

use jiff::Timestamp;
use vivarium_api_types::{Scopes, TokenHash};

use super::Settings;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantToken {
    pub hash: TokenHash,
    pub scopes: Scopes,
    /// It is refused from then on.
    pub expires: Option<Timestamp>,
    /// For people and logs.
    pub name: Option<String>,
}

impl TenantToken {
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl From<TokenHash> for TenantToken {
    /// One that may run code, for ever.
    fn from(hash: TokenHash) -> Self {
        Self { hash, scopes: Scopes::RUN, expires: None, name: None }
    }
}

impl Settings {
    /// The token of this hash and its tenant, also if it has expired.
    #[must_use]
    pub fn token(&self, hash: &TokenHash) -> Option<(&str, &TenantToken)> {
        self.tenants.iter().find_map(|(name, tenant)| {
            let token = tenant.tokens.iter().find(|token| token.hash == *hash)?;
            Some((name.as_str(), token))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::settings;
    use crate::settings::Tenant;

    #[test]
    fn a_token_is_its_tenants_and_nobody_elses() {
        let mut settings = settings();
        assert_eq!(settings.token(&TokenHash::of("a")), None);
        for (name, tokens) in [("one", ["a", "b"]), ("two", ["c", "d"])] {
            let tokens = tokens.map(|token| TokenHash::of(token).into()).to_vec();
            settings.tenants.insert(name.to_owned(), Tenant { tokens, ..Tenant::default() });
        }
        for (token, tenant) in [("a", "one"), ("b", "one"), ("d", "two")] {
            assert_eq!(settings.token(&TokenHash::of(token)).unwrap().0, tenant);
        }
        for other in ["", "e", "one"] {
            assert_eq!(settings.token(&TokenHash::of(other)), None);
        }
    }

    #[test]
    fn a_token_is_refused_from_the_moment_it_expires() {
        let now = Timestamp::now();
        let token = |expires| TenantToken { expires, ..TokenHash::of("a").into() };
        assert!(!token(None).has_expired(Timestamp::MAX));
        assert!(token(Some(now)).has_expired(now));
        assert!(!token(now.checked_add(jiff::SignedDuration::from_nanos(1)).ok()).has_expired(now));
    }
}
