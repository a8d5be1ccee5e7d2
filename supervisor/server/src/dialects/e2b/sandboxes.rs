//! Sandboxes as long as the daemon runs: who may use each, and what the API does not keep of it.
//!
//! A client shows its tenant's token to the API, and gets two tokens for the sandbox: one for
//! everything in it, one for its ports alone. They stand for the token that was shown, and are good for
//! what that is good for, as long as it is valid. The first is kept as it is, since URLs are signed with
//! it; it is compared by its hash, in constant time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use vivarium_api_types::{Token, TokenHash};

use super::envd::processes::Processes;
use super::envd::watchers::Watchers;
use super::interpreter::contexts::Contexts;
use super::session::Sample;

/// Sandboxes of one tenant that are kept, and tenant's tokens of one sandbox. The one that was used least
/// recently is forgotten; its client connects again.
const MAX_PER_TENANT: usize = 1024;
const MAX_GRANTS: usize = 16;

/// Tokens that a signature or token is tried with which does not say of which sandbox it is; where there are
/// more, it has to. And the longest path and user of one. Anybody can ask for this work.
const MAX_TRIED: usize = 256;
const MAX_SIGNED_BYTES: usize = 4096;

/// What is kept of a sandbox.
#[derive(Debug)]
pub struct Sandbox {
    pub tenant: String,
    pub id: String,
    /// The longest that code may run, in milliseconds.
    pub(super) max_exec_ms: Option<u64>,
    pub(super) contexts: Contexts,
    pub(super) processes: Processes,
    pub(super) watchers: Watchers,
    pub(super) sample: Mutex<Option<Sample>>,
}

/// The tokens of a sandbox.
#[derive(Clone)]
pub struct Tokens {
    pub envd: String,
    pub traffic: String,
}

/// For what a token is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Files and processes.
    Envd,
    /// Code, and servers of the sandbox's own.
    Traffic,
}

/// A sandbox that a token or signature opens.
#[derive(Debug, Clone)]
pub struct Opened {
    pub sandbox: Arc<Sandbox>,
    /// The hash of the tenant's token that was shown; none where there are no tenants.
    pub key: Option<TokenHash>,
}

/// A signed URL.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    pub path: &'a str,
    /// `read` or `write`.
    pub operation: &'static str,
    pub user: &'a str,
    pub signature: &'a str,
    /// In seconds since 1970.
    pub expiration: Option<i64>,
}

struct Grant {
    key: Option<TokenHash>,
    envd: String,
    used: u64,
}

struct Kept {
    sandbox: Arc<Sandbox>,
    grants: Vec<Grant>,
    used: u64,
}

#[derive(Default)]
struct All {
    uses: u64,
    /// By session and tenant.
    kept: BTreeMap<(String, String), Kept>,
}

/// The sandboxes of all tenants. Clones are the same.
#[derive(Clone, Default)]
pub struct Sandboxes(Arc<Mutex<All>>);

impl Sandboxes {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tokens of a sandbox for a client that has shown this tenant's token; `None` if the system
    /// has no random bytes.
    pub(super) fn grant(
        &self,
        tenant: &str,
        id: &str,
        key: Option<TokenHash>,
        max_exec_ms: Option<u64>,
    ) -> Option<Tokens> {
        let mut all = self.lock();
        all.uses += 1;
        let used = all.uses;
        let at = (id.to_owned(), tenant.to_owned());
        if !all.kept.contains_key(&at) {
            all.make_room(tenant);
        }
        let kept = all.kept.entry(at).or_insert_with(|| Kept {
            sandbox: Arc::new(Sandbox::new(tenant, id, max_exec_ms)),
            grants: Vec::new(),
            used,
        });
        kept.used = used;
        if let Some(grant) = kept.grants.iter_mut().find(|grant| grant.key == key) {
            grant.used = used;
            return Some(Tokens::of(&grant.envd));
        }
        if kept.grants.len() >= MAX_GRANTS
            && let Some(oldest) =
                (0..kept.grants.len()).min_by_key(|at| kept.grants.get(*at).map(|of| of.used))
        {
            drop(kept.grants.swap_remove(oldest));
        }
        let envd = Token::fresh().ok()?.expose().to_owned();
        let tokens = Tokens::of(&envd);
        kept.grants.push(Grant { key, envd, used });
        Some(tokens)
    }

    /// A sandbox of a tenant, if it is kept.
    pub(super) fn find(&self, tenant: &str, id: &str) -> Option<Arc<Sandbox>> {
        let at = (id.to_owned(), tenant.to_owned());
        self.lock().kept.get(&at).map(|kept| Arc::clone(&kept.sandbox))
    }

