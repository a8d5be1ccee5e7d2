//! A project's page: its files, read from an index's answer and written for sessions.

mod html;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::hash::Hash;
use crate::name;
use crate::url::Url;

/// The media type of the simple API as JSON: PEP 691.
pub const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// What is asked of an upstream index.
pub const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// The most files of a page. The longest of PyPI have some 15,000.
const FILES_MAX: usize = 100_000;

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name: one plain component that [`name::project_of`] takes.
    pub name: String,
    /// Where it is upstream; `None` if it is in a directory of the operator's.
    pub url: Option<Url>,
    /// What it has to be, if the index says.
    pub hash: Option<Hash>,
    /// What the file with its metadata has to be, if there is one (PEP 658).
    pub metadata: Option<Hash>,
    /// The versions of Python that it is for.
    pub requires_python: Option<String>,
    /// Why it was yanked (PEP 592), perhaps without a word.
    pub yanked: Option<String>,
}

/// Why an index's answer is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Not JSON, or not of the simple API.
    #[error("not a page of the simple API: {0}")]
    Json(String),
    /// Not text.
    #[error("a page that is not UTF-8")]
    Text,
}

/// Reads the page of `project` that was at `url`. What is not a file of that project is left out.
///
/// # Errors
/// [`PageError`].
pub fn read(project: &str, url: &Url, is_json: bool, body: &[u8]) -> Result<Vec<File>, PageError> {
    let mut files = if is_json {
        let page: JsonPage =
            serde_json::from_slice(body).map_err(|error| PageError::Json(error.to_string()))?;
        page.files.into_iter().filter_map(|file| file.into_file(url)).collect()
    } else {
        html::read(url, std::str::from_utf8(body).map_err(|_| PageError::Text)?)
    };
    files.retain(|file| name::project_of(&file.name).as_deref() == Some(project));
    files.truncate(FILES_MAX);
    Ok(files)
}

#[derive(Deserialize)]
struct JsonPage {
    files: Vec<JsonFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    requires_python: Option<String>,
    #[serde(default)]
    yanked: Value,
    #[serde(default)]
    core_metadata: Value,
    #[serde(default)]
    dist_info_metadata: Value,
}

impl JsonFile {
    fn into_file(self, base: &Url) -> Option<File> {
        let metadata = [&self.core_metadata, &self.dist_info_metadata].into_iter().find_map(|it| {
            let hashes: BTreeMap<String, String> = serde_json::from_value(it.clone()).ok()?;
            Hash::of(&hashes)
        });
        let yanked = match self.yanked {
            Value::Bool(true) => Some(String::new()),
            Value::String(why) => Some(why),
            _ => None,
        };
        Some(File {
            url: Some(base.join(&self.url).ok()?),
            name: self.filename,
            hash: Hash::of(&self.hashes),
            metadata,
            requires_python: self.requires_python,
            yanked,
        })
    }
}

/// The path of a file on our side.
fn path(project: &str, file: &File) -> String {
    // What a name may have is of a path but for `+`, which some clients take for a blank.
    format!("/files/{project}/{}", file.name.replace('+', "%2B"))
}

/// The page as JSON.
#[must_use]
pub fn to_json(project: &str, files: &[File]) -> String {
    let hashes = |hash: &Hash| json!({ (hash.algorithm): hash.hex });
    let entry = |file: &File| {
        let mut entry = json!({
            "filename": file.name,
            "url": path(project, file),
            "hashes": file.hash.as_ref().map_or_else(|| json!({}), hashes),
            "yanked": file.yanked.as_ref().map_or(json!(false), |why| match why.as_str() {
                "" => json!(true),
                why => json!(why),
            }),
        });
        if let Some(members) = entry.as_object_mut() {
            if let Some(versions) = &file.requires_python {
                members.insert("requires-python".to_owned(), json!(versions));
            }
            if let Some(hash) = &file.metadata {
                for name in ["core-metadata", "dist-info-metadata"] {
                    members.insert(name.to_owned(), hashes(hash));
                }
            }
        }
        entry
    };
    let files: Vec<Value> = files.iter().map(entry).collect();
    json!({"meta": {"api-version": "1.0"}, "name": project, "files": files}).to_string()
}

/// The page as HTML (PEP 503).
#[must_use]
pub fn to_html(project: &str, files: &[File]) -> String {
    let mut page = format!("<!DOCTYPE html><html><body><h1>{project}</h1>\n");
    for file in files {
        let fragment = file.hash.as_ref().map_or_else(String::new, |hash| format!("#{hash}"));
        let mut line = format!("<a href=\"{}{fragment}\"", path(project, file));
        let mut attribute = |name: &str, value: &str| {
            line.push_str(&format!(" {name}=\"{}\"", html::escaped(value)));
        };
        if let Some(versions) = &file.requires_python {
            attribute("data-requires-python", versions);
        }
        if let Some(why) = &file.yanked {
            attribute("data-yanked", why);
        }
        if let Some(hash) = &file.metadata {
            attribute("data-core-metadata", &hash.to_string());
            attribute("data-dist-info-metadata", &hash.to_string());
        }
        page.push_str(&line);
        page.push_str(&format!(">{}</a><br>\n", file.name));
    }
    page.push_str("</body></html>\n");
    page
}

#[cfg(test)]
mod tests;
