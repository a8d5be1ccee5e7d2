//! Contexts: interrupting and resetting them, and opening and closing others than the first.

use tokio::time::timeout;
use vivarium_api_types::{
    ContextInfo, ContextList, ContextSpec, InterruptReply, MAIN_CONTEXT, ResetReply, ResetScope,
};

use super::{Engine, EngineError, request};
use crate::observe::Refusal;
use crate::session::{Command, ContextRefusal, MAX_CONTEXTS};

impl Engine {
    /// Interrupts what a context runs, by default the first: there, if no code runs, the last command
    /// that somebody waits for. Returns when it has ended, or after the grace in which code has to
    /// give way.
    pub async fn interrupt(
        &self,
        tenant: &str,
        id: &str,
        context: Option<String>,
    ) -> Result<InterruptReply, EngineError> {
        let session = self.find(tenant, id)?;
        if let Some(context) = &context {
            self.context(tenant, id, context).await?;
        }
        let interrupt = |reply| Command::Interrupt { execution: None, context, reply };
        let interrupted = session.ask(interrupt).await.ok_or_else(|| unknown(id))?;
        let session_id = id.to_owned();
        let Some(interrupted) = interrupted else {
            let detail = "nothing was running".to_owned();
            return Ok(InterruptReply {
                session_id,
                execution_id: None,
                interrupted: false,
                detail,
            });
        };
        let grace = self.settings_of(tenant).session.interrupt_grace;
        // The sender is dropped when the execution has ended, whichever way.
        let ended = timeout(grace, interrupted.ended).await.is_ok();
        let detail = if ended {
            "the execution has ended".to_owned()
        } else {
            format!(
                "the code ignored SIGINT for {} s; its timeout or a reset will end it",
                grace.as_secs_f64()
            )
        };
        let execution_id = Some(interrupted.execution.to_string());
        Ok(InterruptReply { session_id, execution_id, interrupted: ended, detail })
    }

    /// Gives a context a fresh kernel, by default the first. What it runs is ended, what is queued
    /// runs in the fresh one. [`EngineError::UnknownSession`] also if the session did not survive it.
    pub async fn reset(
        &self,
        tenant: &str,
        id: &str,
        context: Option<String>,
    ) -> Result<ResetReply, EngineError> {
        self.check_open(tenant)?;
        let session = self.find(tenant, id)?;
        session.touch();
        let name = context.clone().unwrap_or_else(|| MAIN_CONTEXT.to_owned());
        let done = session.ask(|reply| Command::Reset { context, reply }).await.flatten();
        let Some(done) = done else {
            return Err(if session.is_closed() {
                unknown(id)
            } else {
                EngineError::UnknownContext(name)
            });
        };
        Ok(ResetReply {
            session_id: id.to_owned(),
            context: name,
            ended_execution_id: done.ended.map(|number| number.to_string()),
            scope: if done.is_of_session { ResetScope::Session } else { ResetScope::Context },
        })
    }

    pub async fn contexts(&self, tenant: &str, id: &str) -> Result<ContextList, EngineError> {
        let session = self.find(tenant, id)?;
        let contexts = session.ask(Command::Contexts).await.ok_or_else(|| unknown(id))?;
        Ok(ContextList { contexts })
    }

    pub async fn context(
        &self,
        tenant: &str,
        id: &str,
        name: &str,
    ) -> Result<ContextInfo, EngineError> {
        let ContextList { contexts } = self.contexts(tenant, id).await?;
        let found = contexts.into_iter().find(|context| context.id == name);
        found.ok_or_else(|| EngineError::UnknownContext(name.to_owned()))
    }

    /// Opens a context, and returns it when its kernel is ready.
    pub async fn open_context(
        &self,
        tenant: &str,
        id: &str,
        spec: ContextSpec,
    ) -> Result<ContextInfo, EngineError> {
        self.check_admits(tenant)?;
        let name = request::id(spec.id)?;
        let session = self.awake(tenant, id).await?;
        session.started().await.map_err(EngineError::NotStarted)?;
        let asked = name.clone();
        let open = |reply| Command::OpenContext { name: asked, reply };
        let opened = session.ask(open).await.ok_or_else(|| unknown(id))?;
        opened.map_err(|refusal| match refusal {
            ContextRefusal::Exists => EngineError::ContextExists(name),
            ContextRefusal::TooMany => {
                self.observer(tenant).refused(Refusal::TooManyContexts);
                EngineError::TooManyContexts { max: MAX_CONTEXTS }
            }
            ContextRefusal::NotStarted(why) => EngineError::ContextNotStarted(why),
        })
    }

    /// Closes a context, and returns when nothing of it is left. The first goes with its session.
    pub async fn close_context(
        &self,
        tenant: &str,
        id: &str,
        name: &str,
    ) -> Result<(), EngineError> {
        if name == MAIN_CONTEXT {
            return Err(EngineError::MainContext);
        }
        let session = self.awake(tenant, id).await?;
        session.touch();
        let close = |reply| Command::CloseContext { name: name.to_owned(), reply };
        match session.ask(close).await {
            Some(true) => Ok(()),
            Some(false) => Err(EngineError::UnknownContext(name.to_owned())),
            None => Err(unknown(id)),
        }
    }
}

fn unknown(id: &str) -> EngineError {
    EngineError::UnknownSession(id.to_owned())
}
