//! Printing an outcome, and the exit code it gives.

use vivarium_protocol::layer::{Report, Status as LayerStatus};
use vivarium_protocol::outcome::{Cause, State, Status};

use super::exit::{Exit, Failure};
use super::inputs::CodeOptions;
use super::print;
use crate::engine::types::Outcome;

/// Prints an outcome like Python would, or as JSON.
pub(super) fn show(outcome: &Outcome, options: &CodeOptions) -> Result<Exit, Failure> {
    let exit = exit_code(outcome);
    if options.json {
        print::json(outcome)?;
        return Ok(exit);
    }
    let mut text = outcome.stdout.clone();
    if let (true, Some(result)) = (options.value, &outcome.result) {
        text.push_str(&result.repr);
        text.push('\n');
    }
    // A reader that is gone does not change how the code ended.
    let written = print::out(text.as_bytes());
    print::err(outcome.stderr.as_bytes());
    for (stream, is_cut) in
        [("stdout", outcome.stdout_truncated), ("stderr", outcome.stderr_truncated)]
    {
        if is_cut {
            print::note(&format!("there was more {stream} than max_output_bytes"));
        }
    }
    if let Some(line) = explain(outcome) {
        print::err(line.as_bytes());
    }
    written.map(|()| exit)
}

/// What to say about an outcome that is not `ok`, with its line's end.
fn explain(outcome: &Outcome) -> Option<String> {
    let word = match outcome.status {
        Status::Ok => return None,
        Status::Error => return exception(outcome),
        Status::Interrupted => "interrupted",
        Status::TimedOut => "timed out",
        Status::Killed => "killed",
        Status::Rejected => "not run",
    };
    let detail =
        if outcome.detail.is_empty() { String::new() } else { format!(": {}", outcome.detail) };
    let lost = match outcome.state {
        State::Preserved => "",
        State::Lost => " (variables are lost)",
    };
    Some(format!("{}vivarium: {word}{detail}{lost}\n", exception(outcome).unwrap_or_default()))
}

/// The traceback. `sys.exit()` is no error to tell of, but for a message given to it.
fn exception(outcome: &Outcome) -> Option<String> {
    let exception = outcome.exception.as_ref()?;
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

const SYSTEM_EXIT: &str = "SystemExit";

/// The status given to `sys.exit()`, if it was one and not a message. As Python does, only the
/// lowest eight bits count.
fn exit_status(message: &str) -> Option<u8> {
    if message.is_empty() || message == "None" {
        return Some(0);
    }
    message.parse::<i64>().ok().and_then(|status| u8::try_from(status.rem_euclid(256)).ok())
}

/// The exit code of a command that ran code with this outcome.
pub(super) fn exit_code(outcome: &Outcome) -> Exit {
    match outcome.status {
        Status::Ok => Exit::Ok,
        Status::Error => match &outcome.exception {
            Some(exception) if exception.type_name == SYSTEM_EXIT => {
                exit_status(&exception.message).map_or(Exit::Error, Exit::Code)
            }
            _ => Exit::Error,
        },
        Status::TimedOut => Exit::TimedOut,
        Status::Interrupted => Exit::Interrupted,
        Status::Killed if outcome.cause == Some(Cause::KernelStart) => Exit::Unavailable,
        Status::Killed => Exit::Killed,
        Status::Rejected => Exit::Unavailable,
    }
}

/// One line about what of the sandbox is missing, if anything is.
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
    use vivarium_protocol::layer::Layer;

    #[test]
    fn sys_exit_means_what_it_means_to_python() {
        assert_eq!(exit_status(""), Some(0));
        assert_eq!(exit_status("None"), Some(0));
        assert_eq!(exit_status("3"), Some(3));
        assert_eq!(exit_status("-1"), Some(255));
        assert_eq!(exit_status("256"), Some(0));
        assert_eq!(exit_status("no input"), None);
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