    /// Forgets a sandbox that is over.
    pub(super) fn forget(&self, tenant: &str, id: &str) {
        drop(self.lock().kept.remove(&(id.to_owned(), tenant.to_owned())));
    }

    /// Whether a sandbox of this id is kept, whoever's it is.
    #[must_use]
    pub fn knows(&self, id: &str) -> bool {
        self.lock().of_id(id).next().is_some()
    }

    /// The sandbox that this token opens for this.
    #[must_use]
    pub fn open(&self, id: &str, token: &str, purpose: Purpose) -> Option<Opened> {
        let shown = hash(token);
        let is_it = |grant: &Grant| {
            let is_envd = is_same(&shown, &hash(&grant.envd));
            let is_traffic = is_same(&shown, &hash(&Tokens::of(&grant.envd).traffic));
            is_envd | (is_traffic & (purpose == Purpose::Traffic))
        };
        self.lock().find(id, is_it)
    }

    /// The sandbox that this token opens, where it is not said which.
    #[must_use]
    pub fn open_unnamed(&self, token: &str) -> Option<Opened> {
        let tried = self.lock().tried(None);
        let shown = hash(token);
        let mut tried = tried.into_iter();
        tried.find(|(_, token)| is_same(&shown, &hash(token))).map(|(opened, _)| opened)
    }

    /// The sandbox whose token has signed this; of all, where it is not said which.
    #[must_use]
    pub fn open_signed(&self, id: Option<&str>, signed: &Signed<'_>) -> Option<Opened> {
        if signed.path.len() + signed.user.len() > MAX_SIGNED_BYTES {
            return None;
        }
        let tried = self.lock().tried(id);
        let shown = hash(signed.signature);
        let mut tried = tried.into_iter();
        tried
            .find(|(_, token)| is_same(&shown, &hash(&signature(signed, token))))
            .map(|(opened, _)| opened)
    }
}

impl All {
    fn of_id<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Kept> {
        let from = (id.to_owned(), String::new());
        self.kept.range(from..).take_while(move |((of, _), _)| of == id).map(|(_, kept)| kept)
    }

    fn find(&mut self, id: &str, is_it: impl Fn(&Grant) -> bool) -> Option<Opened> {
        self.uses += 1;
        let used = self.uses;
        let mut kept = self.kept.iter_mut();
        kept.find_map(|((of, _), kept)| {
            if of != id {
                return None;
            }
            let grant = kept.grants.iter_mut().find(|grant| is_it(grant))?;
            (kept.used, grant.used) = (used, used);
            Some(Opened { sandbox: Arc::clone(&kept.sandbox), key: grant.key })
        })
    }

    /// What a signature is tried with.
    fn tried(&self, id: Option<&str>) -> Vec<(Opened, String)> {
        let kept = self.kept.iter().filter(|((of, _), _)| id.is_none_or(|id| id == of));
        let all = kept.flat_map(|(_, kept)| kept.grants.iter().map(move |grant| (kept, grant)));
        let tried: Vec<_> = all.take(MAX_TRIED + 1).collect();
        if tried.len() > MAX_TRIED {
            return Vec::new();
        }
        let opened = |kept: &Kept, key| Opened { sandbox: Arc::clone(&kept.sandbox), key };
        tried
            .into_iter()
            .map(|(kept, grant)| (opened(kept, grant.key), grant.envd.clone()))
            .collect()
    }

    fn make_room(&mut self, tenant: &str) {
        let of_tenant = || self.kept.iter().filter(|((_, of), _)| of == tenant);
        if of_tenant().count() < MAX_PER_TENANT {
            return;
        }
        let oldest = of_tenant().min_by_key(|(_, kept)| kept.used).map(|(at, _)| at.clone());
        if let Some(at) = oldest {
            drop(self.kept.remove(&at));
        }
    }
}

impl Sandbox {
    fn new(tenant: &str, id: &str, max_exec_ms: Option<u64>) -> Self {
        Self {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            max_exec_ms,
            contexts: Contexts::default(),
            processes: Processes::default(),
            watchers: Watchers::default(),
            sample: Mutex::default(),
        }
    }
}

