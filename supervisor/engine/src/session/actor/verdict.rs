//! How an execution ended whose end the agent has told: which status, which cause, in which words.
//! Nothing but these decisions.

use std::time::Duration;

use nix::sys::signal::Signal;
use vivarium_protocol::message::Completion;
use vivarium_protocol::outcome::{Cause, Exception, State, Status};
use vivarium_protocol::policy::{Limits, Network};

use super::Stop;
use crate::session::cause;

#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) status: Status,
    pub(super) cause: Option<Cause>,
    pub(super) detail: String,
    pub(super) state: State,
    pub(super) exit_code: Option<i32>,
}

/// What is known of an execution when it ends by itself or gives way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) completion: Completion,
    /// Why it was told to stop, if it was.
    pub(super) stop: Option<Stop>,
    /// Whether it was killed because it did not: a command.
    pub(super) killed: bool,
    pub(super) timeout: Duration,
    pub(super) grace: Duration,
    pub(super) exception: Option<&'a Exception>,
    /// What the scope has counted meanwhile.
    pub(super) forks_refused: u64,
    pub(super) limits: &'a Limits,
    pub(super) network: Network,
}

impl Known<'_> {
    pub(super) fn verdict(&self) -> Verdict {
        let (status, cause, mut detail) = match (self.stop, self.completion) {
            (Some(stop @ (Stop::WallTime | Stop::CpuTime(_))), _) => {
                let (cause, limit) = limit_reached(stop, self.timeout, self.limits);
                (Status::TimedOut, Some(cause), format!("{limit}, and {}", self.gave_way()))
            }
            (_, Completion::WorkLimit) => {
                (Status::TimedOut, Some(Cause::WorkLimit), "its work was up (max_work)".to_owned())
            }
            (_, Completion::Ok | Completion::Exited(0)) => (Status::Ok, None, String::new()),
            (Some(Stop::User), Completion::Interrupted | Completion::Exited(_)) => {
                (Status::Interrupted, Some(Cause::Interrupt), String::new())
            }
            (Some(Stop::User), Completion::Signaled(signal)) if signal == Signal::SIGINT as i32 => {
                (Status::Interrupted, Some(Cause::Interrupt), String::new())
            }
            // Nobody asked for it: the code raised KeyboardInterrupt itself.
            (_, Completion::Error | Completion::Interrupted) => {
                let Self { exception, limits, network, forks_refused, .. } = *self;
                let (cause, detail) =
                    cause::explain_error(exception, limits, network, forks_refused);
                (Status::Error, cause, detail)
            }
            (_, Completion::Exited(_)) if self.forks_refused > 0 => {
                let detail = cause::refusals(self.limits, self.forks_refused);
                (Status::Error, Some(Cause::PidsLimit), detail)
            }
            (_, Completion::Exited(code)) => {
                (Status::Error, Some(Cause::Exited), format!("exit code {code}"))
            }
            (_, Completion::Signaled(signal)) if signal == Signal::SIGXCPU as i32 => {
                let limit = self.limits.max_cpu_secs;
                let detail = format!(
                    "the command was killed by SIGXCPU: the limit of CPU time (max_cpu_secs \
                     {limit}) was reached"
                );
                (Status::TimedOut, Some(Cause::CpuLimit), detail)
            }
            (_, Completion::Signaled(signal)) => {
                let detail = format!("the command was killed by {}", cause::signal_name(signal));
                (Status::Killed, Some(Cause::Signal), detail)
            }
        };
        if self.forks_refused > 0 && cause != Some(Cause::PidsLimit) {
            join(&mut detail, &cause::refusals(self.limits, self.forks_refused));
        }
        let exit_code = match self.completion {
            Completion::Exited(code) => Some(code),
            _ => None,
        };
        Verdict { status, cause, detail, state: State::Preserved, exit_code }
    }

    fn gave_way(&self) -> String {
        match self.completion {
            _ if self.killed => ignored("command", self.grace),
            Completion::Interrupted => "the code gave way to SIGINT".to_owned(),
            Completion::Ok | Completion::Error | Completion::WorkLimit => {
                "the code ended by itself after SIGINT".to_owned()
            }
            Completion::Exited(code) => format!("the command ended after SIGINT, exit code {code}"),
            Completion::Signaled(signal) => {
                format!("the command was ended by {}", cause::signal_name(signal))
            }
        }
    }
}

/// That SIGINT was not enough, in words.
pub(super) fn ignored(what: &str, grace: Duration) -> String {
    format!("the {what} did not give way to SIGINT within {}", seconds(grace))
}

pub(super) fn limit_reached(stop: Stop, timeout: Duration, limits: &Limits) -> (Cause, String) {
    match stop {
        Stop::CpuTime(used_us) => {
            let used = seconds(Duration::from_micros(used_us));
            let limit = limits.max_cpu_secs;
            (Cause::CpuLimit, format!("{used} of CPU time were used (max_cpu_secs {limit})"))
        }
        _ => (Cause::WallTime, format!("the time of {} was up", seconds(timeout))),
    }
}

pub(super) fn join(detail: &mut String, more: &str) {
    if !detail.is_empty() {
        detail.push_str("; ");
    }
    detail.push_str(more);
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::output::tests::limits;

    fn verdict(completion: Completion, stop: Option<Stop>, killed: bool) -> Verdict {
        let limits = limits();
        Known {
            completion,
            stop,
            killed,
            timeout: Duration::from_secs(1),
            grace: Duration::from_secs(3),
            exception: None,
            forks_refused: 0,
            limits: &limits,
            network: Network::Loopback,
        }
        .verdict()
    }

    #[test]
    fn commands_end_in_their_own_ways() {
        use Completion::{Exited, Signaled};
        let (user, time) = (Some(Stop::User), Some(Stop::WallTime));
        for (completion, stop, status, cause, exit_code, detail) in [
            (Exited(0), None, Status::Ok, None, Some(0), ""),
            (Exited(3), None, Status::Error, Some(Cause::Exited), Some(3), "exit code 3"),
            (Signaled(11), None, Status::Killed, Some(Cause::Signal), None, "SIGSEGV (11)"),
            (Signaled(24), None, Status::TimedOut, Some(Cause::CpuLimit), None, "SIGXCPU"),
            (Exited(0), user, Status::Ok, None, Some(0), ""),
            (Exited(130), user, Status::Interrupted, Some(Cause::Interrupt), Some(130), ""),
            (Signaled(2), user, Status::Interrupted, Some(Cause::Interrupt), None, ""),
            (Signaled(9), user, Status::Killed, Some(Cause::Signal), None, "SIGKILL (9)"),
            (Signaled(2), time, Status::TimedOut, Some(Cause::WallTime), None, "SIGINT (2)"),
            (Exited(0), time, Status::TimedOut, Some(Cause::WallTime), Some(0), "exit code 0"),
        ] {
            let found = verdict(completion, stop, false);
            assert_eq!((found.status, found.cause), (status, cause), "{completion:?} {stop:?}");
            assert_eq!((found.exit_code, found.state), (exit_code, State::Preserved));
            assert!(found.detail.contains(detail), "{}", found.detail);
            assert_eq!(found.detail.is_empty(), detail.is_empty(), "{}", found.detail);
        }
    }

    #[test]
    fn killed_command_is_reported_and_preserves_state() {
        let found = verdict(Completion::Signaled(9), Some(Stop::WallTime), true);
        assert_eq!((found.status, found.state), (Status::TimedOut, State::Preserved));
        let expected =
            "the time of 1 s was up, and the command did not give way to SIGINT within 3 s";
        assert_eq!(found.detail, expected);
    }
}
