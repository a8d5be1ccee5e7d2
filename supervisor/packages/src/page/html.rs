//! Pages as HTML (PEP 503): the links of a document, and nothing else of it.

use std::collections::BTreeMap;

use super::File;
use crate::hash::Hash;
use crate::url::Url;

/// The files that a document's links lead to.
pub(super) fn read(base: &Url, text: &str) -> Vec<File> {
    let mut files = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some(tag) = rest.strip_prefix(['a', 'A']) else { continue };
        if !tag.starts_with(|c: char| c.is_ascii_whitespace()) {
            continue;
        }
        let (attributes, after) = attributes(tag);
        rest = after;
        files.extend(file(base, &attributes));
    }
    files
}

fn file(base: &Url, attributes: &BTreeMap<String, String>) -> Option<File> {
    let href = attributes.get("href")?;
    let url = base.join(href).ok()?;
    let fragment = href.split_once('#').map_or("", |(_, fragment)| fragment);
    let hash = |text: &str| text.split_once('=').and_then(|(name, hex)| Hash::new(name, hex));
    let path = url.to_string();
    let last = path.split('?').next()?.rsplit('/').next()?;
    Some(File {
        name: last.replace("%2B", "+").replace("%2b", "+").replace("%21", "!"),
        hash: hash(fragment),
        metadata: ["data-core-metadata", "data-dist-info-metadata"]
            .into_iter()
            .find_map(|name| hash(attributes.get(name)?)),
        requires_python: attributes.get("data-requires-python").cloned(),
        yanked: attributes.get("data-yanked").cloned(),
        url: Some(url),
    })
}

/// The attributes of a tag, and what follows on it.
fn attributes(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut found = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if let Some(after) = rest.strip_prefix('>') {
            return (found, after);
        }
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/');
        let (name, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let after = after.trim_start();
        let value = match after.strip_prefix('=').map(str::trim_start) {
            Some(after) => {
                let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
                let (value, after) = match quote {
                    Some(quote) => {
                        let inner = after.get(1..).unwrap_or_default();
                        inner.split_once(quote).unwrap_or((inner, ""))
                    }
                    None => {
                        let end = |c: char| c.is_ascii_whitespace() || c == '>';
                        after.split_at(after.find(end).unwrap_or(after.len()))
                    }
                };
                rest = after;
                unescaped(value)
            }
            None => {
                rest = after;
                String::new()
            }
        };
        if name.is_empty() {
            // A stray `=`, or the end.
            if rest.is_empty() {
                return (found, rest);
            }
            continue;
        }
        found.entry(name.to_ascii_lowercase()).or_insert(value);
    }
}

const ENTITIES: [(&str, &str); 8] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&#43;", "+"),
    ("&amp;", "&"),
];

fn unescaped(text: &str) -> String {
    // `&amp;` last, so that nothing is unescaped twice.
    ENTITIES.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}

/// `text` as the value of an attribute.
pub(super) fn escaped(text: &str) -> String {
    let amp = text.replace('&', "&amp;");
    amp.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
