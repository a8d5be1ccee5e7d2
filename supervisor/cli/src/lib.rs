//! The command line: parses arguments, calls the engine or a daemon, and prints the result. It
//! makes no decisions about sandboxing.
//!
//! Standard output is for the result, standard error for everything else. A reader that goes away
//! (`| head`) ends a command quietly.

#![forbid(unsafe_code)]

mod admin;
mod approvals;
#[cfg(feature = "interactive")]
mod attach;
mod audit;
mod bench;
mod branch;
mod checkpoints;
mod config;
mod contexts;
mod doctor;
mod embedded;
mod environments;
mod exec;
mod executions;
mod exit;
mod files;
mod gate;
mod homes;
mod human;
mod images;
mod input;
mod inputs;
mod invocation;
mod mcp;
mod options;
mod outcome;
mod output_dir;
mod print;
mod printer;
#[cfg(feature = "interactive")]
mod repl;
mod run;
mod serve;
mod sessions;
mod shell;
mod target;
mod tenant;
mod terminal;
#[cfg(feature = "interactive")]
mod top;
mod transfer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Exit;

const EXAMPLES: &str = "\
Examples:
  vivarium doctor
  vivarium run -c 'print(6 * 7)'
  vivarium repl
  vivarium serve";

/// Exit codes, for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
    0  success: the code ran to its end
    1  the code raised an exception; a file of --outputs is missing; `doctor`: a layer is
       missing; any other error
       (code that calls sys.exit(N), or a command that exits with N, gives N)
    2  wrong usage, or an error in the configuration
    3  no sandbox, no daemon, or no room for a session; `doctor`: a daemon would not start
  124  the code exceeded its time
  130  interrupted
  137  the code's process was killed or died";

/// For `--help` of a command that runs code.
fn examples_and_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}

/// Runs untrusted Python in a sandbox.
#[derive(Debug, Parser)]
#[command(
    name = "vivarium",
    version,
    after_help = examples_and_exit_codes(EXAMPLES),
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the HTTP API.
    Serve(serve::Args),
    /// Runs code or a command in a sandbox of its own.
    Run(Box<run::Args>),
    /// Runs code or a command in a session of a daemon.
    Exec(Box<exec::Args>),
    /// Opens a Python prompt in a sandbox.
    #[cfg(feature = "interactive")]
    Repl(Box<repl::Args>),
    /// Opens a shell, or another program, on a terminal in a session of a daemon.
    #[cfg(feature = "interactive")]
    Shell(attach::Args),
    /// Manages the sessions of a daemon.
    #[command(subcommand)]
    Sessions(sessions::Command),
    /// Makes sessions from the state of another, and prints their ids.
    Branch(branch::Args),
    /// Manages the checkpoints of a session of a daemon: what it was, to go back to.
    #[command(subcommand)]
    Checkpoints(checkpoints::Command),
    /// Has a session be what it was at a checkpoint, memory and files; what runs in it ends.
    Rollback(checkpoints::One),
    /// Manages images: what there is on disk of a daemon's suspended sessions.
    #[command(subcommand)]
    Images(images::Command),
    /// Manages the contexts of a session of a daemon: kernels beside each other.
    #[command(subcommand)]
    Contexts(contexts::Command),
    /// Manages what runs in a session of a daemon.
    #[command(subcommand)]
    Executions(executions::Command),
    /// Lists and decides calls that wait for approval.
    #[command(subcommand)]
    Approvals(approvals::Command),
    /// Watches a daemon.
    #[cfg(feature = "interactive")]
    Top(top::Args),
    /// Manages the files of a daemon's sessions.
    #[command(subcommand)]
    Files(files::Command),
    /// Manages homes: files that outlive a daemon's sessions.
    #[command(subcommand)]
    Homes(homes::Command),
    /// Manages volumes: files that a daemon's sessions share.
    #[command(subcommand)]
    Volumes(homes::VolumeCommand),
    /// Builds and manages environments: packages that sessions can import.
    #[command(subcommand)]
    Env(environments::Command),
    /// Serves the Model Context Protocol on standard input and output, for agents.
    Mcp(mcp::Args),
    /// Says which layers of the sandbox this host offers, and how to get the others.
    Doctor(doctor::Args),
    /// Serves as the egress gate of a daemon, which starts it.
    #[command(hide = true)]
    Gate(gate::Args),
    /// Measures what sessions cost on this host.
    Bench(bench::Args),
    /// Administers a daemon: its status, tenants and their usage, pauses, drains, tokens.
    #[command(subcommand)]
    Admin(admin::Command),
    /// Creates tokens for tenants.
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Verifies and reads the audit log of this host.
    #[command(subcommand)]
    Audit(audit::Command),
    /// Prints and checks the configuration.
    #[command(subcommand)]
    Config(config::Command),
    /// Prints completions for a shell.
    Completions(shell::CompletionsArgs),
    /// Writes the manual pages.
    Man(shell::ManArgs),
}

