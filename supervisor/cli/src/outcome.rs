//! The exit code of an outcome, and the notes about it.

use vivarium_api_types::{AwaitingApprovalEvent, DoneEvent, KernelInfo, Outcome, OutputFile};
use vivarium_protocol::layer::{Report, Status as LayerStatus};
use vivarium_protocol::outcome::{Cause, Exception, State, Status};

use super::exit::{Exit, Failure};

/// The parts of an outcome that decide the exit code and the notes.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutcomeSummary<'a> {
    pub(super) status: Status,
    pub(super) cause: Option<Cause>,
    pub(super) detail: &'a str,
    pub(super) state: State,
    pub(super) exit_code: Option<i32>,
    pub(super) exception: Option<&'a Exception>,
    /// Whether a file that was to be brought back is missing.
    pub(super) lacks_output: bool,
}

impl<'a> From<&'a Outcome> for OutcomeSummary<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        Self {
            status: outcome.status,
            cause: outcome.cause,
            detail: &outcome.detail,
            state: outcome.state,
            exit_code: outcome.exit_code,
            exception: outcome.exception.as_ref(),
            lacks_output: lacks_output(&outcome.files),
        }
    }
}

impl<'a> OutcomeSummary<'a> {
    pub(super) fn new(done: &'a DoneEvent<'_>, exception: Option<&'a Exception>) -> Self {
        Self {
            status: done.status,
            cause: done.cause,
            detail: &done.detail,
            state: done.state,
            exit_code: done.exit_code,
            exception,
            lacks_output: lacks_output(&done.files),
        }
    }

    /// The text to print unless the status is `ok`: the traceback, and a note.
    pub(super) fn explain(&self) -> Option<String> {
        let word = match self.status {
            Status::Ok => return None,
            // A command prints its own errors.
            Status::Error if self.exit_code.is_some() => return None,
            Status::Error => return self.traceback(),
            Status::Interrupted => "interrupted",
            Status::TimedOut => "timed out",
            Status::Killed => "killed",
            Status::Rejected => "not run",
        };
        let detail =
            if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) };
        let lost = match self.state {
            State::Preserved => "",
            State::Lost => " (variables are lost)",
        };
        Some(format!("{}vivarium: {word}{detail}{lost}\n", self.traceback().unwrap_or_default()))
    }

    /// The traceback. Of `sys.exit()` only a message is printed.
    fn traceback(&self) -> Option<String> {
        let exception = self.exception?;
        let mut text = match exception.type_name.as_str() {
            SYSTEM_EXIT if exit_status(&exception.message).is_some() => return None,
            SYSTEM_EXIT => exception.message.clone(),
            _ => exception.traceback.clone(),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Some(text)
    }

    pub(super) fn exit(&self) -> Exit {
        match self.status {
            Status::Ok if self.lacks_output => Exit::Error,
            Status::Ok => Exit::Ok,
            Status::Error => match (self.exit_code, self.exception) {
                (Some(code), _) => u8::try_from(code).map_or(Exit::Error, Exit::Code),
                (None, Some(exception)) if exception.type_name == SYSTEM_EXIT => {
                    exit_status(&exception.message).map_or(Exit::Error, Exit::Code)
                }
                _ => Exit::Error,
            },
            Status::TimedOut => Exit::TimedOut,
            Status::Interrupted => Exit::Interrupted,
            Status::Killed if self.cause == Some(Cause::KernelStart) => Exit::Unavailable,
            Status::Killed => Exit::Killed,
            Status::Rejected => Exit::Unavailable,
        }
    }
}

pub(super) const EVENTS_MISSING: &str = "the connection broke, and some of what was shown is lost";

/// That an execution waits, and for what.
pub(super) fn awaiting(event: &AwaitingApprovalEvent) -> String {
    let AwaitingApprovalEvent { approval_id, expires_at, .. } = event;
    format!("waits for approval {approval_id} until {expires_at:.0}")
}

fn lacks_output(files: &[OutputFile]) -> bool {
    files.iter().any(|file| file.error.is_some())
}

/// Fails unless what had to run before the code has worked.
pub(super) fn check_setup(setup: &Outcome) -> Result<(), Failure> {
    if setup.status == Status::Ok {
        return Ok(());
    }
    let summary = OutcomeSummary::from(setup);
    let why = summary.explain().unwrap_or_default();
    Err(Failure::says(summary.exit(), format!("cannot prepare the session: {}", why.trim_end())))
}

