//! What a token may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One of the things that a token may be for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See sessions, results and files of the tenant.
    Read,
    /// Make, use and end sessions of the tenant. Includes `read`.
    Run,
    /// Administer the daemon. Includes nothing of a tenant's.
    Admin,
    /// Allow or deny calls of the tenant that wait for approval. Includes `read`.
    Approve,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of \"read\", \"run\", \"admin\", \"approve\"")]
pub struct UnknownScope(String);

impl Scope {
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Admin, Self::Approve];

    /// As configured.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
            Self::Approve => "approve",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

/// The scopes of a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// What a token may do of which nothing is said: `run`, which includes `read`.
    pub const RUN: Self = Self(1 << Scope::Run as u8);

    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | 1 << scope as u8)
    }

    /// Whether a token of these scopes may do what takes this one.
    #[must_use]
    pub const fn allow(self, scope: Scope) -> bool {
        let has = self.has(scope);
        match scope {
            Scope::Read => has || self.has(Scope::Run) || self.has(Scope::Approve),
            Scope::Run | Scope::Admin | Scope::Approve => has,
        }
    }

    const fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that were given, without what they include.
    #[must_use]
    pub fn listed(self) -> Vec<Scope> {
        Scope::ALL.into_iter().filter(|scope| self.has(*scope)).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::default(), Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_and_approve_include_read_alone_and_admin_includes_nothing() {
        for (given, allowed) in [
            (vec![Scope::Read], vec![Scope::Read]),
            (vec![Scope::Run], vec![Scope::Read, Scope::Run]),
            (vec![Scope::Admin], vec![Scope::Admin]),
            (vec![Scope::Approve], vec![Scope::Read, Scope::Approve]),
            (vec![Scope::Admin, Scope::Run], vec![Scope::Read, Scope::Run, Scope::Admin]),
            (vec![], vec![]),
        ] {
            let scopes: Scopes = given.iter().copied().collect();
            let found: Vec<_> =
                Scope::ALL.into_iter().filter(|scope| scopes.allow(*scope)).collect();
            assert_eq!(found, allowed, "{given:?}");
        }
        assert_eq!([Scope::Run].into_iter().collect::<Scopes>(), Scopes::RUN);
        assert!("Admin".parse::<Scope>().is_err());
    }
}
