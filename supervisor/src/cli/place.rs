//! Where code runs: in an engine in this process, or in a daemon.

use hyper::Method;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

use super::exit::{Exit, Failure};
use crate::client::{Client, ClientError, Remote};
use crate::engine::types::{ExecuteRequest, Outcome, SessionInfo, SessionSpec};
use crate::engine::{DEFAULT_TENANT, Engine, EngineError};

/// One of the two.
#[derive(Debug)]
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
                answer.map_err(|error| unanswered(&client, &error))
            }
        }
    }

    /// Runs code in a session.
    pub(super) async fn execute(
        &self,
        session: &str,
        request: ExecuteRequest,
        create: bool,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Embedded(engine) => engine
                .execute(DEFAULT_TENANT, session, request, create)
                .await
                .map_err(|e| refused(&e)),
            Self::Daemon(remote) => {
                let create = if create { "?create=true" } else { "" };
                let path = format!("{}/execute{create}", session_path(session));
                let mut client = Client::new(remote.clone());
                let answer = client.json(Method::POST, &path, Some(&request)).await;
                answer.map_err(|error| unanswered(&client, &error))
            }
        }
    }

    /// Interrupts what a session runs.
    pub(super) async fn interrupt(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.interrupt(DEFAULT_TENANT, session).await.map(drop).map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => {
                let path = format!("{}/interrupt", session_path(session));
                let mut client = Client::new(remote.clone());
                ask(&mut client, Method::POST, &path).await.map(|_: Ignored| ())
            }
        }
    }

    /// Deletes a session.
    pub(super) async fn delete(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.delete(DEFAULT_TENANT, session).await.map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => {
                let path = session_path(session);
                let mut client = Client::new(remote.clone());
                ask(&mut client, Method::DELETE, &path).await.map(|_: Ignored| ())
            }
        }
    }
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
    answer.map_err(|error| unanswered(client, &error))
}

/// The path of a session. An id that is none is refused by the daemon, whatever is in it.
pub(super) fn session_path(session: &str) -> String {
    let mut path = String::from("/v1/sessions/");
    for byte in session.bytes() {
        // RFC 3986, 2.3: unreserved, without the full stop, which alone means a directory.
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

/// A runtime for a command: one thread is enough to wait for answers.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::says(Exit::Unavailable, format!("cannot start: {error}")))
}

fn unanswered(client: &Client, error: &ClientError) -> Failure {
    let exit = match error {
        ClientError::Problem { status, .. } if status.as_u16() == 401 => {
            let about = if client.has_token() {
                "what VIVARIUM_TOKEN holds is no token of its tenants (any more)"
            } else {
                "it has tenants: set VIVARIUM_TOKEN to the token of one"
            };
            return Failure::says(Exit::Usage, format!("{} refused: {about}", client.url()));
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
        EngineError::Invalid { .. } => Exit::Usage,
        _ => Exit::Unavailable,
    };
    Failure::new(exit, error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::client::Url;
    use crate::engine::tests::{echoing, settings};
    use crate::engine::types::SessionPage;
    use crate::settings::ListenAddr;
    use crate::{api, listen, shutdown};

    #[test]
    fn an_id_stays_one_component_of_the_path() {
        assert_eq!(session_path("a-B_9"), "/v1/sessions/a-B_9");
        assert_eq!(session_path("../x?y"), "/v1/sessions/%2E%2E%2Fx%3Fy");
    }

    /// One session's life, the same wherever it is.
    async fn live(place: &Place) {
        let session = place.create(SessionSpec::default()).await.unwrap();
        let request = ExecuteRequest { code: "print".to_owned(), ..Default::default() };
        let outcome = place.execute(&session.id, request.clone(), false).await.unwrap();
        assert_eq!(outcome.stdout, "print");
        place.interrupt(&session.id).await.unwrap();
        place.delete(&session.id).await.unwrap();
        assert!(place.execute(&session.id, request.clone(), false).await.is_err());
        place.execute("made", request, true).await.unwrap();
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
