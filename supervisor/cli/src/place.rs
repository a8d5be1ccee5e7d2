//! Where code runs: in an engine in this process, or in a daemon.

mod embedded;
mod events;
mod files;
mod probe;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use vivarium_api_types::{InterruptReply, Outcome, SessionInfo, SessionSpec};
use vivarium_client::{Ask, Client, ClientError, Method, Remote};
use vivarium_engine::{DEFAULT_TENANT, Engine, EngineError};

use super::exit::{Exit, Failure};
use super::options;
use super::work::Work;

pub(super) use events::Events;
pub(super) use files::Put;

/// One of the two.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In this process.
    Embedded(Engine),
    /// There.
    Daemon(Remote),
}

impl Place {
    /// Makes a session.
    pub(super) async fn create(&self, spec: SessionSpec) -> Result<SessionInfo, Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.create(DEFAULT_TENANT, spec).await.map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => {
                let mut client = Client::new(remote.clone());
                let answer = client.json(Method::POST, "/v1/sessions", Some(&spec)).await;
                answer.map_err(|error| unanswered(&error))
            }
        }
    }

    /// A session that may be there.
    pub(super) async fn find(&self, session: &str) -> Result<Option<SessionInfo>, Failure> {
        match self {
            Self::Embedded(engine) => match engine.get(DEFAULT_TENANT, session).await {
                Err(EngineError::UnknownSession(_)) => Ok(None),
                found => found.map(Some).map_err(|e| refused(&e)),
            },
            Self::Daemon(remote) => {
                let mut client = Client::new(remote.clone());
                match client.ask(Ask::new(Method::GET, &session_path(session))).await {
                    Err(error) if error.code() == Some("unknown_session") => Ok(None),
                    found => found.map(Some).map_err(|e| unanswered(&e)),
                }
            }
        }
    }

    /// A session of this id, made if there is none.
    pub(super) async fn find_or_create(&self, session: &str) -> Result<SessionInfo, Failure> {
        if let Some(info) = self.find(session).await? {
            return Ok(info);
        }
        self.create(SessionSpec { id: Some(session.to_owned()), ..SessionSpec::default() }).await
    }

    /// Runs code or a command in a session, and gives its outcome as a whole.
    pub(super) async fn execute(
        &self,
        session: &str,
        work: Work,
        create: bool,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Embedded(engine) => {
                let ticket = embedded::start(engine, session, work, create, false).await?;
                let outcome = ticket.outcome().await.map_err(|error| refused(&error))?;
                Ok(Arc::unwrap_or_clone(outcome))
            }
            Self::Daemon(remote) => {
                let query = if create { "?create=true" } else { "" };
                let path = format!("{}/{}{query}", session_path(session), work.route());
                let body = work.json().map_err(|error| Failure::new(Exit::Error, &error))?;
                let mut client = Client::new(remote.clone());
                let answer = client.ask(Ask::new(Method::POST, &path).json_bytes(body)).await;
                answer.map_err(|error| unanswered(&error))
            }
        }
    }

    /// Interrupts what a session runs. Returns when that has ended, or after the grace; says
    /// whether it has.
    pub(super) async fn interrupt(&self, session: &str) -> Result<bool, Failure> {
        let reply = match self {
            Self::Embedded(engine) => {
                engine.interrupt(DEFAULT_TENANT, session).await.map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => {
                let path = format!("{}/interrupt", session_path(session));
                ask(&mut Client::new(remote.clone()), Method::POST, &path).await
            }
        };
        reply.map(|reply: InterruptReply| reply.interrupted)
    }

    /// Gives a session a fresh kernel.
    pub(super) async fn reset(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.reset(DEFAULT_TENANT, session).await.map(drop).map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => tell(remote, Method::POST, session, "/reset").await,
        }
    }

    /// Begins a session's idle time anew.
    pub(super) async fn keepalive(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.keepalive(DEFAULT_TENANT, session).map(drop).map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => tell(remote, Method::POST, session, "/keepalive").await,
        }
    }

    /// Deletes a session.
    pub(super) async fn delete(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.delete(DEFAULT_TENANT, session).await.map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => tell(remote, Method::DELETE, session, "").await,
        }
    }
}

async fn tell(remote: &Remote, method: Method, session: &str, what: &str) -> Result<(), Failure> {
    let path = format!("{}{what}", session_path(session));
    ask(&mut Client::new(remote.clone()), method, &path).await.map(|_: Ignored| ())
}