/// The failure of an execution whose events ended too early.
pub(super) fn missing() -> Failure {
    Failure::says(Exit::Error, "the execution ended without an outcome")
}

/// A note for each stream that was truncated.
pub(super) fn truncation_notes(done: &DoneEvent<'_>) -> impl Iterator<Item = String> + use<> {
    let streams = [("stdout", done.stdout_truncated), ("stderr", done.stderr_truncated)];
    let truncated = streams.into_iter().filter(|(_, is_truncated)| *is_truncated);
    truncated.map(|(stream, _)| format!("there was more {stream} than max_output_bytes"))
}

const SYSTEM_EXIT: &str = "SystemExit";

/// The argument of `sys.exit()`, unless it was a message. As in Python, only the lowest eight bits
/// count.
fn exit_status(message: &str) -> Option<u8> {
    if message.is_empty() || message == "None" {
        return Some(0);
    }
    message.parse::<i64>().ok().and_then(|status| u8::try_from(status.rem_euclid(256)).ok())
}

/// A note that earlier variables are lost, since the previous kernel ended. None for a command,
/// which uses no variables.
pub(super) fn lost_before(kernel: Option<&KernelInfo>, exit_code: Option<i32>) -> Option<String> {
    let kernel = kernel.filter(|kernel| kernel.fresh && exit_code.is_none())?;
    let end = kernel.previous_end.as_ref()?;
    Some(format!("this ran in a fresh kernel, without the variables from before: {}", end.detail))
}

/// One line about the missing layers of the sandbox, if any are.
pub(super) fn missing_layers(protection: &[Report]) -> Option<String> {
    if !protection.is_empty() && protection.iter().all(|r| r.status == LayerStatus::Off) {
        return Some(
            "NO SANDBOX: sandbox.mode is off, and the code can do whatever its user can".to_owned(),
        );
    }
    let missing: Vec<_> = protection
        .iter()
        .filter(|report| report.status != LayerStatus::Enforced)
        .map(|report| format!("{} {}", report.layer, report.status))
        .collect();
    (!missing.is_empty()).then(|| {
        format!("the sandbox is not complete here ({}): see vivarium doctor", missing.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::PreviousEnd;
    use vivarium_protocol::layer::Layer;

    #[test]
    fn sys_exit_gives_the_exit_code_it_gives_in_python() {
        assert_eq!(exit_status(""), Some(0));
        assert_eq!(exit_status("None"), Some(0));
        assert_eq!(exit_status("3"), Some(3));
        assert_eq!(exit_status("-1"), Some(255));
        assert_eq!(exit_status("256"), Some(0));
        assert_eq!(exit_status("no input"), None);
    }

    #[test]
    fn only_the_first_execution_in_a_replaced_kernel_is_told_of_the_loss() {
        let end = PreviousEnd { cause: Cause::Signal, detail: "killed by SIGSEGV (11)".into() };
        let kernel = KernelInfo {
            context: "main".into(),
            generation: 2,
            fresh: true,
            previous_end: Some(end),
        };
        let said = lost_before(Some(&kernel), None).unwrap_or_default();
        assert!(said.ends_with("killed by SIGSEGV (11)"), "{said}");
        assert_eq!(lost_before(Some(&kernel), Some(0)), None, "a command");
        let later = KernelInfo { fresh: false, ..kernel };
        let first =
            KernelInfo { context: "main".into(), generation: 1, fresh: true, previous_end: None };
        for kernel in [None, Some(&later), Some(&first)] {
            assert_eq!(lost_before(kernel, None), None);
        }
    }

    #[test]
    fn missing_layers_are_named_on_one_line() {
        let whole = [Report::enforced(Layer::Seccomp, "")];
        assert_eq!(missing_layers(&whole), None);
        let part = [Report::partial(Layer::Cgroup, "a", "b"), whole[0].clone()];
        let line = missing_layers(&part).unwrap_or_default();
        assert!(line.contains("(cgroup partial)"), "{line}");
        let none = [Report::off(Layer::Cgroup), Report::off(Layer::Seccomp)];
        assert!(missing_layers(&none).unwrap_or_default().starts_with("NO SANDBOX"));
    }
}
