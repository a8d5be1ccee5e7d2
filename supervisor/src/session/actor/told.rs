//! What others want of the session.

use tokio::sync::oneshot;
use tokio::time::Instant;
use vivarium_protocol::message::{ExecutionNumber, ToAgent};
use vivarium_protocol::outcome::Cause;

use super::{Actor, End, Job, Reply, Reset, Step, Stop};
use crate::engine::types::SessionState;
use crate::session::state::Event;
use crate::session::{Code, Command, Interrupted, Refusal};

impl Actor {
    pub(super) fn told(&mut self, command: Command) -> Step {
        match command {
            Command::Execute(code, reply) => self.enqueue(code, reply),
            Command::Interrupt(reply) => self.interrupt(reply),
            Command::Reset(reply) => self.reset(reply),
            Command::Describe(reply) => {
                self.describes.push(reply);
                // One question answers all who ask meanwhile.
                if self.describes.len() == 1 {
                    self.send(&ToAgent::Describe)?;
                }
                Step::Continue(())
            }
            Command::WhenIdle(reply) => {
                self.idle_waiters.push(reply);
                self.dispatch()
            }
            Command::Close(cause) => Step::Break(End::new(cause, closing(cause))),
        }
    }

    fn enqueue(&mut self, code: Code, reply: Reply) -> Step {
        // The one that runs, or is the next to, does not count as waiting.
        let ahead = self.queue.len() + usize::from(self.running.is_some());
        if ahead > self.session.timing.queue_depth {
            // Nobody waits for the answer if this fails.
            reply.send(Err(Refusal::QueueFull)).unwrap_or(());
            return Step::Continue(());
        }
        self.last_number += 1;
        let queued = Instant::now();
        self.queue.push_back(Job { number: self.last_number, code, queued, reply });
        self.session.touch();
        self.dispatch()
    }

    fn interrupt(&mut self, reply: oneshot::Sender<Option<Interrupted>>) -> Step {
        let Some(running) = &mut self.running else {
            reply.send(None).unwrap_or(());
            return Step::Continue(());
        };
        let (sender, ended) = oneshot::channel();
        running.interrupts.push(sender);
        running.stop.get_or_insert(Stop::User);
        let execution = running.number;
        reply.send(Some(Interrupted { execution, ended })).unwrap_or(());
        if matches!(self.state, SessionState::Running | SessionState::Interrupting) {
            // The deadline stays: code that ignores this is not killed for it.
            self.set_state(Event::Interrupted)?;
            self.send(&ToAgent::Interrupt { execution })?;
        }
        Step::Continue(())
    }

    /// Does not wait behind the queue: what is queued runs in the fresh kernel.
    fn reset(&mut self, reply: oneshot::Sender<Option<ExecutionNumber>>) -> Step {
        let ended = self.running.as_ref().map(|running| running.number);
        self.resets.push(Reset { ended, reply });
        if matches!(self.state, SessionState::Starting | SessionState::Replacing) {
            // The kernel that is on its way is a fresh one.
            return Step::Continue(());
        }
        if let Some(running) = &mut self.running {
            running.stop = Some(Stop::Reset);
        }
        self.replace()
    }
}

/// Why a session ends that somebody wanted to end.
const fn closing(cause: Cause) -> &'static str {
    match cause {
        Cause::Draining => "the daemon is shutting down",
        _ => "the session was deleted, or had expired",
    }
}
