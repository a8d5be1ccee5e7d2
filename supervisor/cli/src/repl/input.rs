//! What a line of input means: Python, `:COMMAND`, `?NAME` or `NAME?`.

use rustyline::completion::Pair;

/// For `:help`.
pub(super) const HELP: &str = "\
?NAME, NAME?       describes NAME; with ??, shows its source too
:files [DIR]       lists files of the session
:put FILE [NAME]   copies a local file into the session
:get NAME [FILE]   copies a file from the session
:reset             replaces the kernel: variables are gone, files stay
:session           shows the session and what it uses
:keep              keeps the session at the end
:branch [COUNT]    makes sessions from this one's state and prints their ids
:checkpoint [NAME] keeps what the session is now and prints the checkpoint's name
:checkpoints       lists the checkpoints, the oldest first
:rollback NAME     has the session be what it was at a checkpoint, memory and files
:suspend           suspends the session and quits; repl SESSION resumes it
:help              shows this
:quit, Ctrl-D      quits; so do exit and quit

Tab completes. Alt-Enter starts a new line, an empty line ends a block. Ctrl-C interrupts the
code, or discards the input. _ is the last value.
";

const COMMANDS: [&str; 14] = [
    ":files",
    ":put",
    ":get",
    ":reset",
    ":session",
    ":keep",
    ":branch",
    ":checkpoint",
    ":checkpoints",
    ":rollback",
    ":suspend",
    ":help",
    ":quit",
    ":exit",
];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input<'a> {
    /// Only blanks.
    Empty,
    Code(&'a str),
    Inspect {
        name: &'a str,
        wants_source: bool,
    },
    Files(&'a str),
    Put {
        file: &'a str,
        name: Option<&'a str>,
    },
    Get {
        name: &'a str,
        file: Option<&'a str>,
    },
    Reset,
    Session,
    Keep,
    Branch {
        count: u32,
    },
    Checkpoint {
        name: Option<&'a str>,
    },
    Checkpoints,
    Rollback {
        name: &'a str,
    },
    Suspend,
    Help,
    Quit,
    /// An unknown command, or one with the wrong arguments.
    Unknown(&'a str),
}

pub(super) fn parse(typed: &str) -> Input<'_> {
    let text = typed.trim();
    if text.is_empty() {
        return Input::Empty;
    }
    if let Some(command) = text.strip_prefix(':') {
        let mut words = command.split_whitespace();
        let words = (words.next(), words.next(), words.next(), words.next());
        return match words {
            (Some("files"), dir, None, None) => Input::Files(dir.unwrap_or_default()),
            (Some("put"), Some(file), name, None) => Input::Put { file, name },
            (Some("get"), Some(name), file, None) => Input::Get { name, file },
            (Some("reset"), None, ..) => Input::Reset,
            (Some("session"), None, ..) => Input::Session,
            (Some("keep"), None, ..) => Input::Keep,
            (Some("branch"), count, None, None) => match count.map_or(Ok(1), str::parse) {
                Ok(count) => Input::Branch { count },
                Err(_) => Input::Unknown(text),
            },
            (Some("checkpoint"), name, None, None) => Input::Checkpoint { name },
            (Some("checkpoints"), None, ..) => Input::Checkpoints,
            (Some("rollback"), Some(name), None, None) => Input::Rollback { name },
            (Some("suspend"), None, ..) => Input::Suspend,
            (Some("help"), ..) => Input::Help,
            (Some("quit" | "exit" | "q"), None, ..) => Input::Quit,
            _ => Input::Unknown(text),
        };
    }
    let name = text.trim_matches('?').trim();
    let marks = text.len() - text.trim_matches('?').len();
    if marks > 0 && !name.is_empty() && !name.contains(['\n', '#', '"', '\'']) {
        return Input::Inspect { name, wants_source: marks > 1 };
    }
    match text {
        "?" => Input::Help,
        "exit" | "quit" | "exit()" | "quit()" => Input::Quit,
        _ => Input::Code(typed),
    }
}

/// Commands that begin like this, for completion.
pub(super) fn commands_beginning_with(typed: &str) -> Vec<Pair> {
    let names = COMMANDS.iter().filter(|name| name.starts_with(typed));
    names
        .map(|name| Pair { display: (*name).to_owned(), replacement: (*name).to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_commands_and_inspections_are_told_apart() {
        assert_eq!(parse("  "), Input::Empty);
        assert_eq!(parse("  x\n"), Input::Code("  x\n"));
        assert_eq!(parse("?print"), Input::Inspect { name: "print", wants_source: false });
        assert_eq!(parse("a.b??"), Input::Inspect { name: "a.b", wants_source: true });
        assert_eq!(parse("x = 'what?'"), Input::Code("x = 'what?'"));
        assert_eq!(parse("x # why?"), Input::Code("x # why?"));
        assert_eq!(parse("?"), Input::Help);
        assert_eq!(parse(" quit\n"), Input::Quit);
        assert_eq!(parse("exit()"), Input::Quit);
        assert_eq!(parse("exit(3)"), Input::Code("exit(3)"));
        assert_eq!(parse(":files"), Input::Files(""));
        assert_eq!(parse(":files sub"), Input::Files("sub"));
        assert_eq!(parse(":put a b"), Input::Put { file: "a", name: Some("b") });
        assert_eq!(parse(":get a"), Input::Get { name: "a", file: None });
        assert_eq!(parse(":reset"), Input::Reset);
        assert_eq!(parse(":reset now"), Input::Unknown(":reset now"));
        assert_eq!(parse(":branch"), Input::Branch { count: 1 });
        assert_eq!(parse(":branch 3"), Input::Branch { count: 3 });
        assert_eq!(parse(":branch all"), Input::Unknown(":branch all"));
        assert_eq!(parse(":checkpoint"), Input::Checkpoint { name: None });
        assert_eq!(parse(":checkpoint before"), Input::Checkpoint { name: Some("before") });
        assert_eq!(parse(":checkpoint a b"), Input::Unknown(":checkpoint a b"));
        assert_eq!(parse(":checkpoints"), Input::Checkpoints);
        assert_eq!(parse(":checkpoints a"), Input::Unknown(":checkpoints a"));
        assert_eq!(parse(":rollback before"), Input::Rollback { name: "before" });
        assert_eq!(parse(":rollback"), Input::Unknown(":rollback"));
        assert_eq!(parse(":suspend"), Input::Suspend);
        assert_eq!(parse(":nonsense"), Input::Unknown(":nonsense"));
        assert_eq!(parse(":q"), Input::Quit);
    }

    #[test]
    fn every_offered_command_is_parsed_and_in_the_help() {
        for pair in commands_beginning_with(":") {
            let known = ["", " a", " a b"].iter().any(|words| {
                !matches!(parse(&format!("{}{words}", pair.display)), Input::Unknown(_))
            });
            assert!(known, "{}", pair.display);
            assert!(HELP.contains(&pair.display) || pair.display == ":exit", "{}", pair.display);
        }
        assert_eq!(commands_beginning_with(":re").len(), 1);
        assert_eq!(commands_beginning_with(":ch").len(), 2);
    }
}
