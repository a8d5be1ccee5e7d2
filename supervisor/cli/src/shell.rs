//! `vivarium completions` and `vivarium man`: what an installation offers a shell and man(1), made
//! from the declared arguments.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::exit::{Exit, Failure};
use super::{Cli, print};

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vivarium completions bash >/etc/bash_completion.d/vivarium
  vivarium completions zsh >\"${fpath[1]}/_vivarium\"
  vivarium completions fish >~/.config/fish/completions/vivarium.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Where to.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vivarium man /usr/local/share/man/man1")]
pub(super) struct ManArgs {
    /// A folder, created if it does not exist; pages that it has are replaced
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vivarium", &mut script);
    print::out(&script)?;
    Ok(Exit::Ok)
}

pub(super) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let written = fs::create_dir_all(&args.dir).and_then(|()| pages(command, &args.dir));
    let dir = args.dir.display();
    written.map_err(|error| Failure::says(Exit::Error, format!("cannot write {dir}: {error}")))?;
    Ok(Exit::Ok)
}

/// Writes the page of a command, and those of its subcommands. They have no date, so that a build
/// can be repeated.
fn pages(command: Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        pages(subcommand.clone(), dir)?;
    }
    let title = command.get_display_name().unwrap_or(command.get_name()).to_uppercase();
    let source = concat!("Vivarium ", env!("CARGO_PKG_VERSION"));
    Man::new(command).title(title).source(source).manual("Vivarium").generate_to(dir).map(drop)
}
