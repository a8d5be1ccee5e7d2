//! What others tell commands that run: signals, and the size of their terminals.

use nix::sys::signal::Signal;
use tokio::sync::oneshot;
use vivarium_protocol::discard;
use vivarium_protocol::message::{ExecutionNumber, ToAgent, WindowSize};

use super::{Actor, Step};

impl Actor {
    /// Sends a command a signal that somebody wants it to have. Tells whether it runs.
    pub(super) fn signal_command(
        &mut self,
        number: ExecutionNumber,
        signal: Signal,
        reply: oneshot::Sender<bool>,
    ) -> Step {
        self.let_print(number)?;
        let message = match signal {
            // With what descends from it.
            Signal::SIGKILL => ToAgent::Kill { execution: number },
            _ => ToAgent::Signal { execution: number, signal: signal as i32 },
        };
        self.tell_command(number, &message, reply)
    }

    /// Tells the agent something about a command, if it runs, and who asked whether it does.
    pub(super) fn tell_command(
        &mut self,
        number: ExecutionNumber,
        message: &ToAgent,
        reply: oneshot::Sender<bool>,
    ) -> Step {
        let runs = self.commands.contains_key(&number);
        discard(reply.send(runs), "who asked may be gone");
        if runs { self.send(message) } else { Step::Continue(()) }
    }

    /// Changes the size of a command's terminal, and tells who asked whether it has one.
    pub(super) fn resize_command(
        &mut self,
        execution: ExecutionNumber,
        size: WindowSize,
        reply: oneshot::Sender<Option<bool>>,
    ) -> Step {
        let has_terminal = self.commands.get(&execution).map(|command| command.has_terminal);
        discard(reply.send(has_terminal), "who asked may be gone");
        if has_terminal != Some(true) {
            return Step::Continue(());
        }
        self.send(&ToAgent::Resize { execution, size })
    }
}
