//! What the session waits for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::{ExecutionNumber, Failure, TransferNumber};

use super::Session;
use super::context::KernelContext;
use crate::failure::failure;
use crate::kernel::KernelStage;
use crate::kernel::output::Output;

/// What happened. Every event is handled before the session waits again, each by one bounded step: so
/// no endless source (output, a transfer) starves another. In this order, as the supervisor's messages
/// come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The supervisor wrote, or is gone, or reads again.
    Supervisor {
        readable: bool,
        writable: bool,
    },
    Launcher,
    Children,
    KernelReport(ContextNumber),
    CommandReport(ExecutionNumber),
    /// A kernel's channel can be read or written.
    Kernel {
        context: ContextNumber,
        readable: bool,
        writable: bool,
    },
    Output(ContextNumber),
    CommandOutput(ExecutionNumber),
    CommandInput(ExecutionNumber),
    Changes,
    /// An operation on files can go on.
    Transfer(TransferNumber),
}

type Source<'a> = (PollFd<'a>, Event);

impl Session<'_> {
    /// Waits until something happens or is due. Returns what happened, in order.
    pub(super) fn wait(&self) -> Result<Vec<Event>, Failure> {
        // Their replies are bulk: a supervisor that does not keep up gets no more.
        let runnable = self.transfers.runnable().filter(|_| !self.control.is_full());
        let runnable: Vec<_> = runnable.map(Event::Transfer).collect();
        let (mut polled, events): (Vec<_>, Vec<_>) = self.sources().into_iter().unzip();
        loop {
            let timeout =
                if runnable.is_empty() { timeout(self.deadline()) } else { PollTimeout::ZERO };
            match poll(&mut polled, timeout) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(failure("poll", error)),
                Ok(_) => break,
            }
        }
        let happened = polled.iter().zip(events).filter(|(fd, _)| fd.any().unwrap_or(true));
        let mut happened: Vec<_> = happened
            .map(|(fd, event)| with_readiness(event, fd.revents().unwrap_or(PollFlags::POLLIN)))
            .collect();
        happened.dedup(); // one event for both streams
        happened.extend(runnable);
        Ok(happened)
    }

    /// Has an execution wait for who reads what it prints and shows.
    pub(super) fn hold(&mut self, execution: ExecutionNumber, held: bool) {
        if let Some(running) = self.commands.get_mut(&execution) {
            running.held = held;
        }
        let code = self.contexts.values_mut().filter_map(|context| context.running.as_mut());
        for running in code.filter(|running| running.due.execution == execution) {
            running.held = held;
        }
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let source = |fd, flags, event| (PollFd::new(fd, flags), event);
        let readable = |fd, event| source(fd, PollFlags::POLLIN, event);
        let both = |wants_write| {
            if wants_write { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN }
        };
        // poll(2) tells which of the two.
        let supervisor = Event::Supervisor { readable: false, writable: false };
        let mut sources = vec![
            source(self.control.as_fd(), both(self.control.wants_write()), supervisor),
            readable(self.launcher.as_fd(), Event::Launcher),
            readable(self.children.as_fd(), Event::Children),
        ];
        for (number, KernelContext { kernel, running, .. }) in &self.contexts {
            let context = *number;
            if let KernelStage::Confining(pending) = &kernel.stage {
                sources.push(readable(pending.as_fd(), Event::KernelReport(context)));
            }
            // A supervisor that does not keep up gets no more, as does one who reads what runs. Their
            // messages are still read.
            let is_held = running.as_ref().is_some_and(|running| running.held);
            if is_held || self.control.is_full() {
                continue;
            }
            if let Some((channel, wants_write)) = kernel.control() {
                let event = Event::Kernel { context, readable: false, writable: false };
                sources.push(source(channel, both(wants_write), event));
            }
            let outputs = kernel.outputs.iter().filter_map(|output| output.fd());
            sources.extend(outputs.map(|output| readable(output, Event::Output(context))));
        }
        for (execution, running) in &self.commands {
            let command = &running.command;
            let report = command.report();
            sources.extend(report.map(|fd| readable(fd, Event::CommandReport(*execution))));
            let input = command.input();
            sources.extend(
                input.map(|(fd, flags)| source(fd, flags, Event::CommandInput(*execution))),
            );
            if command.is_up() && !running.held && !self.control.is_full() {
                let outputs = command.streams.outputs.iter().filter_map(|output| output.fd());
                sources.extend(outputs.map(|fd| readable(fd, Event::CommandOutput(*execution))));
            }
        }
        sources.extend(self.changes.fd().map(|fd| readable(fd, Event::Changes)));
        sources.extend(self.transfers.sources().map(
            |(number, socket, flags): (TransferNumber, BorrowedFd<'_>, PollFlags)| {
                source(socket, flags, Event::Transfer(number))
            },
        ));
        sources
    }

    pub(super) fn deadline_passed(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= Instant::now())
    }

    fn deadline(&self) -> Option<Instant> {
        let contexts = self.contexts.values().flat_map(|context| {
            let check = context.running.as_ref().and_then(|running| running.next_cpu_check);
            [check, context.kernel.exit_deadline]
        });
        let commands = self.commands.values().filter_map(|running| running.next_cpu_check);
        let outputs = self.commands.values().flat_map(|running| &running.command.streams.outputs);
        let paused = outputs.filter_map(Output::paused_until);
        let others = [self.control.started_due(), self.changes.due(), self.transfers.due()];
        contexts.chain(others).flatten().chain(commands).chain(paused).min()
    }
}

fn with_readiness(event: Event, flags: PollFlags) -> Event {
    let readable = flags.intersects(!PollFlags::POLLOUT);
    let writable = flags.contains(PollFlags::POLLOUT);
    match event {
        Event::Kernel { context, .. } => Event::Kernel { context, readable, writable },
        Event::Supervisor { .. } => Event::Supervisor { readable, writable },
        other => other,
    }
}

/// Milliseconds until `deadline`, rounded up so that it has passed when poll(2) returns.
fn timeout(deadline: Option<Instant>) -> PollTimeout {
    deadline.map_or(PollTimeout::NONE, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        let millis = left.as_millis().saturating_add(1).min(60_000);
        PollTimeout::try_from(i32::try_from(millis).unwrap_or(60_000)).unwrap_or(PollTimeout::NONE)
    })
}
