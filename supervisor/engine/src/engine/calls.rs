//! Calls of clients' functions: what code of an execution may call, and the client's answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use vivarium_api_types::{CallAnswer, CallInfo, ToolSpec};
use vivarium_protocol::message::Work;

use super::{Engine, EngineError, ExecutionHandle, request};
use crate::session::calls::answer::{AnswerRefusal, ClientAnswer};
use crate::session::calls::table::CallTable;
use crate::session::execution_log::ExecutionLog;
use crate::session::{Session, WorkSpec};

/// What a round of an execution has come to.
#[derive(Debug)]
pub enum Round {
    /// It waits for the answers to these calls, under this id.
    Waiting { execution_id: String, calls: Vec<CallInfo> },
    /// It is over.
    Over,
}

impl Engine {
    /// Gives code what it may call: the tools of its request, those of its session, and those of the
    /// servers that either names.
    pub(super) async fn add_tools(
        &self,
        session: &Session,
        spec: &mut WorkSpec,
    ) -> Result<(), EngineError> {
        let Work::Code { tools: has_tools, .. } = &mut spec.work else { return Ok(()) };
        let asked = std::mem::take(&mut spec.asked_tools);
        let of_session = session.asked_spec();
        let is_named = |name: &str| asked.specs.iter().any(|spec| spec.name == name);
        let others = of_session.map_or(&[][..], |spec| &spec.tools).iter();
        let others: Vec<ToolSpec> = others.filter(|spec| !is_named(&spec.name)).cloned().collect();
        let specs = [&asked.specs[..], &others].concat();
        let servers = of_session.map_or(&[][..], |spec| &spec.tool_servers);
        let servers: BTreeSet<_> = asked.servers.iter().chain(servers).collect();
        if specs.is_empty() && servers.is_empty() {
            return Ok(());
        }
        let tenant = &session.identity.tenant;
        let settings = self.settings_of(tenant);
        request::may_have_tools(settings.session.tools, "session.tools")?;
        self.check_environment_has_tools(&session.identity.environment)?;
        let mut served = Vec::new();
        for name in servers {
            let server = request::server(&settings, name)?;
            // In a box: what it awaits is nested deeply.
            let tools = Box::pin(self.inner.tool_servers.connect(name, server, tenant)).await;
            served.extend(tools.map_err(|why| EngineError::ToolServer(name.clone(), why))?);
        }
        let plain_names = asked.plain_names || of_session.is_some_and(|spec| spec.tools_as_globals);
        let set = request::tool_set(&settings, &specs, &served, plain_names)?;
        spec.tools = Some(Arc::new(set));
        *has_tools = true;
        Ok(())
    }

    pub(super) fn check_environment_has_tools(&self, environment: &str) -> Result<(), EngineError> {
        self.needs_cpython(environment, "tools are")?;
        let settings = self.settings();
        let refuses = settings.environments.get(environment).is_some_and(|it| it.refuses_tools);
        request::may_have_tools(!refuses, &format!("environments.{environment}.tools"))
    }

    /// The calls of an execution that wait.
    pub fn calls(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
    ) -> Result<Vec<CallInfo>, EngineError> {
        let log = self.record(tenant, session_id, execution_id)?;
        Ok(log.calls().map(|calls| calls.open()).unwrap_or_default())
    }

    /// Answers a call. The same answer again changes nothing.
    pub fn answer_call(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
        call_id: &str,
        answer: &CallAnswer,
    ) -> Result<(), EngineError> {
        let log = self.record(tenant, session_id, execution_id)?;
        self.answer(tenant, &log, [(call_id, answer)], false).map_err(|(_, error)| error)
    }

    /// Takes all answers, or none: then with the call whose answer was refused.
    fn answer<'a>(
        &self,
        tenant: &str,
        log: &ExecutionLog,
        answers: impl IntoIterator<Item = (&'a str, &'a CallAnswer)>,
        leaves_over: bool,
    ) -> Result<(), (String, EngineError)> {
        let refused = |call_id: &str, refusal| {
            let id = call_id.to_owned();
            let error = match refusal {
                AnswerRefusal::Unknown => EngineError::UnknownCall(id),
                AnswerRefusal::Answered => EngineError::CallAnswered(id),
                AnswerRefusal::Over => EngineError::CallOver(id),
                AnswerRefusal::Invalid(field, reason) => EngineError::invalid(field, reason),
            };
            (call_id.to_owned(), error)
        };
        let calls = log.calls();
        let mut given = Vec::new();
        for (call_id, answer) in answers {
            let number = call_id.parse().ok().filter(|_| calls.is_some());
            let number = number.ok_or_else(|| refused(call_id, AnswerRefusal::Unknown))?;
            // As it waits for the kernel to read it.
            let reservation = self.reserve(tenant, answer_bytes(answer));
            let reservation = reservation.map_err(|error| (call_id.to_owned(), error))?;
            let answer = ClientAnswer::new(number, answer, Some(reservation));
            given.push(answer.map_err(|refusal| refused(call_id, refusal))?);
        }
        let Some(calls) = calls else { return Ok(()) };
        calls
            .answer(given, leaves_over)
            .map_err(|(call, refusal)| refused(&call.to_string(), refusal))
    }

    /// Answers calls of an execution, which then goes on, or none of them. Whoever has the handle follows it. To a
    /// call that waits no more nothing is said.
    pub fn go_on<'a>(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
        answers: impl IntoIterator<Item = (&'a String, &'a CallAnswer)>,
    ) -> Result<ExecutionHandle, EngineError> {
        let log = self.record(tenant, session_id, execution_id)?;
        let answers = answers.into_iter().map(|(call_id, answer)| (call_id.as_str(), answer));
        self.answer(tenant, &log, answers, true).map_err(|(call_id, error)| match error {
            EngineError::Invalid { field, reason } => {
                EngineError::invalid(format!("answers.{call_id}.{field}"), reason)
            }
            other => other,
        })?;
        Ok(ExecutionHandle::of(session_id, log))
    }
}

impl ExecutionHandle {
    /// Waits for the next call after that of this number which its client is to answer. `None` once it is over.
    pub async fn call_after(&self, number: u64) -> Option<(u64, CallInfo)> {
        let log = self.log();
        let calls = Arc::clone(log.calls()?);
        tokio::select! {
            biased;
            call = calls.after(number) => call,
            _ = log.finished() => None,
        }
    }

    /// Waits until it is over, or waits for answers.
    pub async fn round(&self) -> Round {
        let log = self.log();
        let calls: Option<Arc<CallTable>> = log.calls().map(Arc::clone);
        let Some(calls) = calls else {
            drop(log.finished().await);
            return Round::Over;
        };
        loop {
            tokio::select! {
                biased;
                _ = log.finished() => return Round::Over,
                () = calls.waits() => {}
            }
            let open = calls.open();
            if let Some(execution_id) = self.execution_id().filter(|_| !open.is_empty()) {
                return Round::Waiting { execution_id, calls: open };
            }
        }
    }
}

fn answer_bytes(answer: &CallAnswer) -> usize {
    let result = answer.result.as_ref().map_or(0, |json| json.as_str().len());
    let error = answer.error.as_ref().map_or(0, |error| {
        error.message.len() + error.data.as_ref().map_or(0, |json| json.as_str().len())
    });
    result + error + 64
}
