//! `vivarium repl`: a prompt for a session in this process or in a daemon, or piped lines for it.

mod checkpoints;
mod continuation;
mod editor;
mod helper;
mod history;
mod images;
mod input;
mod piped;
mod read_eval;
mod screen;
mod syntax;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use vivarium_api_types::{SessionInfo, SessionSpec};
use vivarium_config::duration;

use super::embedded;
use super::exit::{Exit, Failure};
use super::options::{ConfigOptions, EnvOption, SessionOptions, UrlOption};
use super::outcome;
use super::output_dir::OutputDir;
use super::print;
use super::printer::Printer;
use super::target::{self, Target};

use editor::LineEditor;
use history::History;
use images::ImageProtocol;
use read_eval::{ReadEvalLoop, Signals};
use screen::Screen;

/// How often an open prompt restarts the session's idle time.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// Which session.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vivarium repl
  vivarium repl --url unix:/run/vivarium/api.sock demo
  echo 'x = 6 * 7' | vivarium repl demo

Images are shown by kitty's graphics protocol (kitty, Ghostty, Konsole, WezTerm), as iTerm2's
inline images (iTerm2, WezTerm, VS Code, mintty), or written to files.

At the prompt, :help lists the commands. Lines that are piped into repl are run, statement by
statement; the exit code is then that of the last.")]
pub(super) struct Args {
    /// A session of a daemon; created if it does not exist, and kept at the end
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// A context of the session; opened if there is none [default: main]
    #[arg(long, value_name = "CONTEXT", requires = "session")]
    context: Option<String>,
    /// Keeps the session at the end
    #[arg(long)]
    keep: bool,
    /// How long each input may run, such as 10m [default: session.exec_timeout]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// How images are shown [default: what the terminal supports]
    #[arg(long, value_name = "HOW", value_enum)]
    images: Option<ImageProtocol>,
    /// Writes images and displays to this folder; never replaces a file
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    env: EnvOption,
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    session_options: SessionOptions,
    #[command(flatten)]
    config: ConfigOptions,
}

/// What is read and opened before the program gives up the rights it was started with.
struct Plan {
    session: Option<String>,
    context: Option<String>,
    is_kept: bool,
    timeout: Option<Duration>,
    spec: SessionSpec,
    images: Option<ImageProtocol>,
    output_dir: Option<OutputDir>,
    /// None if standard input is no terminal.
    history: Option<History>,
    started_in: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let is_piped = !std::io::stdin().is_terminal();
    if !is_piped && !std::io::stdout().is_terminal() {
        return Err(Failure::says(
            Exit::Usage,
            "the prompt needs a terminal: pipe the lines into repl, or use run and exec",
        ));
    }
    let plan = Plan {
        session: args.session.clone(),
        context: args.context.clone(),
        is_kept: args.keep || args.session.is_some(),
        timeout: args.timeout,
        spec: SessionSpec { env: args.env.read()?, ..args.session_options.spec() },
        images: args.images,
        output_dir: args.output_dir.as_deref().map(OutputDir::open).transpose()?,
        history: (!is_piped).then(History::open),
        started_in: std::env::current_dir().ok(),
    };
    if let Some(remote) = args.url.named()? {
        args.config.sandbox.refuse_for(&remote)?;
        return target::block_on(interact(&Target::Daemon(remote), plan));
    }
    if plan.is_kept {
        return Err(Failure::says(
            Exit::Usage,
            "a session that is to be named or kept needs a daemon: --url or VIVARIUM_URL",
        ));
    }
    let (spec, timeout) = (&plan.spec, plan.timeout);
    let settings = embedded::prepare(&args.config, spec, timeout, plan.output_dir.as_ref())?;
    target::block_on(embedded::with_engine(settings, async |target| interact(&target, plan).await))
}

async fn interact(target: &Target, plan: Plan) -> Result<Exit, Failure> {
    let Plan { session, context, is_kept, timeout, spec, images, output_dir, history, started_in } =
        plan;
    let info = open(target, session, spec).await?;
    if let Some(context) = &context {
        target.find_or_open(&info.id, context).await?;
    }
    if let Some(line) = outcome::missing_layers(&info.protection) {
        print::note(&line);
    }
    let started_in = started_in.filter(|dir| std::env::current_dir().is_ok_and(|now| now != *dir));
    let is_prompt = history.is_some();
    let has_colour = is_prompt && wants_colour();
    let (screen_dir, printer_dir) = if is_prompt { (output_dir, None) } else { (None, output_dir) };
    let screen = Screen::new(has_colour, images, screen_dir);
    let mut read_eval = ReadEvalLoop {
        target,
        session: info.id.clone(),
        context,
        screen,
        signals: Signals::listen()?,
        timeout,
        started_in,
        number: info.usage.executions + 1,
        is_kept,
    };
    let reading = async {
        match history {
            Some(history) => {
                let editor = LineEditor::start(history, has_colour)?;
                read_eval.run(editor).await.map(|()| Exit::Ok)
            }
            None => read_eval.run_lines(Printer::new(printer_dir, true, false)).await,
        }
    };
    let ended = tokio::select! {
        ended = reading => ended,
        () = keep_alive(target, &info.id) => Ok(Exit::Ok),
    };
    if read_eval.is_kept {
        print::note(&format!("session {} is kept", info.id));
    } else if let Err(failure) = target.delete(&info.id).await {
        // It may be gone already.
        tracing::debug!(?failure, "the session was not deleted");
    }
    ended
}

/// The session of this name, or a new one.
async fn open(
    target: &Target,
    session: Option<String>,
    spec: SessionSpec,
) -> Result<SessionInfo, Failure> {
    match session {
        Some(id) => target.find_or_create(&id, spec).await.map(|(info, _)| info),
        None => target.create(spec).await,
    }
}

/// Keeps the session alive, and never returns.
async fn keep_alive(target: &Target, session: &str) {
    loop {
        tokio::time::sleep(KEEPALIVE).await;
        if let Err(failure) = target.keepalive(session).await {
            tracing::debug!(why = failure.message(), "not kept alive");
        }
    }
}

/// Whether to use colours: not with `NO_COLOR` (no-color.org), nor on a terminal without them.
fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}
