//! What others tell commands that run: signals, and the size of their terminals.

use nix::sys::signal::Signal;
use tokio::sync::oneshot;
use vivarium_protocol::discard;
use vivarium_protocol::message::{ExecutionNumber, ToAgent, WindowSize};

use super::{Actor, Step};
use crate::session::QueuedExecution;
use crate::session::execution::Kind;

impl Actor {
    /// Sends a command a signal that somebody wants it to have. Tells whether it runs, or is to.
    pub(super) fn signal_command(
        &mut self,
        number: ExecutionNumber,
        signal: Signal,
        reply: oneshot::Sender<bool>,
    ) -> Step {
        let runs = self.commands.contains_key(&number);
        let waits = !runs && self.waits(number);
        discard(reply.send(runs || waits), "who asked may be gone");
        // One that never began has no handler: the default action of these is to end it (signal(7)).
        let ends = matches!(
            signal,
            Signal::SIGINT | Signal::SIGTERM | Signal::SIGKILL | Signal::SIGHUP | Signal::SIGQUIT
        );
        if waits && ends && self.interrupt_awaiting(number) {
            return self.dispatch_all();
        }
        if waits {
            // As the host's kernel keeps one that is blocked: once, however often it was sent.
            let early = std::mem::take(&mut self.early_signals).into_iter();
            self.early_signals = early.filter(|(other, _)| self.waits(*other)).collect();
            self.early_signals.insert((number, signal as i32));
        }
        if !runs {
            return Step::Continue(());
        }
        self.let_print(number)?;
        self.send(&message(number, signal as i32))
    }

    /// Whether this is a command that the agent has not been sent yet.
    fn waits(&self, number: ExecutionNumber) -> bool {
        self.waiting_has_terminal(number).is_some()
    }

    /// Whether a command that the agent has not been sent yet is to have a terminal.
    fn waiting_has_terminal(&self, number: ExecutionNumber) -> Option<bool> {
        let is_it = |queued: &QueuedExecution| {
            queued.number == number && queued.spec.kind() == Kind::Command
        };
        let mut queue = self.contexts.first().queue.iter();
        let arriving = self.arriving.get(&number).copied();
        arriving
            .or_else(|| queue.find(|queued| is_it(queued)).map(|queued| queued.spec.prints_on()))
    }

    /// Sends a command that the agent has now what it was to have before.
    pub(super) fn send_what_came_early(&mut self, number: ExecutionNumber) -> Step {
        if let Some(size) = self.early_sizes.remove(&number) {
            self.send(&ToAgent::Resize { execution: number, size })?;
        }
        let mut later = self.early_signals.split_off(&(number, i32::MIN));
        let mut after = later.split_off(&(number + 1, i32::MIN));
        self.early_signals.append(&mut after);
        later.into_iter().try_for_each(|(_, signal)| self.send(&message(number, signal)))
    }

    /// Changes the size of a command's terminal, and tells who asked whether it has one.
    pub(super) fn resize_command(
        &mut self,
        execution: ExecutionNumber,
        size: WindowSize,
        reply: oneshot::Sender<Option<bool>>,
    ) -> Step {
        let running = self.commands.get(&execution).map(|command| command.has_terminal);
        let has_terminal = running.or_else(|| self.waiting_has_terminal(execution));
        discard(reply.send(has_terminal), "who asked may be gone");
        if has_terminal != Some(true) {
            return Step::Continue(());
        }
        if running.is_none() {
            let early = std::mem::take(&mut self.early_sizes).into_iter();
            self.early_sizes = early.filter(|(other, _)| self.waits(*other)).collect();
            self.early_sizes.insert(execution, size);
            return Step::Continue(());
        }
        self.send(&ToAgent::Resize { execution, size })
    }
}

fn message(execution: ExecutionNumber, signal: i32) -> ToAgent {
    if signal == Signal::SIGKILL as i32 {
        // With what descends from it.
        ToAgent::Kill { execution }
    } else {
        ToAgent::Signal { execution, signal }
    }
}
