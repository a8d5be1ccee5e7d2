//! A directory of files, each of a tenant.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use vivarium_protocol::error_chain;

use super::ownership::Owners;
use crate::config::bounded::{self, Links};
use crate::config::error::Origin;
use crate::config::file::{self, File};
use crate::config::raw_setting::ParsedSource;

/// Of a file.
const MAX_BYTES: u64 = 1 << 20;

/// Files of tenants, and entries of any kind.
const MAX_FILES: usize = 10_000;
const MAX_ENTRIES: usize = 20_000;

const EXTENSION: &str = ".toml";

/// Each file's tenant. `origin` is where the directory was named.
pub(super) fn read(directory: &Path, owners: &Owners, origin: &Origin) -> Vec<ParsedSource> {
    let refuse = |why: String| {
        let mut parsed = ParsedSource::default();
        parsed.error(origin, format!("tenants.directory: {why}"));
        vec![parsed]
    };
    if let Err(error) = owners.check_with_parents(directory) {
        return refuse(error_chain(&error).to_string());
    }
    let names = match names(directory) {
        Ok(names) => names,
        Err(why) => return refuse(why),
    };
    names.iter().map(|name| tenant(directory, name, owners)).collect()
}

/// The names of its files of tenants, ordered. Hidden files and those of editors are none.
fn names(directory: &Path) -> Result<Vec<OsString>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut names = Vec::new();
    for (index, entry) in fs::read_dir(directory).map_err(failed)?.enumerate() {
        let name = entry.map_err(failed)?.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(EXTENSION) && !text.starts_with('.') {
            names.push(name);
        }
        if index >= MAX_ENTRIES || names.len() > MAX_FILES {
            return Err(format!("{}: over {MAX_FILES} files", directory.display()));
        }
    }
    names.sort();
    Ok(names)
}

fn tenant(directory: &Path, name: &OsString, owners: &Owners) -> ParsedSource {
    let path = directory.join(name);
    let mut parsed = ParsedSource::default();
    let mut refuse = |why: &dyn std::fmt::Display| {
        parsed.error(&Origin::File { path: path.clone(), line: 1 }, why.to_string());
    };
    match bounded::read(&path, Links::Refuse, MAX_BYTES) {
        Err(error) => refuse(&error_chain(&error)),
        Ok((text, metadata)) => match owners.check(&path, &metadata) {
            Err(error) => refuse(&error_chain(&error)),
            Ok(()) => {
                let name = name.to_string_lossy();
                let name = name.strip_suffix(EXTENSION).unwrap_or(&name);
                return file::read_tenant(&File { path, text }, name);
            }
        },
    }
    parsed
}
