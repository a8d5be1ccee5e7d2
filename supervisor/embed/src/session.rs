//! A session.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use vivarium_api_types::{
    CallAnswer, CallError, CallInfo, CommandRequest, ExecuteRequest, Outcome, SessionInfo,
};
use vivarium_engine::{DEFAULT_TENANT, Engine, EngineError, ExecutionOptions};

/// Why something could not be done in a session. What code does wrong is an [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The session is gone, has no such file, or does not take the request.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The content of a file broke off.
    #[error("{path}")]
    Read {
        /// As it was asked for.
        path: String,
        /// What the way to the session says.
        source: io::Error,
    },
}

/// A session: a kernel with variables and files of its own. It ends by [`Session::end`], with its
/// [`Sandbox`](crate::Sandbox), or when nobody has used it for an hour.
#[derive(Debug, Clone)]
pub struct Session {
    engine: Engine,
    info: SessionInfo,
}

impl Session {
    pub(crate) const fn new(engine: Engine, info: SessionInfo) -> Self {
        Self { engine, info }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// What it was when it was made, with the layers as they were read back from inside.
    #[must_use]
    pub const fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// Runs code, after what was asked for before.
    ///
    /// # Errors
    /// [`SessionError::Engine`]
    pub async fn execute(&self, code: &str) -> Result<Outcome, SessionError> {
        let request = ExecuteRequest { code: code.to_owned(), ..ExecuteRequest::default() };
        self.execute_with(request).await
    }

    /// Runs code with a time, files or variables of its own.
    ///
    /// # Errors
    /// [`SessionError::Engine`]
    pub async fn execute_with(&self, request: ExecuteRequest) -> Result<Outcome, SessionError> {
        let outcome = self.engine.execute(DEFAULT_TENANT, self.id(), request, false).await?;
        Ok(Arc::unwrap_or_clone(outcome))
    }

    /// Runs code that calls the tools of its request or session, and has `answer` answer each call. Calls that
    /// the code makes at once are answered at once.
    ///
    /// # Errors
    /// [`SessionError::Engine`]
    pub async fn execute_calling<A, F>(
        &self,
        request: ExecuteRequest,
        answer: A,
    ) -> Result<Outcome, SessionError>
    where
        A: Fn(CallInfo) -> F,
        F: Future<Output = CallAnswer>,
    {
        let options = ExecutionOptions::default();
        let started =
            self.engine.start_code(DEFAULT_TENANT, self.id(), request, false, options).await?;
        let mut answering = FuturesUnordered::new();
        let mut last = 0;
        loop {
            tokio::select! {
                call = started.call_after(last) => {
                    let Some((number, call)) = call else { break };
                    last = number;
                    let answered = answer(call);
                    answering.push(async move { (number.to_string(), answered.await) });
                }
                Some((call, answer)) = answering.next() => {
                    if let Some(execution) = started.execution_id() {
                        self.answer(&execution, &call, &answer)?;
                    }
                }
            }
        }
        drop(answering);
        Ok(Arc::unwrap_or_clone(started.outcome().await?))
    }

    fn answer(&self, execution: &str, call: &str, answer: &CallAnswer) -> Result<(), SessionError> {
        let say =
            |answer| self.engine.answer_call(DEFAULT_TENANT, self.id(), execution, call, answer);
        match say(answer) {
            // The code went on without it.
            Ok(()) | Err(EngineError::CallOver(_) | EngineError::UnknownExecution(_)) => Ok(()),
            Err(error @ EngineError::Invalid { .. }) => {
                let error = CallError { message: error.to_string(), data: None };
                match say(&CallAnswer { result: None, error: Some(error) }) {
                    Ok(()) | Err(EngineError::CallOver(_)) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Runs a program beside the kernel, in the same sandbox.
    ///
    /// # Errors
    /// [`SessionError::Engine`]
    pub async fn command<'a>(
        &self,
        argv: impl IntoIterator<Item = &'a str>,
    ) -> Result<Outcome, SessionError> {
        let argv = argv.into_iter().map(str::to_owned).collect();
        let request = CommandRequest { argv: Some(argv), ..CommandRequest::default() };
        let options = ExecutionOptions::default();
        let started =
            self.engine.start_command(DEFAULT_TENANT, self.id(), request, options).await?;
        Ok(Arc::unwrap_or_clone(started.outcome().await?))
    }

    /// Writes a file. It is there as a whole or not at all.
    ///
    /// # Errors
    /// [`SessionError::Engine`], among others if it is too large for the session.
    pub async fn write(&self, path: &str, content: &[u8]) -> Result<(), SessionError> {
        let length = Some(content.len() as u64);
        let upload = self.engine.write_file(DEFAULT_TENANT, self.id(), path, length).await?;
        upload.send(content).await?.finish().await?;
        Ok(())
    }

    /// Reads a file. It is as large as the session's code made it, up to what the policy allows.
    ///
    /// # Errors
    /// [`SessionError`]
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, SessionError> {
        let reading = self.engine.read_file(DEFAULT_TENANT, self.id(), path, 0, None).await;
        let (mut reading, mut content) = (reading?, Vec::new());
        while let Some(chunk) = reading.chunk().await {
            let broken = |source| SessionError::Read { path: path.to_owned(), source };
            content.extend(chunk.map_err(broken)?);
        }
        Ok(content)
    }

    /// Interrupts what it runs. The state stays.
    ///
    /// # Errors
    /// [`SessionError::Engine`]
    pub async fn interrupt(&self) -> Result<(), SessionError> {
        self.engine.interrupt(DEFAULT_TENANT, self.id(), None).await?;
        Ok(())
    }

    /// Gives it a fresh kernel. Files stay.
    ///
    /// # Errors
    /// [`SessionError::Engine`]
    pub async fn reset(&self) -> Result<(), SessionError> {
        self.engine.reset(DEFAULT_TENANT, self.id(), None).await?;
        Ok(())
    }

    /// Ends it, and returns when nothing is left of it.
    ///
    /// # Errors
    /// [`SessionError::Engine`] if it has ended before.
    pub async fn end(self) -> Result<(), SessionError> {
        Ok(self.engine.delete(DEFAULT_TENANT, self.id()).await?)
    }
}
