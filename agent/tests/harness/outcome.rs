//! What became of one execution.

use vivarium_protocol::message::{Changes, CommandSpec, Completion, Stdin, Work};
use vivarium_protocol::outcome::{Account, Display, KernelEnd, MimePart, OutputFile};

/// What became of one execution.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    pub(crate) repr: Option<String>,
    pub(crate) mime: Vec<MimePart>,
    pub(crate) displays: Vec<Display>,
    pub(crate) exception: Option<String>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) stdout_dropped: u64,
    pub(crate) completion: Option<Completion>,
    pub(crate) end: Option<KernelEnd>,
    pub(crate) refused: Option<String>,
    pub(crate) files: Vec<OutputFile>,
    pub(crate) changes: Changes,
    pub(crate) account: Account,
    pub(crate) cpu_us: u64,
    pub(crate) cpu_limit_reached: bool,
}

impl Outcome {
    pub(crate) fn text(&self) -> (&str, &str) {
        (str::from_utf8(&self.stdout).unwrap(), str::from_utf8(&self.stderr).unwrap())
    }

    /// The names of the files that changed.
    pub(crate) fn changed(&self) -> Vec<&str> {
        self.changes.files.iter().map(|file| file.path.as_str()).collect()
    }
}

pub(crate) fn command(argv: &[&str], stdin: &[u8]) -> Work {
    let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
    let stdin = Stdin::Bytes(stdin.to_owned());
    Work::Command(CommandSpec { stdin, ..CommandSpec::new(argv) })
}
