//! Policies of the language: what code is held to beside the sandbox. They help code that means
//! well, and are no wall.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};
use utoipa::ToSchema;

/// The most names of one list.
pub const MAX_POLICY_NAMES: usize = 256;

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A bundle of policies by one name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Preset {
    /// Modules of the standard library that compute.
    Compute,
    /// Those, and modules for files and formats.
    Files,
    /// Those, and modules for networks.
    Network,
    /// Nothing is held to anything.
    Full,
}

/// Which modules code may import itself: one of the lists. A name covers its submodules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportsSpec {
    /// These alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub allow: Option<Vec<String>>,
    /// All but these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub deny: Option<Vec<String>>,
}

/// Which audit events of Python (PEP 578) code may raise. All are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditEventsSpec {
    /// Events that raise an error in the code, by their whole names, such as `socket.connect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub deny: Vec<String>,
}

/// Which of the code's expressions are shown as values.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantNames,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Echo {
    /// The last statement's, if it is an expression.
    #[default]
    Last,
    /// Those of all statements that are expressions: the ones before the last as displays.
    All,
    None,
}

/// What is left of the namespace after an execution: one of the lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamesSpec {
    /// Of the names that it has bound, these alone; none of them if the list is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub keep: Option<Vec<String>>,
    /// All but these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub drop: Option<Vec<String>>,
}

/// What one part of the configuration, or one request, says of policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodePolicySpec {
    /// What holds that the others do not say.
    pub policy: Option<Preset>,
    /// In ticks.
    pub max_work: Option<u64>,
    pub imports: Option<ImportsSpec>,
    pub audit_events: Option<AuditEventsSpec>,
    pub echo: Option<Echo>,
    pub prints: Option<bool>,
}

macro_rules! code_policy {
    ($($request:ty),*) => {$(
        impl $request {
            /// What it says of policies, which is not in it any more then.
            pub fn take_code_policy(&mut self) -> CodePolicySpec {
                CodePolicySpec {
                    policy: self.policy.take(),
                    max_work: self.max_work.take(),
                    imports: self.imports.take(),
                    audit_events: self.audit_events.take(),
                    echo: self.echo.take(),
                    prints: self.prints.take(),
                }
            }
        }
    )*};
}

code_policy!(super::ExecuteRequest, super::RunRequest, super::SessionSpec);

impl CodePolicySpec {
    /// Refuses what no policy can be.
    ///
    /// # Errors
    /// The field, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if self.max_work == Some(0) {
            return Err(("max_work", "0 is no work at all".to_owned()));
        }
        if let Some(imports) = &self.imports {
            imports.check().map_err(|why| ("imports", why))?;
        }
        if let Some(events) = &self.audit_events {
            events.check().map_err(|why| ("audit_events", why))?;
        }
        Ok(())
    }
}

impl ImportsSpec {
    /// Refuses two lists, none, and what is no module's name.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self) -> Result<(), String> {
        let names = one_of([("allow", &self.allow), ("deny", &self.deny)])?;
        bounded(names, is_module_name, "a module's name")
    }
}

impl AuditEventsSpec {
    /// Refuses what is no event's name.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self) -> Result<(), String> {
        let fits = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
        };
        bounded(&self.deny, fits, "an audit event's name")
    }
}

impl NamesSpec {
    /// Refuses two lists, none, and what is no variable's name.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self) -> Result<(), String> {
        let names = one_of([("keep", &self.keep), ("drop", &self.drop)])?;
        bounded(names, is_identifier, "a variable's name")
    }
}

/// Whether this can be the name of a module, with those of its packages.
#[must_use]
pub fn is_module_name(name: &str) -> bool {
    name.split('.').all(is_identifier)
}

/// Near enough: what Python takes as one and this does not has no letters or digits.
fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c == '_' || c.is_alphanumeric())
        && !name.starts_with(char::is_numeric)
}

fn one_of<'a>(lists: [(&str, &'a Option<Vec<String>>); 2]) -> Result<&'a [String], String> {
    match lists {
        [(_, Some(names)), (_, None)] | [(_, None), (_, Some(names))] => Ok(names),
        [(one, _), (other, _)] => Err(format!("give one of {one} and {other}")),
    }
}

fn bounded(names: &[String], fits: impl Fn(&str) -> bool, what: &str) -> Result<(), String> {
    if names.len() > MAX_POLICY_NAMES {
        return Err(format!("{} names are over the maximum of {MAX_POLICY_NAMES}", names.len()));
    }
    match names.iter().find(|name| name.len() > MAX_NAME_BYTES || !fits(name)) {
        Some(bad) => {
            let shown: String = bad.chars().take(64).collect();
            Err(format!("{shown:?} is not {what}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(json: &str) -> Result<(), String> {
        serde_json::from_str::<ImportsSpec>(json).unwrap().check()
    }

    #[test]
    fn one_list_of_names_is_wanted() {
        assert_eq!(imports(r#"{"allow": []}"#), Ok(()));
        assert_eq!(imports(r#"{"deny": ["os", "urllib.request", "größe"]}"#), Ok(()));
        for both in ["{}", r#"{"allow": ["os"], "deny": ["sys"]}"#] {
            assert_eq!(imports(both).unwrap_err(), "give one of allow and deny");
        }
        for bad in ["", "a..b", ".a", "a.", "a b", "1a", "a-b", "*"] {
            let refused = imports(&format!(r#"{{"allow": [{bad:?}]}}"#)).unwrap_err();
            assert_eq!(refused, format!("{bad:?} is not a module's name"));
        }
        let names: Vec<_> = (0..257).map(|n| format!("m{n}")).collect();
        let most = ImportsSpec { allow: Some(names[1..].to_vec()), deny: None };
        assert_eq!(most.check(), Ok(()));
        let refused = ImportsSpec { allow: Some(names), deny: None }.check().unwrap_err();
        assert_eq!(refused, "257 names are over the maximum of 256");
    }

    #[test]
    fn events_and_variables_have_names_too() {
        let events = |name: &str| AuditEventsSpec { deny: vec![name.to_owned()] }.check();
        assert_eq!(events("socket.connect"), Ok(()));
        assert_eq!(events("socket.*").unwrap_err(), "\"socket.*\" is not an audit event's name");
        let keep = |name: &str| NamesSpec { keep: Some(vec![name.to_owned()]), drop: None }.check();
        assert_eq!(keep("x"), Ok(()));
        assert_eq!(keep("x.y").unwrap_err(), "\"x.y\" is not a variable's name");
        assert!(NamesSpec::default().check().is_err());
        let none = CodePolicySpec { max_work: Some(0), ..CodePolicySpec::default() };
        assert_eq!(none.check().unwrap_err().0, "max_work");
    }
}
