//! One execution of `run` or `exec`, from its request to the exit code, and Ctrl-C meanwhile.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use vivarium_api_types::Outcome;

use super::exit::{Exit, Failure};
use super::input::{self, AtEnd, Reader};
use super::inputs::CodeOptions;
use super::outcome::{OutcomeSummary, lost_before};
use super::output_dir::OutputDir;
use super::print;
use super::printer::Printer;
use super::target::{ExecutionRequest, Target};

/// Time for the outcome of an ended execution to arrive.
const OUTCOME_WITHIN: Duration = Duration::from_millis(500);

/// The fate of a session whose code ignores an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfUnresponsive {
    /// `run`: the session is ours alone.
    Delete,
    /// `exec`: the session belongs to others too.
    Leave,
}

#[derive(Debug)]
pub(super) struct Invocation<'a> {
    pub(super) target: &'a Target,
    pub(super) session: &'a str,
    pub(super) request: ExecutionRequest,
    /// Whether to create the session if it does not exist.
    pub(super) create: bool,
    /// Whether the session was created for it already.
    pub(super) is_new: bool,
    /// The outcome of the setup that ran first, which counts as part of this execution.
    pub(super) setup: Option<Outcome>,
    pub(super) reader: Reader,
    /// What is executed after it, as its end, unless it was stopped.
    pub(super) end: Option<ExecutionRequest>,
}

impl Invocation<'_> {
    /// Prints its events as they come, or its outcome as JSON.
    pub(super) async fn perform(
        self,
        options: &CodeOptions,
        output_dir: Option<OutputDir>,
        if_unresponsive: IfUnresponsive,
    ) -> Result<Exit, Failure> {
        let Self { target, session, request, create, is_new, setup, reader, end } = self;
        let context = request.context().map(str::to_owned);
        let place = (session, context.as_deref());
        let mut printer = Printer::new(output_dir, options.value, options.quiet);
        let started = printer.started();
        let forwarding = async {
            let id = match &reader {
                Reader::Nobody => return Ok(true),
                Reader::Itself => match started.await {
                    Ok(id) => id,
                    // It never began.
                    Err(_) => return Ok(false),
                },
                Reader::Command(id) => id.clone(),
            };
            input::forward(target, session, &id, AtEnd::Close).await
        };
        if !options.json {
            let before = setup.as_ref().and_then(|setup| setup.kernel.as_ref());
            if let Some(lost) = lost_before(before, None) {
                print::note(&lost);
            }
            let execution = async {
                let exit = printer.follow(target.start(session, request, create).await?).await?;
                let Some(end) = end.filter(|_| exit.is_by_itself()) else { return Ok(exit) };
                let ended = printer.follow(target.start(session, end, false).await?).await?;
                Ok(if ended.is_by_itself() { exit } else { ended })
            };
            let execution = input::beside(execution, forwarding);
            return interruptible(target, place, if_unresponsive, execution).await;
        }
        let execution = async {
            let mut outcome = target.execute(session, request, create).await?;
            let exit = OutcomeSummary::from(&outcome).exit();
            if let Some(end) = end.filter(|_| exit.is_by_itself()) {
                append(&mut outcome, target.execute(session, end, false).await?);
            }
            Ok(outcome)
        };
        let execution = input::beside(execution, forwarding);
        let mut outcome = interruptible(target, place, if_unresponsive, execution).await?;
        outcome.session_created |= is_new;
        if let (Some(kernel), Some(before)) = (&mut outcome.kernel, setup.and_then(|it| it.kernel))
        {
            kernel.fresh |= before.fresh && before.generation == kernel.generation;
        }
        print::json(&outcome)?;
        let exit = OutcomeSummary::from(&outcome).exit();
        printer.save_all(&outcome);
        Ok(exit)
    }
}

/// Adds what was printed at the end of a program, and why it did not come to its end.
fn append(outcome: &mut Outcome, end: Outcome) {
    outcome.stdout.push_str(&end.stdout);
    outcome.stderr.push_str(&end.stderr);
    outcome.stdout_truncated |= end.stdout_truncated;
    outcome.stderr_truncated |= end.stderr_truncated;
    if !OutcomeSummary::from(&end).exit().is_by_itself() {
        outcome.status = end.status;
        outcome.cause = end.cause;
        outcome.detail = end.detail;
        outcome.state = end.state;
    }
}

/// Waits for an execution in a context of a session. The first SIGINT or SIGTERM interrupts it; if it goes on, or with a
/// second signal, its session is given up.
pub(super) async fn interruptible<T>(
    target: &Target,
    (session, context): (&str, Option<&str>),
    if_unresponsive: IfUnresponsive,
    execution: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::says(Exit::Error, format!("no signals: {error}")))
    };
    let mut interrupts = listen(SignalKind::interrupt())?;
    let mut terminations = listen(SignalKind::terminate())?;
    tokio::pin!(execution);
    tokio::select! {
        outcome = &mut execution => return outcome,
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
    // At the same time as the execution, which must go on for the interrupt to reach it.
    tokio::select! {
        outcome = &mut execution => return outcome,
        // Returns when the execution has ended, or after the configured grace.
        asked = target.interrupt(session, context) => {
            asked?;
        }
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
    if let Ok(outcome) = tokio::time::timeout(OUTCOME_WITHIN, &mut execution).await {
        return outcome;
    }
    if if_unresponsive == IfUnresponsive::Leave {
        return Err(Failure::says(Exit::Interrupted, "interrupted; the session may still run it"));
    }
    let deleted = target.delete(session);
    tokio::pin!(deleted);
    tokio::select! {
        _ = &mut execution => {}
        deleted = &mut deleted => deleted?,
    }
    Err(Failure::says(Exit::Interrupted, "interrupted; the code did not give way and was killed"))
}
