//! Running code and commands, and what runs or has run.

use hyper::Method;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use vivarium_api_types::{
    BackgroundReply, CallAnswer, CallInfo, CallList, CommandRequest, ContinueRequest,
    ExecuteRequest, ExecutionInfo, ExecutionPage, ExecutionSummary, Outcome, Page, PtySize,
    RunRequest, SignalRequest, StdinReply, WaitingReply,
};

use super::{ApiRequest, Client, ClientError, path};

/// What a round of code comes to that is run with `wait_for_calls`.
#[derive(Debug)]
pub enum Round {
    /// It waits for answers.
    Waiting(WaitingReply),
    /// It is over.
    Over(Box<Outcome>),
}

impl<'de> Deserialize<'de> for Round {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let is_waiting = value.get("status").is_some_and(|status| status == "waiting");
        let round = if is_waiting {
            serde_json::from_value(value).map(Self::Waiting)
        } else {
            serde_json::from_value(value).map(|outcome| Self::Over(Box::new(outcome)))
        };
        round.map_err(D::Error::custom)
    }
}

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason. To follow what runs,
/// see [`Execution`](super::Execution).
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// Runs code in a session, which is created if `create` says so and it does not exist.
    pub async fn execute(
        &mut self,
        session: &str,
        request: &ExecuteRequest,
        create: bool,
    ) -> Result<Outcome, ClientError> {
        self.json(Method::POST, &execute_path(session, create), Some(request)).await
    }

    /// Runs a command in a session, to its end.
    pub async fn command(
        &mut self,
        session: &str,
        request: &CommandRequest,
    ) -> Result<Outcome, ClientError> {
        self.json(Method::POST, &commands_path(session), Some(request)).await
    }

    /// Starts a command of which `background` is set.
    pub async fn start_background(
        &mut self,
        session: &str,
        request: &CommandRequest,
    ) -> Result<BackgroundReply, ClientError> {
        self.json(Method::POST, &commands_path(session), Some(request)).await
    }

    /// Runs code or a command in a session of its own.
    pub async fn run(&mut self, request: &RunRequest) -> Result<Outcome, ClientError> {
        self.json(Method::POST, "/v1/run", Some(request)).await
    }

    /// One page of a session's executions, newest first.
    pub async fn list_executions(
        &mut self,
        session: &str,
        page: &Page,
    ) -> Result<ExecutionPage, ClientError> {
        let mut at = format!("{}/executions", path::session(session));
        path::add_part(&mut at, page);
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// All of a session's executions that are kept, newest first.
    pub async fn all_executions(
        &mut self,
        session: &str,
    ) -> Result<Vec<ExecutionSummary>, ClientError> {
        let (mut executions, mut after) = (Vec::new(), None);
        loop {
            let page = self.list_executions(session, &Page { limit: super::PAGE, after }).await?;
            executions.extend(page.executions);
            after = page.next;
            if after.is_none() {
                return Ok(executions);
            }
        }
    }

    /// The state of an execution, and its outcome once it is over.
    pub async fn execution(
        &mut self,
        session: &str,
        id: &str,
    ) -> Result<ExecutionInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::execution(session, id))).await
    }

    /// Sends a signal, by its name, to a command.
    pub async fn signal(
        &mut self,
        session: &str,
        id: &str,
        signal: &str,
    ) -> Result<(), ClientError> {
        let at = format!("{}/signal", path::execution(session, id));
        self.json(Method::POST, &at, Some(&SignalRequest { signal: signal.to_owned() })).await
    }

    /// The calls of an execution that wait for an answer.
    pub async fn calls(&mut self, session: &str, id: &str) -> Result<Vec<CallInfo>, ClientError> {
        let at = format!("{}/calls", path::execution(session, id));
        let list: CallList = self.call(ApiRequest::new(Method::GET, &at)).await?;
        Ok(list.calls)
    }

    /// Answers a call.
    pub async fn answer_call(
        &mut self,
        session: &str,
        id: &str,
        call: &str,
        answer: &CallAnswer,
    ) -> Result<(), ClientError> {
        let at = format!("{}/calls/{}", path::execution(session, id), path::encode(call));
        self.json(Method::POST, &at, Some(answer)).await
    }

    /// Runs code in a session up to the first calls that it waits for, or to its end. Of the request
    /// `wait_for_calls` is set.
    pub async fn execute_round(
        &mut self,
        session: &str,
        request: &ExecuteRequest,
        create: bool,
    ) -> Result<Round, ClientError> {
        self.json(Method::POST, &execute_path(session, create), Some(request)).await
    }

    /// Answers calls, and waits for the next or for the end.
    pub async fn continue_execution(
        &mut self,
        session: &str,
        id: &str,
        request: &ContinueRequest,
    ) -> Result<Round, ClientError> {
        let at = format!("{}/continue", path::execution(session, id));
        self.json(Method::POST, &at, Some(request)).await
    }

    /// Changes the size of a command's terminal.
    pub async fn resize(
        &mut self,
        session: &str,
        id: &str,
        size: PtySize,
    ) -> Result<(), ClientError> {
        let at = format!("{}/resize", path::execution(session, id));
        self.json(Method::POST, &at, Some(&size)).await
    }

    /// Writes to the standard input of a command, and closes it afterwards if `close` says so. If the
    /// command does not read, it fails: [`ClientError::written_bytes`] says after how much.
    pub async fn write_stdin(
        &mut self,
        session: &str,
        id: &str,
        bytes: Vec<u8>,
        close: bool,
    ) -> Result<StdinReply, ClientError> {
        let mut at = format!("{}/stdin", path::execution(session, id));
        if close {
            path::add(&mut at, "close", true);
        }
        self.call(ApiRequest::new(Method::POST, &at).bytes(bytes)).await
    }
}

pub(super) fn execute_path(session: &str, create: bool) -> String {
    let mut at = format!("{}/execute", path::session(session));
    if create {
        path::add(&mut at, "create", true);
    }
    at
}

pub(super) fn commands_path(session: &str) -> String {
    format!("{}/commands", path::session(session))
}
