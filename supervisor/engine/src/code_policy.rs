//! Policies of the language: those of the configuration, a session and an execution, put together.
//! Each may only tighten what stands above it.

use std::collections::{BTreeMap, BTreeSet};

use vivarium_api_types::{CodePolicySpec, Echo, ExecuteRequest, ImportsSpec, JsonText, NamesSpec};
use vivarium_protocol::message::{self, AuditEvents, CodePolicy, HostModule, ImportRule, NameRule};

use crate::settings::Settings;

mod presets;

/// The most modules of a request, and the most they may take together, in bytes.
const MAX_MODULES: usize = 64;
const MAX_MODULES_BYTES: usize = 1 << 20;

/// What a name in a list takes besides its text, in bytes.
const NAME_BYTES: usize = 32;

/// How deep the JSON of a module may be nested.
const MAX_MODULE_DEPTH: usize = 64;

/// Modules that code needs to be what it is.
const TAKEN: [&str; 4] = ["__main__", "builtins", "sys", "vivarium"];

/// The first Python with `sys.monitoring`, which counts work.
const COUNTS_WORK: (u64, u64) = (3, 12);

/// What is wrong, by the field of a request or the key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) field: String,
    pub(crate) reason: String,
}

impl Refused {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl From<(&'static str, String)> for Refused {
    fn from((field, reason): (&'static str, String)) -> Self {
        Self::new(field, reason)
    }
}

/// What a request says of one execution alone.
#[derive(Debug, Default)]
pub(crate) struct AskedPolicy {
    pub(crate) spec: CodePolicySpec,
    modules: Vec<HostModule>,
    names: Option<NameRule>,
}

impl AskedPolicy {
    /// Takes it out of a request, and checks as much as can be without a session.
    pub(crate) fn of(request: &mut ExecuteRequest) -> Result<Self, Refused> {
        let spec = request.take_code_policy();
        spec.check()?;
        let modules = modules(std::mem::take(&mut request.modules))?;
        let names = request.names.take().map(names).transpose()?;
        Ok(Self { spec, modules, names })
    }

    /// What it takes in memory, besides itself.
    pub(crate) fn bytes(&self) -> usize {
        let CodePolicySpec { imports, audit_events, .. } = &self.spec;
        let imports = imports.iter().flat_map(|it| it.allow.iter().chain(&it.deny));
        let events = audit_events.iter().map(|it| &it.deny);
        let names = imports.chain(events).chain(self.names.as_ref().map(named));
        names.map(|names| list_bytes(names)).sum::<usize>() + modules_bytes(&self.modules)
    }
}

/// The same of what an execution is held to.
pub(crate) fn bytes(policy: &CodePolicy) -> usize {
    let CodePolicy { imports, audit_events, modules, names, .. } = policy;
    let imports = imports.iter().map(|it| match it {
        ImportRule::Allow(names) | ImportRule::Deny(names) => names,
    });
    let events = audit_events.iter().map(|it| &it.deny);
    let names = imports.chain(events).chain(names.as_ref().map(named));
    names.map(|names| list_bytes(names)).sum::<usize>() + modules_bytes(modules)
}

fn list_bytes(names: &[String]) -> usize {
    names.iter().map(|name| name.len() + NAME_BYTES).sum()
}

fn modules_bytes(modules: &[HostModule]) -> usize {
    let bytes = |module: &HostModule| module.name.len() + module.content.len() + 2 * NAME_BYTES;
    modules.iter().map(bytes).sum()
}

const fn named(rule: &NameRule) -> &Vec<String> {
    match rule {
        NameRule::Keep(names) | NameRule::Drop(names) => names,
    }
}

/// What the code of a session is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldTo {
    pub(crate) rules: Rules,
    /// What its configuration alone says.
    pub(crate) configured: Rules,
    /// Whose interpreter it has.
    pub(crate) environment: String,
    /// The interpreter's version, such as `3.12.1`.
    pub(crate) python: String,
}

impl HeldTo {
    /// Refuses what its Python can not hold code to.
    pub(crate) fn check(&self, rules: &Rules) -> Result<(), Refused> {
        rules.check_python(&self.environment, &self.python)
    }
}

/// What holds, as far as it has been put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) max_work: Option<u64>,
    /// Of modules; all if there is none.
    pub(crate) allow: Option<BTreeSet<String>>,
    pub(crate) deny: BTreeSet<String>,
    /// Of audit events; they are not even counted if there is none.
    pub(crate) events: Option<BTreeSet<String>>,
    pub(crate) echo: Echo,
    pub(crate) prints: bool,
}

/// What holds for every session of an environment.
pub(crate) fn configured(settings: &Settings, environment: &str) -> Result<Rules, Refused> {
    let rules = Rules::default().and(&settings.sandbox.code_policy)?;
    match settings.environments.get(environment) {
        None => Ok(rules),
        Some(environment) => {
            // The least of both: neither is an answer to the other.
            let own = environment.code_policy.clone();
            let least = own.max_work.into_iter().chain(rules.max_work).min();
            rules.and(&CodePolicySpec { max_work: least, ..own })
        }
    }
}

/// What is contradictory in the configuration: the environment, the key, and why.
pub fn contradictions(settings: &Settings) -> impl Iterator<Item = (String, String, String)> + '_ {
    settings.environments.keys().filter_map(|name| {
        let Refused { field, reason } = configured(settings, name).err()?;
        Some((name.clone(), field, reason))
    })
}

