//! `vivarium shell`: a shell, or another program, on a terminal in a session of a daemon.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use ratatui::crossterm::terminal::size;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vivarium_api_types::{CommandRequest, PtySize, SessionSpec};
use vivarium_client::{Client, Event, Execution, Remote};

use super::exit::{Exit, Failure};
use super::options::UrlOption;
use super::outcome::OutcomeSummary;
use super::target::{self, Target};
use super::terminal::{ScreenFilter, escape};

/// What runs if nothing else is named: the better shell of those that most systems have.
const SHELL: [&str; 3] = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"];

/// How many bytes of keys are read at a time.
const KEYS_BYTES: usize = 4096;

/// Pieces of input that may wait for a slow daemon; then the keyboard is not read.
const INPUT_QUEUE: usize = 64;

/// Where, and what.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vivarium shell s1
  vivarium shell --create s1 -- python3 -q")]
pub(super) struct Args {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The program and its arguments; a shell if not given
    #[arg(value_name = "PROGRAM", last = true)]
    argv: Vec<String>,
    /// Creates the session if it does not exist
    #[arg(long)]
    create: bool,
    /// The working directory, in the workdir
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    #[command(flatten)]
    url: UrlOption,
}

/// What goes to the program.
#[derive(Debug)]
enum Input {
    Keys(Vec<u8>),
    Size(PtySize),
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let message = "`shell` needs a terminal; to run a command without one: vivarium exec";
        return Err(Failure::says(Exit::Usage, message));
    }
    let remote = args.url.or_configured()?;
    target::block_on(async {
        if args.create {
            Target::Daemon(remote.clone())
                .find_or_create(&args.session, SessionSpec::default())
                .await?;
        }
        let argv = if args.argv.is_empty() {
            SHELL.map(ToOwned::to_owned).to_vec()
        } else {
            args.argv.clone()
        };
        let request = CommandRequest {
            argv: Some(argv),
            cwd: args.cwd.clone(),
            pty: Some(own_size()),
            stdin_open: true,
            cancel_on_disconnect: true,
            ..CommandRequest::default()
        };
        let client = Client::new(remote.clone());
        let execution = Execution::of_command(client, &args.session, &request).await?;
        let raw = RawMode::enter()?;
        let ended = attach(execution, &remote).await;
        drop(raw);
        ended
    })
}

fn own_size() -> PtySize {
    let (columns, rows) = size().unwrap_or((80, 24));
    PtySize { columns: columns.max(1), rows: rows.max(1) }
}

/// The terminal passes keys on as they are, until this is dropped.
struct RawMode {
    before: Termios,
}

impl RawMode {
    fn enter() -> Result<Self, Failure> {
        let failed = |error: nix::Error| Failure::new(Exit::Error, &error);
        let before = tcgetattr(std::io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(std::io::stdin(), SetArg::TCSANOW, &raw).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &self.before).unwrap_or_default();
    }
}

/// Shows what the program prints and passes on what is typed, until it ends.
async fn attach(mut execution: Execution, remote: &Remote) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::Error, &error);
    let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
    let (mut stdin, mut keys) = (tokio::io::stdin(), vec![0; KEYS_BYTES]);
    let (to_program, mut input) = mpsc::channel(INPUT_QUEUE);
    let mut filter = ScreenFilter::default();
    let (mut is_typing, mut sender) = (true, None);
    let done = loop {
        tokio::select! {
            event = execution.next() => match event? {
                Some(Event::Started(started)) => {
                    let ids = [started.session_id, started.execution_id].map(Cow::into_owned);
                    let (_, receiver) = mpsc::channel(1);
                    let input = std::mem::replace(&mut input, receiver);
                    sender = Some(tokio::spawn(send(Client::new(remote.clone()), ids, input)));
                }
                Some(Event::Stdout(text) | Event::Stderr(text)) => {
                    let mut shown = String::with_capacity(text.len());
                    filter.pass(&text, &mut shown);
                    show(&shown)?;
                }
                Some(Event::Done(done)) => break done,
                Some(_) => {}
                None => return Err(Failure::says(Exit::Error, "the execution has no end")),
            },
            read = stdin.read(&mut keys), if is_typing => match read {
                Ok(count @ 1..) => {
                    let typed = keys.get(..count).unwrap_or_default().to_vec();
                    is_typing = to_program.send(Input::Keys(typed)).await.is_ok();
                }
                _ => is_typing = false,
            },
            _ = resized.recv() => drop(to_program.try_send(Input::Size(own_size()))),
        }
    };
    show(filter.finish())?;
    if let Some(sender) = sender {
        sender.abort();
    }
    let summary = OutcomeSummary::new(&done, None);
    if let Some(why) = summary.explain() {
        show(&format!("{}\r\n", escape(&why)))?;
    }
    Ok(summary.exit())
}

fn show(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let shown = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    shown.map_err(|_| Failure::quiet(Exit::Error))
}

/// Sends what is typed in its order. What the daemon refuses is lost: the program is about to end, or
/// reads nothing.
async fn send(mut client: Client, [session, id]: [String; 2], mut input: mpsc::Receiver<Input>) {
    let mut next = input.recv().await;
    while let Some(first) = next.take() {
        let sent = match first {
            Input::Keys(mut keys) => {
                // One request for all that was typed meanwhile.
                while let Ok(more) = input.try_recv() {
                    match more {
                        Input::Keys(more) => keys.extend(more),
                        other => {
                            next = Some(other);
                            break;
                        }
                    }
                }
                client.write_stdin(&session, &id, keys, false).await.map(drop)
            }
            Input::Size(size) => client.resize(&session, &id, size).await,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "what was typed was not taken");
        }
        if next.is_none() {
            next = input.recv().await;
        }
    }
}
