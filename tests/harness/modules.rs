//! Which top-level modules of a crate use which others, as its source says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// For each top-level module, the others that it names.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// Reads a crate's source folder. A module uses another if any file of it, unit tests left out, names
/// that as `crate::other`, alone or in braces, or by as many `super`s as lead to the crate's root.
#[must_use]
pub fn uses(src: &Path) -> Uses {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() || !["lib", "main"].contains(&name.as_str()) {
            texts.entry(name).or_default().push_str(&text(&path, 1));
        }
    }
    let known: BTreeSet<_> = texts.keys().cloned().collect();
    let of = |(name, text): (String, String)| {
        let mut used: BTreeSet<_> = names(&text).intersection(&known).cloned().collect();
        used.remove(&name);
        (name, used)
    };
    texts.into_iter().map(of).collect()
}

/// The code of a file or of all files below a directory, without comments, and with every path to the
/// crate's root written as `crate::`. `depth` is how many `super`s lead there from the file.
fn text(path: &Path, depth: usize) -> String {
    if path.file_stem().is_some_and(|name| name == "tests") {
        return String::new();
    }
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries.map(|path| text(&path, depth + 1)).collect();
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return String::new();
    }
    let code = fs::read_to_string(path).unwrap();
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n").replace(&"super::".repeat(depth), "crate::")
}

/// The first segments of all paths in `code` that begin with `crate::`.
fn names(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in code.split("crate::").skip(1) {
        match path.strip_prefix('{') {
            None => drop(found.insert(identifier(path))),
            Some(group) => found.extend(firsts(group)),
        }
    }
    found
}

/// The first identifier of each part of a group, whose opening brace is left out.
fn firsts(group: &str) -> Vec<String> {
    let (mut depth, mut part, mut parts) = (0, String::new(), Vec::new());
    for character in group.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            _ if depth == 0 => part.push(character),
            _ => {}
        }
    }
    parts.push(part);
    parts.iter().map(|part| identifier(part.trim())).collect()
}

fn identifier(path: &str) -> String {
    path.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}

/// The modules that are in a circle, or only used between circles. Empty if there is none.
#[must_use]
pub fn circle(uses: &Uses) -> BTreeSet<String> {
    let mut left: BTreeSet<_> = uses.keys().cloned().collect();
    loop {
        // Neither a module that uses none of the others, nor one that none uses, is in a circle.
        let in_circle = |name: &String| {
            let used_by = |other: &String| uses.get(other).is_some_and(|used| used.contains(name));
            uses.get(name).is_some_and(|used| !used.is_disjoint(&left)) && left.iter().any(used_by)
        };
        let kept: BTreeSet<_> = left.iter().filter(|name| in_circle(name)).cloned().collect();
        if kept.len() == left.len() {
            return left;
        }
        left = kept;
    }
}
