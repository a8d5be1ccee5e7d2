//! Which message may come next from a kernel. A frame out of turn is refused: tenant code has written it,
//! or has broken the runner.

use vivarium_protocol::message::{Completion, ExecutionNumber, Noted};

use super::{FromKernel, WireError};

/// What a kernel is doing, as far as its messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Starting,
    Idle,
    /// Code was sent, and the kernel has not begun with it.
    Sent(ExecutionNumber),
    Running(ExecutionNumber),
    /// Running, and its value has come.
    Valued(ExecutionNumber),
    /// Running, and its exception has come.
    Raised(ExecutionNumber),
    /// Its account has come, behind its exception or not.
    Accounted {
        execution: ExecutionNumber,
        raised: bool,
    },
}

/// Which message may come next from a kernel.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    phase: Phase,
    /// What may be noted of the execution.
    noted: Noted,
}

impl Turn {
    /// Notes that code is being sent. Only to an idle kernel.
    pub(crate) const fn sent(&mut self, execution: ExecutionNumber, noted: Noted) {
        self.phase = Phase::Sent(execution);
        self.noted = noted;
    }

    /// Accepts `message` if it may come now.
    pub(crate) fn accept(&mut self, message: &FromKernel) -> Result<(), WireError> {
        use Phase::{Accounted, Idle, Raised, Running, Sent, Starting, Valued};
        let next = match (self.phase, message) {
            (Starting, FromKernel::Ready) => Some(Idle),
            (Sent(now), FromKernel::Started { execution }) if now == *execution => {
                Some(Running(now))
            }
            (Running(now), FromKernel::Value { execution, .. }) if now == *execution => {
                Some(Valued(now))
            }
            // Also behind its value or exception: figures left open are shown at its end.
            (
                phase @ (Running(now) | Valued(now) | Raised(now)),
                FromKernel::Display { execution, .. },
            ) if now == *execution => Some(phase),
            // It may have hit the kernel's own code, before it could even begin.
            (Sent(now) | Running(now), FromKernel::Exception { execution, .. })
                if now == *execution =>
            {
                Some(Raised(now))
            }
            // An error comes without an exception when the kernel can not describe it, and without a
            // start when it hit the kernel's own code.
            (Sent(now) | Running(now) | Valued(now), FromKernel::Done { execution, .. })
                if now == *execution =>
            {
                Some(Idle)
            }
            (Raised(now), FromKernel::Done { execution, completion })
                if now == *execution && *completion != Completion::Ok =>
            {
                Some(Idle)
            }
            (
                Sent(now) | Running(now) | Valued(now) | Raised(now),
                FromKernel::Account { execution, .. },
            ) if now == *execution => {
                Some(Accounted { execution: now, raised: matches!(self.phase, Raised(_)) })
            }
            (Accounted { execution: now, raised }, FromKernel::Done { execution, completion })
                if now == *execution && !(raised && *completion == Completion::Ok) =>
            {
                Some(Idle)
            }
            _ => None,
        };
        self.phase = next.ok_or_else(|| WireError::OutOfTurn {
            frame: message.describe(),
            phase: self.describe(),
        })?;
        let is_asked_for = match message {
            FromKernel::Account { account, .. } => self.noted.permits(account),
            FromKernel::Done { completion, .. } => self.noted.permits_end(*completion),
            _ => true,
        };
        if is_asked_for { Ok(()) } else { Err(WireError::Unasked(message.describe())) }
    }

    fn describe(&self) -> String {
        match self.phase {
            Phase::Starting => "it was starting".to_owned(),
            Phase::Idle => "nothing was running".to_owned(),
            Phase::Sent(now) => format!("execution {now} had not begun"),
            Phase::Running(now) => format!("execution {now} was running"),
            Phase::Valued(now) => format!("execution {now} was running and had given its value"),
            Phase::Accounted { execution, .. } => {
                format!("execution {execution} was running and had given its account")
            }
            Phase::Raised(now) => format!("execution {now} was running and had raised"),
        }
    }
}
