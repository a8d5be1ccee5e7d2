//! The code and files for `run` and `exec`, read before the rights of the user who started us are
//! given up, and whether standard input goes to what runs.

mod scripts;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use nix::sys::stat::{SFlag, fstat};
use vivarium_api_types::{CommandRequest, ExecuteRequest, FileSpec, OutputSpec};
use vivarium_config::duration;

use super::exit::{Exit, Failure};
use super::input::Reader;
use super::options::{EnvOption, PolicyOptions};
use super::output_dir::OutputDir;
use super::target::{ExecutionRequest, Target};
use scripts::Hidden;

/// The largest code or file: more does not fit in a message.
const MAX_BYTES: u64 = 40 << 20;

/// What is run, and what becomes of it.
#[derive(Debug, Args)]
pub(super) struct CodeOptions {
    /// Runs this code instead of a file
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    pub(super) code: Option<String>,
    /// Runs a line of /bin/sh instead of Python; it gets standard input unless that is a terminal
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, conflicts_with = "code")]
    pub(super) shell: Option<String>,
    /// Runs the program and arguments that follow instead of Python; input as with --shell
    #[arg(long, conflicts_with_all = ["code", "shell"])]
    pub(super) argv: bool,
    /// Copies a file or a folder into the working directory first; repeatable
    #[arg(long = "file", value_name = "[NAME=]PATH")]
    pub(super) files: Vec<String>,
    /// Also copies what is in FILE's folder, so that it can be imported; not hidden files
    #[arg(long, conflicts_with_all = ["code", "shell", "argv"])]
    pub(super) siblings: bool,
    /// Copies these files back into --output-dir; repeatable
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',')]
    pub(super) outputs: Vec<String>,
    /// Writes images, displays and --outputs to this folder; never replaces a file
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// The working directory, in the session's
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<String>,
    #[command(flatten)]
    pub(super) env: EnvOption,
    #[command(flatten)]
    policies: PolicyOptions,
    /// How long the code may run, such as 30s or 1h30m [default: session.exec_timeout]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(super) timeout: Option<Duration>,
    /// Also prints the value of the final expression
    #[arg(long)]
    pub(super) value: bool,
    /// Prints the outcome as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Does not report missing sandbox layers or files written
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// The inputs as requests.
#[derive(Debug)]
pub(super) struct Inputs {
    /// Sets a script's arguments and input before it runs.
    pub(super) setup: Option<ExecutionRequest>,
    pub(super) input: Input,
    pub(super) request: ExecutionRequest,
    /// What Python does when a program is over, for code.
    pub(super) end: Option<ExecutionRequest>,
}

/// When standard input is read for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandInput {
    /// While it runs, unless it is answered as a whole.
    Passed,
    /// To its end, before it starts.
    ReadFirst,
    /// Not now: its own is left open for later.
    LeftOpen,
}

/// How standard input gets to what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Not at all, or it was read to its end and is in the request.
    None,
    /// The command's own is left open: it is written there as it comes.
    Open,
    /// Through a pipe of this name, which the setup opens and a command has to write to.
    Pipe(String),
}

#[derive(Debug)]
struct Script {
    /// For `sys.argv`.
    name: String,
    text: String,
    /// The file that it was read from.
    path: Option<PathBuf>,
}

impl CodeOptions {
    /// Reads everything but what standard input passes on later; `rest` is a file or a program, and
    /// its arguments.
    pub(super) fn read(
        &self,
        rest: &[String],
        command_input: CommandInput,
    ) -> Result<Inputs, Failure> {
        if !self.outputs.is_empty() && self.output_dir.is_none() && !self.json {
            return Err(usage("--outputs: say where to, with --output-dir DIR"));
        }
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|name| OutputSpec { name: name.clone(), format: None }).collect();
        let (timeout_ms, mut files) = (self.timeout.map(milliseconds), self.read_files()?);
        if self.argv || self.shell.is_some() {
            let argv = self.argv.then(|| rest.to_vec());
            if self.argv && rest.is_empty() {
                return Err(usage("--argv: what is to be run? Give a PROGRAM and its arguments"));
            }
            if let (false, Some(more)) = (self.argv, rest.first()) {
                return Err(usage(format!("{more}: --shell takes one COMMAND, quote it")));
            }
            let is_open = match command_input {
                // One that is answered as a whole has no id before its end.
                CommandInput::Passed => !self.json && !io::stdin().is_terminal(),
                CommandInput::ReadFirst => false,
                CommandInput::LeftOpen => true,
            };
            let piped = if is_open { Vec::new() } else { piped_input()? };
            let (stdin, stdin_base64) = text_or_base64(piped);
            let shell = self.shell.clone();
            let command = CommandRequest {
                argv,
                shell,
                stdin,
                stdin_base64,
                stdin_open: is_open,
                cwd: self.cwd.clone(),
                timeout_ms,
                files,
                outputs,
                ..CommandRequest::default()
            };
            let request = ExecutionRequest::Command(Box::new(command));
            let input = if is_open { Input::Open } else { Input::None };
            return Ok(Inputs { setup: None, input, request, end: None });
        }
        let (script, arguments) = self.read_script(rest)?;
        let mut filename = None;
        if let Some(path) = &script.path {
            if self.siblings {
                let folder = path.parent().unwrap_or(Path::new(""));
                files.extend(scripts::read_folder("", folder, Hidden::Skipped)?);
            }
            // Last, as it is the one to run.
            let text = Some(script.text.clone());
            files.push(FileSpec { name: script.name.clone(), text, data: None });
            filename = Some(script.name.clone());
        } else if self.siblings {
            return Err(usage("--siblings: there is no FILE that has any"));
        }
        let input = match script.name != "-" && reads_input(&script, &files) {
            true => Input::Pipe(format!(".stdin-{}", std::process::id())),
            false => Input::None,
        };
        let setup = scripts::setup(&script.name, &arguments, &input);
        let end = Some(scripts::end(filename.as_deref(), timeout_ms));
        let mut request = ExecuteRequest {
            code: script.text,
            filename,
            cwd: self.cwd.clone(),
            timeout_ms,
            files,
            outputs,
            ..ExecuteRequest::default()
        };
        self.policies.hold(&mut request);
        Ok(Inputs { setup, input, request: ExecutionRequest::Code(Box::new(request)), end })
    }

    /// The script, and the part of `rest` that is its arguments.
    fn read_script(&self, rest: &[String]) -> Result<(Script, Vec<String>), Failure> {
        if let Some(text) = &self.code {
            let script = Script { name: "-c".to_owned(), text: text.clone(), path: None };
            return Ok((script, rest.to_vec()));
        }
        let Some((name, arguments)) = rest.split_first() else {
            return Err(usage("what is to be run? Give a FILE, - for standard input, or -c CODE"));
        };
        let bytes = if name == "-" {
            bounded(&mut io::stdin().lock(), "standard input")?
        } else {
            open(name)?
        };
        let text = String::from_utf8(bytes)
            .map_err(|error| usage(format!("{name} is not UTF-8: {}", error.utf8_error())))?;
        let path = (name != "-").then(|| PathBuf::from(name));
        let name = path.as_deref().and_then(Path::file_name).unwrap_or(OsStr::new("-"));
        let script = Script { name: name.to_string_lossy().into_owned(), text, path };
        Ok((script, arguments.to_vec()))
    }

    fn read_files(&self) -> Result<Vec<FileSpec>, Failure> {
        let read: Result<Vec<_>, _> = self.files.iter().map(|given| read_file(given)).collect();
        Ok(read?.concat())
    }

    /// The folder that `--output-dir` names, created if it does not exist.
    pub(super) fn output_dir(&self) -> Result<Option<OutputDir>, Failure> {
        self.output_dir.as_deref().map(OutputDir::open).transpose()
    }
}

