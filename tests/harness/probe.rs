//! The probe: Python that attacks its sandbox from inside and says what came of it.

use serde_json::{Value, json};

use crate::session::Session;

/// The probe's program, to be run in a session before its functions are called.
pub const PROGRAM: &str = include_str!("../probe/probe.py");

/// What a command runs that is to make the attempts given as its arguments. It reads the probe
/// from its standard input, and each attempt prints one line.
const IN_COMMAND: &str = "
import sys, types
probe = types.ModuleType('probe')
exec(sys.stdin.read(), probe.__dict__)
for expression in sys.argv[1:]:
    probe.attempt(expression)
    sys.stdout.flush()";

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// It worked, and gave this.
    Worked(Value),
    /// The kernel refused, with this error's name, such as `EPERM`.
    Refused(String),
    /// The attempt was killed by this signal.
    Killed(String),
    /// Something else went wrong.
    Broke(String),
}

impl Attempt {
    /// Makes an attempt: an expression of Python in terms of the probe.
    ///
    /// # Panics
    /// If the probe itself does not work.
    #[must_use]
    #[track_caller]
    pub fn make(session: &Session<'_>, expression: &str) -> Self {
        let code = format!("probe.attempt({expression:?})");
        Self::parse(&session.execute(&code).ok().printed_json())
    }

    /// Makes attempts in a command, each as [`Self::make`] does in the kernel.
    ///
    /// # Panics
    /// If the probe itself does not work.
    #[must_use]
    #[track_caller]
    pub fn make_in_command(session: &Session<'_>, expressions: &[&str]) -> Vec<Self> {
        let mut argv = vec!["/usr/bin/python3", "-c", IN_COMMAND];
        argv.extend(expressions);
        let outcome = session.command(&json!({"argv": argv, "stdin": PROGRAM})).ok();
        let said: Vec<_> = outcome.stdout().lines().collect();
        assert_eq!(said.len(), expressions.len(), "{outcome}");
        let parse = |line: &&str| Self::parse(&serde_json::from_str(line).unwrap());
        said.iter().map(parse).collect()
    }

    fn parse(said: &Value) -> Self {
        let text = |member: &str| said[member].as_str().map(str::to_owned);
        if let Some(errno) = text("errno") {
            Self::Refused(errno)
        } else if let Some(signal) = text("signal") {
            Self::Killed(signal)
        } else if let Some(error) = text("error") {
            Self::Broke(error)
        } else {
            Self::Worked(said["value"].clone())
        }
    }

    /// In one word, as tables of attacks have it: `works`, an error's name, or a signal's.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Worked(_) => "works".to_owned(),
            Self::Refused(name) | Self::Killed(name) => name.clone(),
            Self::Broke(error) => format!("broke: {error}"),
        }
    }

    /// What it gave, if it worked.
    #[must_use]
    #[track_caller]
    pub fn value(self) -> Value {
        match self {
            Self::Worked(value) => value,
            other => panic!("it did not work: {other:?}"),
        }
    }
}

/// An attack: an expression of the probe, and the words that are right for what comes of it,
/// separated by `|`.
pub type Row<'a> = (&'a str, &'a str);

/// Makes every attack of a table in one session, from its kernel and from a command of it, and
/// checks what came of each.
#[track_caller]
pub fn check(session: &Session<'_>, rows: &[Row<'_>]) {
    load(session);
    let attacks: Vec<_> = rows.iter().map(|(attack, _)| *attack).collect();
    let kernels = attacks.iter().map(|attack| Attempt::make(session, attack)).collect();
    let commands = Attempt::make_in_command(session, &attacks);
    for (whose, attempts) in [("a kernel's", kernels), ("a command's", commands)] {
        let attempts: Vec<Attempt> = attempts;
        let wrong: Vec<_> = rows
            .iter()
            .zip(attempts)
            .filter(|((_, right), attempt)| !right.split('|').any(|word| word == attempt.word()))
            .map(|((attack, right), attempt)| {
                format!("{whose} {attack}: {attempt:?}, and not {right}")
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Puts the probe into a session.
#[track_caller]
pub fn load(session: &Session<'_>) {
    let quoted = serde_json::to_string(PROGRAM).unwrap();
    // JSON's strings are Python's.
    let code =
        format!("import types\nprobe = types.ModuleType('probe')\nexec({quoted}, probe.__dict__)");
    let _loaded = session.execute(&code).ok();
}
