//! The configuration file.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vivarium_engine::is_valid_id;

use crate::config::error::Origin;
use crate::config::key::{DefaultValue, Key, Section};
use crate::config::keys;
use crate::config::raw_setting::{self, ParsedSource, RawSetting};
use crate::config::value::Value;
use crate::suggest;

pub const DEFAULT_PATH: &str = "/etc/vivarium/vivarium.toml";

/// Keys of a tenant of which it has one at least.
const TOKENS: [&str; 3] = ["token_sha256", "token", "token_hashes_file"];

#[derive(Debug, Clone)]
pub struct File {
    pub path: PathBuf,
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the configuration file {path}", path = path.display())]
pub struct ReadError {
    path: PathBuf,
    source: std::io::Error,
}

/// Reads the file at `path`, or, if none is named, the one at [`DEFAULT_PATH`] if there is one.
///
/// # Errors
/// [`ReadError`] if it is there, or was named, and can not be read.
pub fn load(path: Option<&Path>) -> Result<Option<File>, ReadError> {
    let named = path.is_some();
    let path = path.unwrap_or(Path::new(DEFAULT_PATH));
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(File { path: path.to_owned(), text })),
        Err(error) if !named && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReadError { path: path.to_owned(), source }),
    }
}

/// Parses a file as far as possible, with all its errors.
pub(crate) fn read(file: &File) -> ParsedSource {
    parse(file, |reader, table| reader.root(table, |_| true))
}

/// Parses what has tenants and nothing else.
pub(crate) fn read_tenants(file: &File) -> ParsedSource {
    parse(file, |reader, table| reader.root(table, |section| section == Section::Tenant))
}

/// Parses a file whose keys are those of one `[[tenant]]`, with this name.
pub(crate) fn read_tenant(file: &File, name: &str) -> ParsedSource {
    parse(file, |reader, table| reader.whole_tenant(name, table))
}

fn parse(file: &File, read: impl Fn(&mut Reader<'_>, &DeTable<'_>)) -> ParsedSource {
    let mut reader = Reader { file, parsed: ParsedSource::default() };
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.error(at, format!("not TOML: {}", error.message()));
    }
    read(&mut reader, table.get_ref());
    reader.parsed
}

struct Reader<'a> {
    file: &'a File,
    parsed: ParsedSource,
}

