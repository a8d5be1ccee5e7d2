//! The configuration file.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::error::Origin;
use crate::config::given::{self, Given, Said};
use crate::config::key::{Key, Section};
use crate::config::value::Value;
use crate::config::{keys, suggest};

/// Where the file is unless said otherwise.
pub const DEFAULT_PATH: &str = "/etc/vivarium/vivarium.toml";

/// A file that was read.
#[derive(Debug, Clone)]
pub struct File {
    /// Where it was.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// Why a file can not be read.
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

/// Takes a file apart, as far as it can be.
pub(crate) fn read(file: &File) -> Said {
    let mut reader = Reader { file, said: Said::default() };
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.error(at, format!("not TOML: {}", error.message()));
    }
    reader.root(table.get_ref());
    // A table is a map: give errors back in the order in which they are read.
    reader.said.errors.sort_by_key(|error| match error.origin {
        Origin::File { line, .. } => line,
        _ => 0,
    });
    reader.said
}

struct Reader<'a> {
    file: &'a File,
    said: Said,
}

impl Reader<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = self.file.text.as_bytes().get(..at).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.file.path.clone(), line }
    }

    fn error(&mut self, at: usize, message: impl Into<String>) {
        let origin = self.origin(at);
        self.said.error(&origin, message);
    }

    fn root(&mut self, root: &DeTable<'_>) {
        for (name, value) in root {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            let Some(section) = Section::ALL.into_iter().find(|section| section.name() == name)
            else {
                self.unknown(at, name, "section", Section::ALL.iter().map(|s| s.name()));
                continue;
            };
            match value.get_ref() {
                DeValue::Table(table) if section == Section::Environments => {
                    self.environments(table);
                }
                DeValue::Table(table) => self.section(section, None, table),
                other => {
                    self.error(at, format!("{name}: a section, not the {}", other.type_str()));
                }
            }
        }
    }

    fn environments(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            if !given::is_environment_name(name) {
                self.error(
                    at,
                    format!(
                        "environments.{name:?}: a name is 1 to 32 lower-case letters, digits, \
                         - and _"
                    ),
                );
                continue;
            }
            self.said.environments.push(name.to_owned());
            match value.get_ref() {
                DeValue::Table(table) => self.section(Section::Environments, Some(name), table),
                _ => self.error(
                    at,
                    format!(
                        "environments.{name}: is the name of an environment, so it is a table: \
                         [environments.{name}]"
                    ),
                ),
            }
        }
    }

    fn section(&mut self, section: Section, environment: Option<&str>, table: &DeTable<'_>) {
        for (name, value) in table {
            match keys::find(section, name.get_ref()) {
                Some(key) => self.give(key, environment, value),
                None => {
                    let path = format!("{}.{}", section.name(), name.get_ref());
                    let names = keys::of(section).iter().map(|key| key.name);
                    self.unknown(name.span().start, &path, "key", names);
                }
            }
        }
    }

    fn give(&mut self, key: &'static Key, environment: Option<&str>, value: &Spanned<DeValue<'_>>) {
        self.said.given.push(Given {
            key,
            environment: environment.map(str::to_owned),
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
        let message = match later(path) {
            Some(why) => format!("{path}: {why}"),
            None => format!("{path}: no such {what}{}", suggest::hint(name, names)),
        };
        self.error(at, message);
    }
}

fn later(path: &str) -> Option<&'static str> {
    keys::LATER.iter().find(|(later, _)| *later == path).map(|(_, why)| *why)
}
