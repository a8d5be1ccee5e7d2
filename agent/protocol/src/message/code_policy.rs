//! Policies of the language: what one execution's code is held to, and what is noted of it, by Python itself.
//!
//! They help code that means well. Code that does not can take any of them off: the sandbox is the wall.

use serde::{Deserialize, Serialize};

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
