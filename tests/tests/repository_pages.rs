//! The pages that describe the code agree with it: architecture, decisions and walks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;

use vivarium_tests::program;

const MAX_ARCHITECTURE_LINES: usize = 250;

/// The five walks, by their headings in docs/walks.md.
const WALKS: [&str; 5] = [
    "An execute and its answer",
    "One limit, from TOML to the read-back",
    "An upload",
    "The end of a session",
    "The start of a forked kernel",
];

fn text(path: impl AsRef<Path>) -> String {
    let path = program::workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether `word` stands in `code` as a whole word.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// What a page has in backticks, outside of blocks of code.
fn in_backticks(page: &str) -> Vec<&str> {
    page.split('`').skip(1).step_by(2).collect()
}

/// The names of a walk that the code does not have. A name with a slash is a path in the repository;
/// each other one, as `Type::function`, must stand in one of the files that its step names before it.
fn unknown_names(walk: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    for step in walk.split("\n\n").flat_map(|paragraph| paragraph.split("\n1. ")) {
        let mut files = Vec::new();
        for name in in_backticks(step) {
            if name.contains('/') {
                match fs::read_to_string(program::workspace().join(name)) {
                    Ok(code) => files.push(code),
                    Err(_) => unknown.push(name.to_owned()),
                }
            } else if !files.iter().any(|code| name.split("::").all(|word| has_word(code, word))) {
                unknown.push(name.to_owned());
            }
        }
    }
    unknown
}

#[test]
fn every_name_in_the_walks_is_in_the_code() {
    let page = text("docs/walks.md");
    let walks: Vec<_> = page.split("\n## ").skip(1).collect();
    let headings: Vec<_> = walks.iter().map(|walk| walk.lines().next().unwrap()).collect();
    assert_eq!(headings, WALKS);
    for walk in walks {
        assert!(in_backticks(walk).len() > 10, "{walk}");
        assert_eq!(unknown_names(walk), [""; 0], "{walk}");
    }
}

#[test]
fn a_made_up_name_in_a_walk_is_found() {
    let file = "agent/src/sandbox.rs";
    let walk =
        |names: &str| format!("A walk\n\n1. First `{file}`: `restrict`.\n1. Then {names}.\n");
    assert_eq!(unknown_names(&walk(&format!("`{file}`: `LayerCode::verify`"))), [""; 0]);
    assert_eq!(unknown_names(&walk(&format!("`{file}`: `restricts`"))), ["restricts"]);
    assert_eq!(unknown_names(&walk(&format!("`{file}`: `Made::verify`"))), ["Made::verify"]);
    assert_eq!(unknown_names(&walk("`agent/src/made_up.rs`")), ["agent/src/made_up.rs"]);
    assert_eq!(unknown_names(&walk("`restrict`")), ["restrict"], "its step names no file");
}

#[test]
fn the_architecture_page_is_short() {
    let lines = text("docs/architecture.md").lines().count();
    assert!(lines < MAX_ARCHITECTURE_LINES, "{lines} lines");
}

/// The paths in the tree of folders under "Code" in docs/architecture.md.
fn folders() -> Vec<String> {
    let page = text("docs/architecture.md");
    let tree = page.split_once("\n## Code\n").unwrap().1.split("```").nth(1).unwrap();
    let mut above = "";
    let lines = tree.lines().filter(|line| !line.is_empty());
    let paths = lines.map(|line| {
        let name = line.split_whitespace().next().unwrap();
        if line.starts_with(' ') {
            return format!("{above}{name}");
        }
        above = name;
        name.to_owned()
    });
    paths.collect()
}

#[test]
fn the_architecture_page_names_folders_that_exist_and_every_crate() {
    let folders = folders();
    for path in &folders {
        assert!(program::workspace().join(path).exists(), "there is no {path}");
    }
    let manifest = text("Cargo.toml");
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    for member in members.split('"').skip(1).step_by(2) {
        assert!(folders.contains(&format!("{member}/")), "{member} is not there");
    }
}

#[test]
fn the_index_lists_every_decision_in_order() {
    let index = text("docs/decisions/README.md");
    let listed: Vec<_> = index
        .lines()
        .filter_map(|line| line.strip_prefix("- [")?.split_once("](")?.1.split_once(')'))
        .map(|(file, title)| (file.to_owned(), title.trim().to_owned()))
        .collect();
    let folder = program::workspace().join("docs/decisions");
    let mut pages: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .map(|name| {
            let page = text(Path::new("docs/decisions").join(&name));
            let (number, _) = name.split_once('-').unwrap();
            let title = page.lines().next().unwrap().strip_prefix(&format!("# {number}. "));
            (name.clone(), title.unwrap_or_else(|| panic!("{name} has no title")).to_owned())
        })
        .collect();
    pages.sort();
    assert_eq!(listed, pages);
}