/// An answer of which only the success counts.
type Ignored = serde::de::IgnoredAny;

/// Asks a daemon without a body.
pub(super) async fn ask<T: DeserializeOwned>(
    client: &mut Client,
    method: Method,
    path: &str,
) -> Result<T, Failure> {
    let answer = client.json(method, path, None::<&()>).await;
    answer.map_err(|error| unanswered(&error))
}

/// The path of a session. An id that is none is refused by the daemon, whatever is in it.
pub(super) fn session_path(session: &str) -> String {
    format!("/v1/sessions/{}", escaped(session))
}

/// Text as one component of a path, or one value of a query.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        // RFC 3986, 2.3: unreserved, without the full stop, which alone means a directory.
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// A runtime for a command: one thread is enough to wait for answers.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::says(Exit::Unavailable, format!("cannot start: {error}")))
}

/// Runs a command in such a runtime. What still writes or reads at its end, such as to a
/// terminal that is stopped, is not waited for.
pub(super) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

pub(super) fn unanswered(error: &ClientError) -> Failure {
    let exit = match error {
        ClientError::Problem { status, .. } if status.as_u16() == 401 => {
            let about = if options::token().is_some() {
                "what VIVARIUM_TOKEN holds is no token of its tenants (any more)"
            } else {
                "it has tenants: set VIVARIUM_TOKEN to the token of one"
            };
            return Failure::says(Exit::Usage, format!("the daemon refused: {about}"));
        }
        ClientError::Connect { .. } | ClientError::Http { .. } => Exit::Unavailable,
        ClientError::Problem { status, .. } if [429, 503].contains(&status.as_u16()) => {
            Exit::Unavailable
        }
        ClientError::Problem { status, .. } if [400, 413, 422].contains(&status.as_u16()) => {
            Exit::Usage
        }
        _ => Exit::Error,
    };
    Failure::new(exit, error)
}

fn refused(error: &EngineError) -> Failure {
    let exit = match error {
        EngineError::Invalid { .. }
        | EngineError::BadPath { .. }
        | EngineError::BadArchive(_)
        | EngineError::FileTooLarge { .. } => Exit::Usage,
        EngineError::Busy
        | EngineError::NoAnswer(_)
        | EngineError::UnknownFile(_)
        | EngineError::NotAFile { .. }
        | EngineError::NoSpace { .. }
        | EngineError::FileRefused { .. } => Exit::Error,
        _ => Exit::Unavailable,
    };
    Failure::new(exit, error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use vivarium_api_types::{ListenAddr, SessionPage};
    use vivarium_client::Url;
    use vivarium_engine::testing::{echoing, settings};
    use vivarium_server::{api, listen, shutdown};

    #[test]
    fn an_id_stays_one_component_of_the_path() {
        assert_eq!(session_path("a-B_9"), "/v1/sessions/a-B_9");
        assert_eq!(session_path("../x?y"), "/v1/sessions/%2E%2E%2Fx%3Fy");
    }

    /// One session's life, the same wherever it is.
    async fn live(place: &Place) {
        let session = place.create(SessionSpec::default()).await.unwrap();
        let work = Work::code("print".to_owned());
        let outcome = place.execute(&session.id, work.clone(), false).await.unwrap();
        assert_eq!(outcome.stdout, "print");
        place.interrupt(&session.id).await.unwrap();
        place.delete(&session.id).await.unwrap();
        assert!(place.execute(&session.id, work.clone(), false).await.is_err());
        place.execute("made", work, true).await.unwrap();
    }

    #[tokio::test]
    async fn a_daemon_and_an_embedded_engine_do_the_same() {
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
        let (trigger, stop) = shutdown::channel();
        let server = tokio::spawn(api::serve(engine, listeners, stop.wait()));
        for url in urls {
            live(&Place::Daemon(url.clone().into())).await;
            let mut client = Client::new(url);
            let page: SessionPage = ask(&mut client, Method::GET, "/v1/sessions").await.unwrap();
            assert_eq!(page.sessions.len(), 1);
            let _: Ignored = ask(&mut client, Method::DELETE, "/v1/sessions/made").await.unwrap();
        }
        trigger.stop();
        server.await.unwrap().unwrap();
        live(&Place::Embedded(echoing(settings()).0)).await;
    }
}
