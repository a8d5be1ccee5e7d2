//! Calls of tools by code that runs: their events, their counts, and the clock, which
//! stands still while code waits for an answer.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vivarium_api_types::{CallEndedEvent, CallEvent, CallOutcome};
use vivarium_protocol::leaf::ContextNumber;

use super::{Actor, RunningExecution, Step};
use crate::session::audited;
use crate::session::calls::channel::{Calls, Happened};
use crate::session::calls::table::Opened;
use crate::session::calls::tool::ToolSet;
use crate::session::execution_log::EventKind;
use crate::session::launch::LaunchContext;

impl Actor {
    /// Pipes for code that may call something, and the ends that its kernel gets.
    pub(super) fn open_calls(
        &self,
        running: &mut RunningExecution,
        tools: Option<Arc<ToolSet>>,
    ) -> io::Result<Option<[OwnedFd; 2]>> {
        let table = running.writer.log().calls().map(Arc::clone);
        let Some((tools, table)) = tools.zip(table) else { return Ok(None) };
        let (calls, ends) = Calls::new(tools, table, self.launch.account.clone())?;
        running.calls = Some(Box::new(calls));
        Ok(Some(ends))
    }

    pub(super) fn step_calls(&mut self, number: ContextNumber) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        let Some(running) = &mut context.running else { return Step::Continue(()) };
        let Some(calls) = &mut running.calls else { return Step::Continue(()) };
        let may_read = running.writer.log().is_ready_for_events();
        let happened = calls.step(may_read);
        if calls.is_waiting() {
            context.deadline.stop_clock();
        } else {
            context.deadline.start_clock();
        }
        // What it waits for is no want of use.
        if !happened.is_empty() {
            self.session.touch();
        }
        if let Some(running) = self.contexts.get_mut(number).and_then(|it| it.running.as_mut()) {
            note(&self.session, &self.launch, running, happened);
            running.count();
        }
        Step::Continue(())
    }

    /// The execution is over: whoever waits in it waits no more.
    pub(super) fn end_calls(&self, running: &mut RunningExecution) {
        if let Some(mut calls) = running.calls.take() {
            let happened = calls.end();
            note(&self.session, &self.launch, running, happened);
        }
    }
}

/// Tells the client or the server, the metrics and the audit log.
fn note(
    session: &crate::session::Session,
    launch: &LaunchContext,
    running: &RunningExecution,
    happened: Vec<Happened>,
) {
    let observer = &launch.observer;
    let ids = || (running.number.to_string(), session.identity.id.clone());
    for one in happened {
        match one {
            Happened::Opened(Opened { info, served: Some((call, served, until)) }) => {
                observer.call_opened();
                if let Some(table) = running.writer.log().calls().map(Arc::clone) {
                    let answer =
                        served.answer((call, info.arguments), until, launch.account.clone());
                    tokio::spawn(async move {
                        // If not, the call's own time is up as well.
                        if let Some((answer, room)) = answer.await {
                            table.served(call, &answer, room);
                        }
                    });
                }
            }
            Happened::Opened(Opened { info: call, served: None }) => {
                let (execution_id, session_id) = ids();
                observer.call_opened();
                running.writer.push(EventKind::Call(Arc::new(CallEvent {
                    execution_id,
                    session_id,
                    call_id: call.call_id,
                    tool: call.tool,
                    arguments: call.arguments,
                    expires_at: call.expires_at,
                })));
            }
            Happened::Ended { call, tool, server, bytes, outcome, after } => {
                observer.call_ended(outcome, after);
                let record = audited::Called {
                    execution: running.number,
                    call: Some(call),
                    tool: &tool,
                    server: server.as_deref(),
                    bytes,
                    outcome,
                    after,
                };
                audited::called(&session.identity, record, observer);
                if server.is_some() {
                    continue;
                }
                let (execution_id, session_id) = ids();
                let call_id = call.to_string();
                let event = CallEndedEvent { execution_id, session_id, call_id, outcome };
                running.writer.push(EventKind::CallEnded(Arc::new(event)));
            }
            Happened::Refused { tool, bytes } => {
                let outcome = CallOutcome::Refused;
                observer.call_refused();
                let record = audited::Called {
                    execution: running.number,
                    call: None,
                    tool: &tool,
                    server: None,
                    bytes,
                    outcome,
                    after: std::time::Duration::ZERO,
                };
                audited::called(&session.identity, record, observer);
            }
            Happened::Nonsense(why) => {
                let (execution, session) = (running.number, &*session.identity.id);
                tracing::info!(session, execution, why, "code wrote something else than calls");
            }
        }
    }
}
