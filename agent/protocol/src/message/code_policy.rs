//! Policies of the language: what one execution's code is held to, and what is noted of it, by Python itself.
//!
//! They help code that means well. Code that does not can take any of them off: the sandbox is the wall.

use serde::{Deserialize, Serialize};

use super::{Completion, Work};
use crate::outcome::Account;

/// What one execution's code is held to. By default nothing is, and nothing is noted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodePolicy {
    /// Most ticks of tenant code: backward jumps, starts of functions, and resumes of generators and
    /// coroutines. Python 3.12 or later.
    pub max_work: Option<u64>,
    /// What tenant code may import. Not what libraries import.
    pub imports: Option<ImportRule>,
    /// Whether audit events (PEP 578) are counted, and which are refused.
    pub audit_events: Option<AuditEvents>,
    /// Which expressions' values are shown.
    pub echo: Echo,
    /// Whether the values that tenant code prints are noted.
    pub prints: bool,
    /// Modules that can be imported while it runs.
    pub modules: Vec<HostModule>,
    /// What is left of the namespace after it.
    pub names: Option<NameRule>,
}

/// Names of modules, dotted or not. Each covers its submodules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportRule {
    /// These and no others.
    Allow(Vec<String>),
    /// All but these.
    Deny(Vec<String>),
}

/// Audit events are counted by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvents {
    /// Events that raise `PermissionError` in tenant code.
    pub deny: Vec<String>,
}

/// Which expressions' values are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Echo {
    /// The final expression's is the result.
    #[default]
    Last,
    /// The same, and those of expression statements before it are displays.
    All,
    /// None is.
    None,
}

/// A module that one execution can import. It cannot be assigned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostModule {
    /// Its name, an identifier.
    pub name: String,
    /// Its attributes: the text of a JSON object.
    pub content: String,
}

/// What is left of the namespace after an execution, whatever its end. Names that begin and end with two underscores
/// stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameRule {
    /// These. What it has not been given, it does not have.
    Keep(Vec<String>),
    /// All but these.
    Drop(Vec<String>),
}

/// What may be noted of an execution. More than that is not from our kernel, but from tenant code that speaks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noted {
    /// Work is counted, up to this.
    pub max_work: Option<u64>,
    /// Audit events are counted.
    pub audit_events: bool,
    /// What is printed is noted.
    pub prints: bool,
}

impl Noted {
    /// What its policy asks for; nothing of what is no code.
    #[must_use]
    pub fn of(work: &Work) -> Self {
        match work {
            Work::Code { policy, .. } => Self {
                max_work: policy.max_work,
                audit_events: policy.audit_events.is_some(),
                prints: policy.prints,
            },
            Work::Command(_) | Work::Assist { .. } | Work::Image(_) => Self::default(),
        }
    }

    /// Whether an account has no more than that.
    #[must_use]
    pub fn permits(&self, account: &Account) -> bool {
        let Account { work, audit_events, prints } = account;
        work.is_none_or(|work| self.max_work.is_some_and(|most| work <= most))
            && (self.audit_events || audit_events.is_none())
            && (self.prints || prints.is_empty())
    }

    /// Whether an execution may end so.
    #[must_use]
    pub fn permits_end(&self, completion: Completion) -> bool {
        completion != Completion::WorkLimit || self.max_work.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_only_what_was_asked_for() {
        let all = Noted { max_work: Some(7), audit_events: true, prints: true };
        let work = |work| Account { work: Some(work), ..Account::default() };
        let events = Account { audit_events: Some(vec![]), ..Account::default() };
        let prints = Account { prints: vec![vec![]], ..Account::default() };
        for account in [&work(7), &events, &prints] {
            assert!(all.permits(account), "{account:?}");
            assert!(!Noted::default().permits(account), "{account:?}");
        }
        assert!(!all.permits(&work(8)));
        assert!(Noted::default().permits(&Account::default()));
        assert!(all.permits_end(Completion::WorkLimit));
        assert!(!Noted::default().permits_end(Completion::WorkLimit));
        assert!(Noted::default().permits_end(Completion::Ok));
    }
}