impl Input {
    /// Where standard input is written; starts the command that writes to the pipe, in a session
    /// that exists.
    pub(super) async fn start(&self, target: &Target, session: &str) -> Result<Reader, Failure> {
        Ok(match self {
            Self::None => Reader::Nobody,
            Self::Open => Reader::Itself,
            Self::Pipe(name) => {
                let command = scripts::pipe_writer(name);
                Reader::Command(target.start_background(session, command).await?)
            }
        })
    }
}

/// A duration of the command line, which is far from too long.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether standard input is for the code. What comes through a pipe or from a terminal may be meant
/// for others, as in the body of a loop of a shell: so only if something in the code looks like it
/// reads it.
fn reads_input(script: &Script, files: &[FileSpec]) -> bool {
    let stdin = io::stdin();
    let mut texts = files.iter().filter_map(|file| file.text.as_deref()).chain([&*script.text]);
    if stdin.is_terminal() {
        return texts.any(scripts::reads_input);
    }
    let is_file = fstat(&stdin)
        .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits());
    is_file || texts.any(scripts::may_read_input)
}

/// Standard input; empty if it is a terminal.
fn piped_input() -> Result<Vec<u8>, Failure> {
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Ok(Vec::new());
    }
    bounded(&mut stdin, "standard input")
}

/// Text if the bytes are UTF-8, else base64; neither if there are none.
fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    if bytes.is_empty() {
        return (None, None);
    }
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// A file, or those of a folder, and their names.
fn read_file(given: &str) -> Result<Vec<FileSpec>, Failure> {
    let (name, path) = match given.split_once('=') {
        Some((name, path)) => (name.to_owned(), path),
        None => {
            let name = Path::new(given).file_name().map(|name| name.to_string_lossy().into_owned());
            (
                name.ok_or_else(|| usage(format!("--file {given}: has no name; give NAME=PATH")))?,
                given,
            )
        }
    };
    if Path::new(path).is_dir() {
        return scripts::read_folder(&name, Path::new(path), Hidden::Copied);
    }
    Ok(vec![file_spec(name, open(path)?)])
}

fn file_spec(name: String, content: Vec<u8>) -> FileSpec {
    let (text, data) = match text_or_base64(content) {
        (None, None) => (Some(String::new()), None),
        content => content,
    };
    FileSpec { name, text, data }
}

fn open(path: &str) -> Result<Vec<u8>, Failure> {
    let mut file =
        File::open(path).map_err(|error| usage(format!("cannot open {path}: {error}")))?;
    bounded(&mut file, path)
}

fn bounded(source: &mut dyn Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| usage(format!("cannot read {name}: {error}")))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= MAX_BYTES) {
        Ok(bytes)
    } else {
        Err(usage(format!("{name} is larger than {} MiB", MAX_BYTES >> 20)))
    }
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::says(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_name_unless_another_is_given() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data.csv");
        std::fs::write(&path, "a,b").unwrap();
        let path = path.to_str().unwrap();
        let [own] = <[_; 1]>::try_from(read_file(path).unwrap()).unwrap();
        assert_eq!((own.name.as_str(), own.text.as_deref()), ("data.csv", Some("a,b")));
        assert_eq!(read_file(&format!("x/y.csv={path}")).unwrap()[0].name, "x/y.csv");
        std::fs::write(path, [0xff, 0]).unwrap();
        assert_eq!(read_file(path).unwrap()[0].data.as_deref(), Some("/wA="));
        assert!(read_file("/").is_err());
    }
}