/// Runs the command line of this process. Must be called with no other thread running.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let exit = match cli.command {
        Command::Serve(args) => serve::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Exec(args) => exec::main(&args),
        #[cfg(feature = "interactive")]
        Command::Repl(args) => repl::main(&args),
        #[cfg(feature = "interactive")]
        Command::Shell(args) => attach::main(&args),
        #[cfg(feature = "interactive")]
        Command::Top(args) => top::main(&args),
        Command::Files(command) => files::main(&command),
        Command::Homes(command) => homes::main(&command),
        Command::Volumes(command) => homes::main_volumes(&command),
        Command::Sessions(command) => sessions::main(&command),
        Command::Branch(args) => branch::main(&args),
        Command::Checkpoints(command) => checkpoints::main(&command),
        Command::Rollback(args) => checkpoints::rollback(&args),
        Command::Images(command) => images::main(&command),
        Command::Contexts(command) => contexts::main(&command),
        Command::Executions(command) => executions::main(&command),
        Command::Approvals(command) => approvals::main(&command),
        Command::Env(command) => environments::main(&command),
        Command::Mcp(args) => mcp::main(&args),
        Command::Gate(args) => gate::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Admin(command) => admin::main(&command),
        Command::Tenant(command) => tenant::main(&command),
        Command::Audit(command) => audit::main(&command),
        Command::Config(command) => config::main(&command),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    };
    vivarium_server::logging::flush();
    exit.unwrap_or_else(|error| print::failure(&error)).into()
}

/// `--help` and `--version` are no errors, and go to standard output.
fn usage(error: &clap::Error) -> ExitCode {
    let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
    // A reader that is gone does not need to know.
    error.print().unwrap_or_default();
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_declared_consistently() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_after_the_file_belong_to_the_script() {
        let cli = Cli::try_parse_from(["vivarium", "run", "-q", "a.py", "--json", "-c", "x"]);
        let Ok(Cli { command: Command::Run(args) }) = cli else { panic!("{cli:?}") };
        assert_eq!(args.script(), ["a.py", "--json", "-c", "x"]);
        let cli = Cli::try_parse_from(["vivarium", "exec", "s1", "-c", "-1", "--json", "arg"]);
        let Ok(Cli { command: Command::Exec(args) }) = cli else { panic!("{cli:?}") };
        assert_eq!(args.script(), ["arg"]);
        assert!(Cli::try_parse_from(["vivarium", "run", "--jsn", "a.py"]).is_err());
        assert!(Cli::try_parse_from(["vivarium", "run", "-"]).is_ok());
    }

    #[test]
    fn the_examples_of_the_help_are_understood() {
        fn examples(command: &clap::Command, found: &mut Vec<String>) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = after.lines().filter_map(|line| line.strip_prefix("  "));
            found.extend(lines.filter(|line| line.contains("vivarium ")).map(str::to_owned));
            command.get_subcommands().for_each(|command| examples(command, found));
        }
        let mut found = Vec::new();
        examples(&Cli::command(), &mut found);
        assert!(found.len() > 15, "{found:?}");
        for example in found {
            let start = example.find("vivarium ").unwrap_or_default();
            let mut words = Vec::new();
            for (number, part) in example[start..].split('\'').enumerate() {
                if number % 2 == 1 {
                    words.push(part);
                    continue;
                }
                let end = part.find([')', '>', '|']);
                words.extend(part[..end.unwrap_or(part.len())].split_whitespace());
                if end.is_some() {
                    break;
                }
            }
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{example}");
        }
    }

    #[test]
    fn the_exit_codes_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");
        let page = std::fs::read_to_string(path).unwrap();
        for line in EXIT_CODES.lines().skip(1) {
            assert!(page.contains(line.trim()), "{line}");
        }
        for command in Cli::command().get_subcommands().filter(|one| !one.is_hide_set()) {
            assert!(page.contains(&format!("vivarium {}", command.get_name())), "{command}");
        }
    }
}