impl Rules {
    /// These, tightened by those.
    pub(crate) fn and(mut self, spec: &CodePolicySpec) -> Result<Self, Refused> {
        let preset = spec.policy.map(presets::expanded).unwrap_or_default();
        if let Some(asked) = spec.max_work {
            if let Some(most) = self.max_work.filter(|most| asked > *most) {
                let reason = format!("{asked} is more than the {most} that holds");
                return Err(Refused::new("max_work", reason));
            }
            self.max_work = Some(asked);
        }
        match spec.imports.as_ref().or(preset.imports.as_ref()) {
            Some(ImportsSpec { allow: Some(names), .. }) => {
                let names: BTreeSet<_> = names.iter().cloned().collect();
                self.allow = Some(match &self.allow {
                    Some(above) => common(above, &names),
                    None => names,
                });
            }
            Some(ImportsSpec { deny: Some(names), .. }) => self.deny.extend(names.iter().cloned()),
            _ => {}
        }
        self.settle_imports().map_err(|why| Refused::new("imports", why))?;
        if let Some(events) = spec.audit_events.as_ref().or(preset.audit_events.as_ref()) {
            self.events.get_or_insert_default().extend(events.deny.iter().cloned());
        }
        self.echo = spec.echo.unwrap_or(self.echo);
        self.prints = spec.prints.unwrap_or(self.prints);
        Ok(self)
    }

    /// Takes what is denied out of what is allowed. A part of what is allowed as a whole can not be
    /// taken out: that is refused, and not ignored.
    fn settle_imports(&mut self) -> Result<(), String> {
        let Some(allow) = &mut self.allow else { return Ok(()) };
        allow.retain(|name| !is_covered(name, &self.deny));
        for denied in &self.deny {
            if let Some(whole) = allow.iter().find(|name| covers(name, denied)) {
                return Err(format!(
                    "{denied:?} is denied and is a part of {whole:?}, which is allowed: allow its \
                     other parts by their names"
                ));
            }
        }
        Ok(())
    }

    /// Refuses a limit that this Python can not hold code to.
    pub(crate) fn check_python(&self, environment: &str, version: &str) -> Result<(), Refused> {
        let mut numbers = version.split('.').map_while(|part| part.parse::<u64>().ok());
        let has = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if self.max_work.is_none() || has >= COUNTS_WORK {
            return Ok(());
        }
        let reason = format!(
            "it needs Python 3.12 or later; environment {environment:?} has Python {version}"
        );
        Err(Refused::new("max_work", reason))
    }

    /// These for one execution, with what is of that alone.
    pub(crate) fn into_policy(self, asked: AskedPolicy) -> CodePolicy {
        let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>();
        CodePolicy {
            max_work: self.max_work,
            imports: match (self.allow, self.deny) {
                (Some(allow), _) => Some(ImportRule::Allow(list(allow))),
                (None, deny) if deny.is_empty() => None,
                (None, deny) => Some(ImportRule::Deny(list(deny))),
            },
            audit_events: self.events.map(|deny| AuditEvents { deny: list(deny) }),
            echo: match self.echo {
                Echo::Last => message::Echo::Last,
                Echo::All => message::Echo::All,
                Echo::None => message::Echo::None,
            },
            prints: self.prints,
            modules: asked.modules,
            names: asked.names,
        }
    }
}

/// Whether a name is this one's, or a submodule's of it.
fn covers(name: &str, other: &str) -> bool {
    other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn is_covered(name: &str, by: &BTreeSet<String>) -> bool {
    by.iter().any(|other| covers(other, name))
}

/// What both have.
fn common(one: &BTreeSet<String>, other: &BTreeSet<String>) -> BTreeSet<String> {
    let of = |names: &BTreeSet<String>, within: &BTreeSet<String>| {
        names.iter().filter(|name| is_covered(name, within)).cloned().collect::<Vec<_>>()
    };
    of(one, other).into_iter().chain(of(other, one)).collect()
}

fn modules(asked: BTreeMap<String, JsonText>) -> Result<Vec<HostModule>, Refused> {
    let refused = |name: &str, reason: &str| {
        let name: String = name.chars().take(64).collect();
        Refused::new(format!("modules.{}", name.escape_default()), reason)
    };
    let bytes: usize = asked.iter().map(|(name, json)| name.len() + json.as_str().len()).sum();
    if asked.len() > MAX_MODULES || bytes > MAX_MODULES_BYTES {
        let reason =
            format!("over the maximum of {MAX_MODULES} modules and {MAX_MODULES_BYTES} bytes");
        return Err(Refused::new("modules", reason));
    }
    let module = |(name, content): (String, JsonText)| {
        if !vivarium_api_types::is_module_name(&name) || name.contains('.') {
            return Err(refused(&name, "a module's name is an identifier of Python"));
        }
        if TAKEN.contains(&name.as_str()) {
            return Err(refused(&name, "this name is taken"));
        }
        if !content.as_str().trim_start().starts_with('{') {
            return Err(refused(&name, "its content is an object, whose members are its names"));
        }
        if content.depth() > MAX_MODULE_DEPTH {
            let reason = format!("it is nested more than {MAX_MODULE_DEPTH} deep");
            return Err(refused(&name, &reason));
        }
        Ok(HostModule { name, content: content.as_str().to_owned() })
    };
    asked.into_iter().map(module).collect()
}

fn names(asked: NamesSpec) -> Result<NameRule, Refused> {
    let refused = |reason: String| Refused::new("names", reason);
    asked.check().map_err(refused)?;
    match asked {
        NamesSpec { keep: Some(names), .. } => Ok(NameRule::Keep(names)),
        NamesSpec { drop, .. } => Ok(NameRule::Drop(drop.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
