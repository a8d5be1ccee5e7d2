//! Where code runs: in an engine in this process, or in a daemon.

mod daemon;
mod events;
mod execution;
mod files;
#[cfg(feature = "interactive")]
mod interactive;

use tokio::runtime::{Builder, Runtime};
use vivarium_api_types::{ContextSpec, SessionInfo, SessionSpec};
use vivarium_client::{Client, Remote};
use vivarium_engine::{DEFAULT_TENANT, Engine, EngineError};

use super::exit::{Exit, Failure};
use super::print;

pub(super) use events::EventStream;
pub(super) use execution::ExecutionRequest;

#[derive(Debug, Clone)]
pub(super) enum Target {
    Embedded(Engine),
    Daemon(Remote),
}

impl Target {
    pub(super) async fn create(&self, spec: SessionSpec) -> Result<SessionInfo, Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.create(DEFAULT_TENANT, spec).await?),
            Self::Daemon(remote) => Ok(client(remote).create_session(&spec).await?),
        }
    }

    pub(super) async fn find(&self, session: &str) -> Result<Option<SessionInfo>, Failure> {
        match self {
            Self::Embedded(engine) => match engine.get(DEFAULT_TENANT, session).await {
                Err(EngineError::UnknownSession(_)) => Ok(None),
                found => Ok(Some(found?)),
            },
            Self::Daemon(remote) => match client(remote).session(session).await {
                Err(error) if error.code() == Some("unknown_session") => Ok(None),
                found => Ok(Some(found?)),
            },
        }
    }

    /// The session of this id, and whether it is new: it is created like this if there is none. A
    /// note says so where there was one and something else was asked for.
    pub(super) async fn find_or_create(
        &self,
        id: &str,
        spec: SessionSpec,
    ) -> Result<(SessionInfo, bool), Failure> {
        let is_plain = spec == SessionSpec::default();
        let info = match self.find(id).await? {
            Some(info) => info,
            None => match self.create(SessionSpec { id: Some(id.to_owned()), ..spec }).await {
                Ok(info) => return Ok((info, true)),
                // Somebody else may have created it meanwhile.
                Err(failure) => self.find(id).await?.ok_or(failure)?,
            },
        };
        if !is_plain {
            print::note(&format!("session {id} is there already, and stays as it is"));
        }
        Ok((info, false))
    }

    /// Opens a context, unless there is one of this id.
    pub(super) async fn find_or_open(&self, session: &str, context: &str) -> Result<(), Failure> {
        let spec = ContextSpec { id: Some(context.to_owned()) };
        match self {
            Self::Embedded(engine) => {
                match engine.open_context(DEFAULT_TENANT, session, spec).await {
                    Err(EngineError::ContextExists(_)) => Ok(()),
                    opened => Ok(opened.map(drop)?),
                }
            }
            Self::Daemon(remote) => match client(remote).open_context(session, &spec).await {
                Err(error) if error.code() == Some("context_exists") => Ok(()),
                opened => Ok(opened.map(drop)?),
            },
        }
    }

    /// Interrupts what a context runs, by default the main one. Returns whether that has ended, at
    /// the latest after the grace.
    pub(super) async fn interrupt(
        &self,
        session: &str,
        context: Option<&str>,
    ) -> Result<bool, Failure> {
        let reply = match self {
            Self::Embedded(engine) => {
                engine.interrupt(DEFAULT_TENANT, session, context.map(str::to_owned)).await?
            }
            Self::Daemon(remote) => match context {
                None => client(remote).interrupt(session).await?,
                Some(context) => client(remote).interrupt_context(session, context).await?,
            },
        };
        Ok(reply.interrupted)
    }

    pub(super) async fn delete(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.delete(DEFAULT_TENANT, session).await?),
            Self::Daemon(remote) => Ok(client(remote).delete_session(session).await?),
        }
    }
}

/// A client of its own, as a client has one request at a time.
fn client(remote: &Remote) -> Client {
    Client::new(remote.clone())
}

/// One thread is enough to wait for responses.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::says(Exit::Unavailable, format!("cannot start: {error}")))
}

/// Runs a command, and does not wait for reads and writes that are still blocked
/// at its end, such as those of a stopped terminal.
pub(super) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Invalid { .. }
            | EngineError::BadPath { .. }
            | EngineError::BadArchive(_)
            | EngineError::FileTooLarge { .. } => Exit::Usage,
            EngineError::Busy
            | EngineError::NoAnswer(_)
            | EngineError::UnknownFile(_)
            | EngineError::NotAFile { .. }
            | EngineError::NoSpace { .. }
            | EngineError::FileRefused { .. }
            | EngineError::FileExists { .. } => Exit::Error,
            _ => Exit::Unavailable,
        };
        Self::new(exit, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::{ListenAddr, SessionQuery};
    use vivarium_client::Url;
    use vivarium_engine::testing::{echoing, settings};
    use vivarium_server::{api, listen};

    /// The life of a session, the same on every target.
    async fn live(target: &Target) {
        let session = target.create(SessionSpec::default()).await.unwrap();
        let request = ExecutionRequest::code("print".to_owned());
        let outcome = target.execute(&session.id, request.clone(), false).await.unwrap();
        assert_eq!(outcome.stdout, "print");
        for _ in 0..2 {
            target.find_or_open(&session.id, "other").await.unwrap();
        }
        for context in [None, Some("other")] {
            target.interrupt(&session.id, context).await.unwrap();
        }
        target.delete(&session.id).await.unwrap();
        assert!(target.execute(&session.id, request.clone(), false).await.is_err());
        target.execute("made", request, true).await.unwrap();
    }

    #[tokio::test]
    async fn sessions_behave_the_same_in_a_daemon_and_in_an_embedded_engine() {
        let temp = tempfile::tempdir().unwrap();
        let addresses = [
            ListenAddr::Unix(temp.path().join("api.sock")),
            ListenAddr::Tcp("127.0.0.1:0".parse().unwrap()),
        ];
        let (engine, _) = echoing(settings());
        let listeners = listen::bind(&addresses, None).unwrap();
        let mut urls = vec![Url::from(&addresses[0])];
        for listener in &listeners {
            if let listen::Listener::Tcp(tcp) = listener {
                urls.push(Url::from(&ListenAddr::Tcp(tcp.local_addr().unwrap())));
            }
        }
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let server = tokio::spawn(api::serve(engine, listeners, stopped));
        for url in urls {
            live(&Target::Daemon(url.clone().into())).await;
            let mut client = Client::new(url);
            let sessions = client.all_sessions(SessionQuery::default(), usize::MAX).await;
            assert_eq!(sessions.unwrap().len(), 1);
            client.delete_session("made").await.unwrap();
        }
        drop(stop);
        server.await.unwrap().unwrap();
        live(&Target::Embedded(echoing(settings()).0)).await;
    }
}
