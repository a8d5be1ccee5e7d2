//! `vivarium exec`: runs code, or a command, in a session of a daemon.

use vivarium_api_types::{ApprovalSpec, BackgroundReply, CommandRequest, SessionSpec};

use super::exit::{Exit, Failure};
use super::input::Reader;
use super::inputs::{CodeOptions, CommandInput, Input, Inputs};
use super::invocation::{IfUnresponsive, Invocation};
use super::options::{SessionOptions, UrlOption};
use super::outcome::check_setup;
use super::output_dir::OutputDir;
use super::print;
use super::target::{self, ExecutionRequest, Target};

const EXAMPLES: &str = "\
Examples:
  vivarium exec --create demo -c 'x = 6 * 7'
  vivarium exec --value demo -c x
  vivarium exec --env TZ=UTC --cwd logs demo --shell 'date >>times'
  vivarium exec --create --context plots demo -c 'print(6 * 7)'
  id=$(vivarium exec --background demo --argv python3 -m http.server 8000)";

/// What is run, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = super::examples_and_exit_codes(EXAMPLES), override_usage = "vivarium exec [OPTIONS] <SESSION> <FILE|-|-c CODE|--shell COMMAND|--argv PROGRAM> [ARGUMENTS]...")]
pub(super) struct Args {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A Python file, or - for standard input, and its arguments
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    /// Creates the session if it does not exist, with the options of a new one
    #[arg(long)]
    create: bool,
    /// The context that runs the code, not a command; --create opens it if needed [default: main]
    #[arg(long, value_name = "CONTEXT", conflicts_with_all = ["shell", "argv", "background"])]
    context: Option<String>,
    /// Starts a command beside the session's code, prints its id and leaves it running
    #[arg(long, conflicts_with_all = ["code", "output_dir", "outputs", "value"])]
    background: bool,
    /// Leaves the standard input of a command in the background open, for `vivarium executions`
    #[arg(short, long, requires = "background")]
    interactive: bool,
    /// Lets a command in the background go on when the session is reset
    #[arg(long, requires = "background")]
    survives_reset: bool,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    new_session: SessionOptions,
}

#[cfg(test)]
impl Args {
    pub(super) fn script(&self) -> &[String] {
        &self.rest
    }
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let mut spec = args.new_session.spec();
    // That rule is for what is run, in whichever session.
    if let Some(approval) = &mut spec.approval {
        approval.executions = None;
    }
    spec.approval = spec.approval.filter(|approval| *approval != ApprovalSpec::default());
    let is_plain = spec == SessionSpec::default();
    if !is_plain && !args.create {
        let why = "--network, --environment and limits are a new session's: add --create, which \
                   creates the session if there is none";
        return Err(Failure::says(Exit::Usage, why));
    }
    if args.background && args.code.shell.is_none() && !args.code.argv {
        let why = "--background is for commands: give --shell COMMAND or --argv PROGRAM";
        return Err(Failure::says(Exit::Usage, why));
    }
    let command_input = match (args.background, args.interactive) {
        (false, _) => CommandInput::Passed,
        (true, false) => CommandInput::ReadFirst,
        (true, true) => CommandInput::LeftOpen,
    };
    // The session goes on: its threads and exit functions do too.
    let mut inputs = args.code.read(&args.rest, command_input)?;
    inputs.request.set_env(args.code.env.read()?);
    inputs.request.set_approval(args.new_session.approval_executions());
    inputs.request.set_context(args.context.clone());
    if let Some(setup) = &mut inputs.setup {
        setup.set_context(args.context.clone());
    }
    let output_dir = args.code.output_dir()?;
    let target = Target::Daemon(args.url.or_configured()?);
    target::block_on(async {
        let (session, mut create) = (args.session.as_str(), args.create);
        let mut is_new = false;
        // The route of code creates sessions without options, that of commands none.
        let is_code = matches!(inputs.request, ExecutionRequest::Code(_));
        let is_main = args.context.is_none();
        if create && !(is_plain && is_code && is_main && inputs.input == Input::None) {
            (_, is_new) = target.find_or_create(session, spec).await?;
            if let Some(context) = &args.context {
                target.find_or_open(session, context).await?;
            }
            create = false;
        }
        if let (true, ExecutionRequest::Command(command)) = (args.background, &inputs.request) {
            return start_background(&target, args, command).await;
        }
        let reader = inputs.input.start(&target, session).await?;
        let ended = perform(&target, args, inputs, output_dir, reader.clone(), create, is_new);
        let ended = ended.await;
        if let Reader::Command(id) = reader {
            // It may have more than the code has read.
            target.kill(session, &id).await;
        }
        ended
    })
}

async fn perform(
    target: &Target,
    args: &Args,
    inputs: Inputs,
    output_dir: Option<OutputDir>,
    reader: Reader,
    mut create: bool,
    mut is_new: bool,
) -> Result<Exit, Failure> {
    let (session, mut setup) = (args.session.as_str(), None);
    if let Some(request) = inputs.setup {
        let outcome = target.execute(session, request, create).await?;
        check_setup(&outcome)?;
        is_new |= outcome.session_created;
        setup = Some(outcome);
        create = false;
    }
    let (request, end) = (inputs.request, None);
    let invocation = Invocation { target, session, request, create, is_new, setup, reader, end };
    invocation.perform(&args.code, output_dir, IfUnresponsive::Leave).await
}

async fn start_background(
    target: &Target,
    args: &Args,
    command: &CommandRequest,
) -> Result<Exit, Failure> {
    let survives_reset = args.survives_reset;
    let command = CommandRequest { background: true, survives_reset, ..command.clone() };
    let execution_id = target.start_background(&args.session, command).await?;
    if args.code.json {
        print::json(&BackgroundReply { session_id: args.session.clone(), execution_id })?;
    } else {
        print::out(format!("{execution_id}\n").as_bytes())?;
    }
    Ok(Exit::Ok)
}
