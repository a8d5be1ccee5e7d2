//! The code and files for `run` and `exec`, read before the rights of the user who started us are
//! given up.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use vivarium_api_types::{CommandRequest, ExecuteRequest, FileSpec, OutputSpec};
use vivarium_server::config::duration;

use super::exit::{Exit, Failure};
use super::output_dir::OutputDir;
use super::target::ExecutionRequest;

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
    /// Copies a file into the working directory first; repeatable
    #[arg(long = "file", value_name = "[NAME=]PATH")]
    pub(super) files: Vec<String>,
    /// Copies these files back into --output-dir; repeatable
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',')]
    pub(super) outputs: Vec<String>,
    /// Writes images, displays and --outputs to this folder; never replaces a file
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// How long the code may run, such as 30s
    #[arg(long, value_name = "TIME")]
    pub(super) timeout: Option<String>,
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
    /// Sets a script's arguments before it runs.
    pub(super) setup: Option<ExecutionRequest>,
    pub(super) request: ExecutionRequest,
}

#[derive(Debug)]
struct Script {
    name: String,
    text: String,
}

impl CodeOptions {
    /// Reads everything; `rest` is a file or a program, and its arguments.
    pub(super) fn read(&self, rest: &[String]) -> Result<Inputs, Failure> {
        if !self.outputs.is_empty() && self.output_dir.is_none() && !self.json {
            return Err(usage("--outputs: say where to, with --output-dir DIR"));
        }
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|name| OutputSpec { name: name.clone(), format: None }).collect();
        let (timeout_ms, files) = (self.timeout_ms()?, self.read_files()?);
        if self.argv || self.shell.is_some() {
            let argv = self.argv.then(|| rest.to_vec());
            if self.argv && rest.is_empty() {
                return Err(usage("--argv: what is to be run? Give a PROGRAM and its arguments"));
            }
            if let (false, Some(more)) = (self.argv, rest.first()) {
                return Err(usage(format!("{more}: --shell takes one COMMAND, quote it")));
            }
            let (stdin, stdin_base64) = text_or_base64(piped_input()?);
            let shell = self.shell.clone();
            let command = CommandRequest {
                argv,
                shell,
                stdin,
                stdin_base64,
                timeout_ms,
                files,
                outputs,
                ..CommandRequest::default()
            };
            return Ok(Inputs { setup: None, request: ExecutionRequest::Command(command) });
        }
        let (script, arguments) = self.read_script(rest)?;
        let needs_argv = !arguments.is_empty() || script.name != "-c";
        let setup = needs_argv.then(|| ExecutionRequest::code(set_argv(&script, &arguments)));
        let request = ExecuteRequest {
            code: script.text,
            timeout_ms,
            files,
            outputs,
            ..ExecuteRequest::default()
        };
        Ok(Inputs { setup, request: ExecutionRequest::Code(request) })
    }

    /// The script, and the part of `rest` that is its arguments.
    fn read_script(&self, rest: &[String]) -> Result<(Script, Vec<String>), Failure> {
        if let Some(text) = &self.code {
            return Ok((Script { name: "-c".to_owned(), text: text.clone() }, rest.to_vec()));
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
        Ok((Script { name: name.clone(), text }, arguments.to_vec()))
    }

    fn read_files(&self) -> Result<Vec<FileSpec>, Failure> {
        self.files.iter().map(|given| read_file(given)).collect()
    }

    pub(super) fn timeout_ms(&self) -> Result<Option<u64>, Failure> {
        self.timeout.as_deref().map(timeout_ms).transpose()
    }

    /// The folder that `--output-dir` names, created if it does not exist.
    pub(super) fn output_dir(&self) -> Result<Option<OutputDir>, Failure> {
        self.output_dir.as_deref().map(OutputDir::open).transpose()
    }
}

/// Parses a duration into milliseconds.
pub(super) fn timeout_ms(text: &str) -> Result<u64, Failure> {
    let timeout: Duration = duration::parse(text).map_err(|e| Failure::new(Exit::Usage, &e))?;
    u64::try_from(timeout.as_millis()).map_err(|_| usage(format!("{text}: too long")))
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

fn read_file(given: &str) -> Result<FileSpec, Failure> {
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
    let (text, data) = match text_or_base64(open(path)?) {
        (None, None) => (Some(String::new()), None),
        content => content,
    };
    Ok(FileSpec { name, text, data })
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

/// Code that sets `sys.argv`. It is executed before the script: inside, it would shift the line
/// numbers of tracebacks.
fn set_argv(script: &Script, arguments: &[String]) -> String {
    let all: Vec<String> =
        [&script.name].into_iter().chain(arguments).map(|text| literal(text)).collect();
    format!("__import__('sys').argv[:] = [{}]", all.join(", "))
}

/// `text` as a Python string literal.
fn literal(text: &str) -> String {
    let mut literal = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => literal.extend(['\\', c]),
            c if c.is_control() => literal.push_str(&format!("\\U{:08x}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_arguments_cannot_leave_their_string_literals() {
        let script = Script { name: "a.py".into(), text: String::new() };
        let arguments = ["it's".to_owned(), "\\' + x\n".to_owned(), "é".to_owned()];
        assert_eq!(
            set_argv(&script, &arguments),
            "__import__('sys').argv[:] = ['a.py', 'it\\'s', '\\\\\\' + x\\U0000000a', 'é']"
        );
    }

    #[test]
    fn files_keep_their_name_unless_another_is_given() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data.csv");
        std::fs::write(&path, "a,b").unwrap();
        let path = path.to_str().unwrap();
        let own = read_file(path).unwrap();
        assert_eq!((own.name.as_str(), own.text.as_deref()), ("data.csv", Some("a,b")));
        assert_eq!(read_file(&format!("x/y.csv={path}")).unwrap().name, "x/y.csv");
        std::fs::write(path, [0xff, 0]).unwrap();
        assert_eq!(read_file(path).unwrap().data.as_deref(), Some("/wA="));
        assert!(read_file("/").is_err());
    }
}