impl Tokens {
    fn of(envd: &str) -> Self {
        let traffic = STANDARD_NO_PAD.encode(hash(&format!("traffic:{envd}")));
        Self { envd: envd.to_owned(), traffic }
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Whether two hashes are the same, in a time that does not tell where they differ.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

fn signature(signed: &Signed<'_>, token: &str) -> String {
    let Signed { path, operation, user, expiration, .. } = signed;
    let mut text = format!("{path}:{operation}:{user}:{token}");
    if let Some(expiration) = expiration {
        text = format!("{text}:{expiration}");
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(hash(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<TokenHash> {
        Some(TokenHash::of(text))
    }

    #[test]
    fn tokens_open_their_own_sandbox_for_their_own_purpose() {
        let all = Sandboxes::default();
        let one = all.grant("a", "i1", key("x"), None).unwrap();
        let other = all.grant("b", "i2", key("y"), None).unwrap();
        let opens = |id: &str, token: &str, purpose| {
            all.open(id, token, purpose).map(|opened| opened.sandbox.tenant.clone())
        };
        let of_a = Some("a".to_owned());
        assert_eq!(opens("i1", &one.envd, Purpose::Envd), of_a);
        assert_eq!(opens("i1", &one.envd, Purpose::Traffic), of_a);
        assert_eq!(opens("i1", &one.traffic, Purpose::Traffic), of_a);
        assert_eq!(opens("i1", &one.traffic, Purpose::Envd), None);
        assert_eq!(opens("i2", &one.envd, Purpose::Envd), None);
        assert_eq!(opens("i1", &other.envd, Purpose::Envd), None);
        assert_eq!(opens("i1", "", Purpose::Envd), None);
        let unnamed = |token: &str| all.open_unnamed(token).map(|opened| opened.sandbox.id.clone());
        assert_eq!(unnamed(&one.envd).as_deref(), Some("i1"));
        assert_eq!((unnamed(&one.traffic), unnamed(""), unnamed("x")), (None, None, None));
        all.forget("a", "i1");
        assert_eq!(opens("i1", &one.envd, Purpose::Envd), None);
        assert!(!all.knows("i1") && all.knows("i2"));
    }

    /// One that may only read must not get the token of one that may run code.
    #[test]
    fn every_tenants_token_has_tokens_of_its_own() {
        let all = Sandboxes::default();
        let one = all.grant("a", "i1", key("run"), None).unwrap();
        let again = all.grant("a", "i1", key("run"), None).unwrap();
        let other = all.grant("a", "i1", key("read"), None).unwrap();
        assert_eq!(one.envd, again.envd);
        assert_ne!(one.envd, other.envd);
        let opened = all.open("i1", &other.envd, Purpose::Envd).unwrap();
        assert_eq!(opened.key, key("read"));
    }

    #[test]
    fn signatures_are_those_of_the_sdk_and_of_one_file_only() {
        let all = Sandboxes::default();
        let tokens = all.grant("a", "i1", None, None).unwrap();
        let made = |path: &str, operation: &str, end: &str| {
            let text = format!("{path}:{operation}::{}{end}", tokens.envd);
            format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
        };
        let signature = made("a.txt", "read", ":5");
        let signed = Signed {
            path: "a.txt",
            operation: "read",
            user: "",
            signature: &signature,
            expiration: Some(5),
        };
        let opens = |id, signed: Signed<'_>| all.open_signed(id, &signed).is_some();
        assert!(opens(Some("i1"), signed) && opens(None, signed));
        assert!(!opens(Some("i2"), signed));
        assert!(!opens(None, Signed { path: "b.txt", ..signed }));
        assert!(!opens(None, Signed { operation: "write", ..signed }));
        assert!(!opens(None, Signed { expiration: Some(6), ..signed }));
        assert!(!opens(None, Signed { expiration: None, ..signed }));
        assert!(!opens(None, Signed { user: "user", ..signed }));
    }

    /// Work that anybody can ask for has a bound.
    #[test]
    fn signatures_name_their_sandbox_where_there_are_many() {
        let all = Sandboxes::default();
        let tokens = all.grant("a", "first", None, None).unwrap();
        let text = format!("f:read::{}", tokens.envd);
        let signature = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
        let signed = Signed {
            path: "f",
            operation: "read",
            user: "",
            signature: &signature,
            expiration: None,
        };
        for number in 1..MAX_TRIED {
            all.grant("a", &format!("i{number}"), None, None).unwrap();
        }
        assert!(all.open_signed(None, &signed).is_some());
        all.grant("b", "one more", None, None).unwrap();
        assert!(all.open_signed(None, &signed).is_none());
        assert!(all.open_signed(Some("first"), &signed).is_some());
        let long = "f".repeat(MAX_SIGNED_BYTES + 1);
        assert!(all.open_signed(Some("first"), &Signed { path: &long, ..signed }).is_none());
    }

    #[test]
    fn the_least_used_is_forgotten() {
        let all = Sandboxes::default();
        let first = all.grant("a", "first", None, None).unwrap();
        for number in 0..MAX_PER_TENANT {
            assert!(all.open("first", &first.envd, Purpose::Envd).is_some(), "{number}");
            all.grant("a", &format!("i{number}"), None, None).unwrap();
        }
        assert!(all.knows("first") && !all.knows("i0"));
    }
}
