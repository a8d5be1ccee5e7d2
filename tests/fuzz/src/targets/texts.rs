//! Parsers of text.

use crate::cli;
use crate::config::{self, Config, File, Host, Sources};

/// What tenant code printed, on its way to a person's terminal.
pub fn terminal(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (shown, end) = cli::filter(&[&text]);
    assert!(is_harmless(&shown), "{text:?} became {shown:?}");
    assert!(is_harmless(&end), "{text:?} ended with {end:?}");
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (one, other) = text.split_at(middle);
    assert_eq!(cli::filter(&[one, other]), (shown.clone(), end));
    assert_eq!(cli::filter(&[&shown]).0, shown, "what passed passes again");

    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    let escaped = cli::escape(&text);
    assert!(!escaped.contains(is_obeyed), "{text:?} became {escaped:?}");
    let json = serde_json::Value::String(text.into_owned());
    let escaped = cli::escape_json(&json.to_string());
    assert!(!escaped.contains(is_obeyed), "{json} became {escaped:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), json);
}

/// Whether a terminal finds no control but line ends, tabs, backspaces, bells, and sequences that
/// begin with ESC and `[`, `7` or `8`, have digits, `;` and `:` in them, and end with a letter that
/// moves, erases or colours; or show and hide the cursor.
fn is_harmless(text: &str) -> bool {
    let mut pieces = text.split('\x1b');
    let is_plain =
        |text: &str| !text.contains(|c: char| c.is_control() && !"\n\r\t\x08\x07".contains(c));
    if !pieces.next().is_none_or(is_plain) {
        return false;
    }
    pieces.all(|piece| {
        if !is_plain(piece) {
            return false;
        }
        if piece.starts_with(['7', '8']) {
            return true;
        }
        let Some(rest) = piece.strip_prefix('[') else { return false };
        if rest.starts_with("?25h") || rest.starts_with("?25l") {
            return true;
        }
        let end = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';' || c == ':');
        end.starts_with(|c| "ABCDEFGHf`deaJKXLM@PSTmsu".contains(c))
    })
}

/// A configuration file, which is an operator's and may hold anything all the same.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    for name in VARIABLES {
        let variables = vec![((*name).to_owned(), text.clone())];
        let _any = resolve(Sources { variables, ..Sources::default() });
    }
    let Some(config) = resolve(Sources { file: file(text), ..Sources::default() }) else { return };
    // What is shown of it is a configuration, and the same one.
    let shown = config::show(&config);
    let again = resolve(Sources { file: file(shown.clone()), ..Sources::default() });
    let again = again.unwrap_or_else(|| panic!("not a configuration: {shown}"));
    for (one, other) in config.entries.iter().zip(&again.entries) {
        assert_eq!((one.path(), &one.value), (other.path(), &other.value), "{shown}");
    }
    config::reload(&config.settings, &config, &again).expect("the same configuration");
}

/// One of each kind of value.
const VARIABLES: &[&str] = &[
    "VIVARIUM_SANDBOX",
    "VIVARIUM_SANDBOX_CPU_CORES",
    "VIVARIUM_SANDBOX_MAX_MEMORY_MB",
    "VIVARIUM_SERVER_LISTEN",
    "VIVARIUM_SESSION_EXEC_TIMEOUT",
];

fn file(text: String) -> Option<File> {
    Some(File { path: "/etc/vivarium.toml".into(), text })
}

/// The configuration, unless there are errors, which say something.
fn resolve(sources: Sources) -> Option<Config> {
    let host = Host { temp_dir: "/tmp".into(), ..Host::default() };
    match config::resolve(&Sources { host, ..sources }) {
        Ok(config) => Some(config),
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            None
        }
    }
}