impl Reader<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = self.file.text.as_bytes().get(..at).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.file.path.clone(), line }
    }

    fn error(&mut self, at: usize, message: impl Into<String>) {
        let origin = self.origin(at);
        self.parsed.error(&origin, message);
    }

    /// Reads a file's sections, of those that may be there.
    fn root(&mut self, root: &DeTable<'_>, is_allowed: impl Fn(Section) -> bool) {
        for (name, value) in root {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            let sections = || Section::ALL.iter().filter(|it| it.overridden().is_none());
            let Some(section) = sections().copied().find(|section| section.name() == name) else {
                self.unknown(at, name, "section", sections().map(|s| s.name()));
                continue;
            };
            if !is_allowed(section) {
                self.error(at, format!("{}: only [[tenant]] may be here", section.name()));
                continue;
            }
            match value.get_ref() {
                DeValue::Table(table) if section.is_named() => self.named(section, table),
                DeValue::Array(entries) if section == Section::Tenant => {
                    entries.iter().for_each(|entry| self.tenant(entry));
                }
                _ if section == Section::Tenant => {
                    self.error(at, "tenant: there may be several, so each begins with [[tenant]]");
                }
                DeValue::Table(table) => self.section(section, None, table),
                other => {
                    self.error(at, format!("{name}: a section, not the {}", other.type_str()));
                }
            }
        }
    }

    /// The tables of a section that has one for each name.
    fn named(&mut self, section: Section, table: &DeTable<'_>) {
        let of = section.name();
        let is_tools = section == Section::Tools;
        for (name, value) in table {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            let (is_name, a_name) = if is_tools {
                let rule = "1 to 32 lower-case letters, digits and _, beginning with a letter";
                (raw_setting::is_tool_server_name(name), rule)
            } else {
                let rule = "1 to 32 lower-case letters, digits, - and _";
                (raw_setting::is_environment_name(name), rule)
            };
            if !is_name {
                self.error(at, format!("{of}.{name:?}: a name is {a_name}"));
                continue;
            }
            let names = match is_tools {
                true => &mut self.parsed.tool_servers,
                false => &mut self.parsed.environments,
            };
            names.push(name.to_owned());
            match value.get_ref() {
                DeValue::Table(table) => {
                    self.section(section, Some(name), table);
                    self.required(section, name, at, table);
                }
                _ => self
                    .error(at, format!("{of}.{name}: is a name, so it is a table: [{of}.{name}]")),
            }
        }
    }

    fn tenant(&mut self, entry: &Spanned<DeValue<'_>>) {
        let at = entry.span().start;
        let DeValue::Table(table) = entry.get_ref() else {
            self.error(at, "tenant: an entry is a table: [[tenant]]");
            return;
        };
        let Some(name) = table.get("name") else {
            self.error(at, "tenant.name: is missing in this entry");
            return;
        };
        let at = name.span().start;
        let name = match Value::from_toml(name.get_ref()) {
            Value::Text(name) if is_tenant_name(&name) => name,
            other => return self.no_name(at, &other),
        };
        self.named_tenant(name, at, table);
    }

    fn whole_tenant(&mut self, name: &str, table: &DeTable<'_>) {
        let value = Value::Text(name.to_owned());
        if !is_tenant_name(name) {
            return self.no_name(0, &value);
        }
        match table.get("name") {
            None => {
                if let Some(key) = keys::find(Section::Tenant, "name") {
                    let (of, origin) = (Some(name.to_owned()), self.origin(0));
                    self.parsed.settings.push(RawSetting { key, of, value, origin });
                }
            }
            Some(given) if Value::from_toml(given.get_ref()) == value => {}
            Some(given) => {
                let why = format!("tenant.name: is {name:?} by the file's name: leave it out here");
                return self.error(given.span().start, why);
            }
        }
        self.named_tenant(name.to_owned(), 0, table);
    }

    fn no_name(&mut self, at: usize, value: &Value) {
        let message = format!(
            "tenant.name: {value} is no name: 1 to 64 of A-Z, a-z, 0-9, '_' and '-', not beginning \
             with '_'"
        );
        self.error(at, message);
    }

    fn named_tenant(&mut self, name: String, at: usize, table: &DeTable<'_>) {
        if self.parsed.tenants.contains(&name) {
            self.error(at, format!("tenant.name: there already is a tenant {name:?}"));
            return;
        }
        self.section(Section::Tenant, Some(&name), table);
        self.required(Section::Tenant, &name, at, table);
        if !TOKENS.iter().any(|key| table.contains_key(*key)) {
            self.error(at, format!("tenant.{name}.token_sha256: is missing"));
        }
        self.parsed.tenants.push(name);
    }

    fn required(&mut self, section: Section, of: &str, at: usize, table: &DeTable<'_>) {
        for key in keys::of(section) {
            // A tenant's name may be that of its file.
            let is_there = table.contains_key(key.name) || key.name == "name";
            if matches!(key.default, DefaultValue::Required(_)) && !is_there {
                self.error(at, format!("{}: is missing", key.path(Some(of))));
            }
        }
    }

    fn section(&mut self, section: Section, of: Option<&str>, table: &DeTable<'_>) {
        for (name, value) in table {
            let name_text = name.get_ref().as_ref();
            if section == Section::Tenant
                && let Some(table) = tables_of_tenants().find(|it| table_name(*it) == name_text)
            {
                match value.get_ref() {
                    DeValue::Table(values) => self.section(table, of, values),
                    _ => {
                        let header = table.header("");
                        self.error(
                            name.span().start,
                            format!("{}: is the table {header}", table.name()),
                        );
                    }
                }
                continue;
            }
            match keys::find(section, name_text) {
                Some(key) => self.give(key, of, value),
                None => {
                    if let Some(why) = keys::misplaced(section, name_text) {
                        let path = format!("{}.{name_text}", section.name());
                        self.error(name.span().start, format!("{path}: {why}"));
                        continue;
                    }
                    let path = format!("{}.{}", section.name(), name.get_ref());
                    let tables = tables_of_tenants().filter(|_| section == Section::Tenant);
                    let names = keys::of(section).iter().map(|key| key.name);
                    let names = names.chain(tables.map(table_name));
                    self.unknown(name.span().start, &path, "key", names);
                }
            }
        }
    }

    fn give(&mut self, key: &'static Key, of: Option<&str>, value: &Spanned<DeValue<'_>>) {
        self.parsed.settings.push(RawSetting {
            key,
            of: of.map(str::to_owned),
            value: Value::from_toml(value.get_ref()),
            origin: self.origin(value.span().start),
        });
    }

    fn unknown<'n>(
        &mut self,
        at: usize,
        path: &str,
        what: &str,
        names: impl Iterator<Item = &'n str>,
    ) {
        let name = path.rsplit('.').next().unwrap_or(path);
        let message = match keys::later(path) {
            Some(why) => format!("{path}: {why}"),
            None => format!("{path}: no such {what}{}", suggest::hint(name, names)),
        };
        self.error(at, message);
    }
}

/// The tables that a `[[tenant]]` may have.
fn tables_of_tenants() -> impl Iterator<Item = Section> {
    Section::ALL.into_iter().filter(|section| section.overridden().is_some())
}

fn table_name(section: Section) -> &'static str {
    section.overridden().unwrap_or(section).name()
}

/// Whether a name fits a tenant: it becomes a directory and a label. Our own labels begin with `_`.
fn is_tenant_name(name: &str) -> bool {
    is_valid_id(name) && !name.starts_with('_')
}
