//! What an execution tells while it runs, the same wherever it does.

use vivarium_client::{Client, Event, Execution};

use super::embedded::{self, Followed};
use super::{Place, session_path, unanswered};
use crate::exit::{Exit, Failure};
use crate::work::Work;

/// An execution that is followed.
#[derive(Debug)]
pub(crate) enum Events {
    /// In a daemon.
    Daemon(Box<Execution>),
    /// In this process.
    Embedded(Box<Followed>),
}

impl Events {
    /// The next event; none after the last. May be dropped without losing any.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        match self {
            Self::Daemon(execution) => execution.next().await.map_err(|e| unanswered(&e)),
            Self::Embedded(followed) => followed.next().await,
        }
    }
}

impl Place {
    /// Starts an execution in a session, which is made first if `create` says so and there is
    /// none.
    pub(crate) async fn follow(
        &self,
        session: &str,
        work: Work,
        create: bool,
    ) -> Result<Events, Failure> {
        match self {
            Self::Embedded(engine) => {
                let ticket = embedded::start(engine, session, work, create, true).await?;
                Followed::new(engine, ticket).map(|followed| Events::Embedded(Box::new(followed)))
            }
            Self::Daemon(remote) => {
                let query = if create { "?create=true" } else { "" };
                let path = format!("{}/{}{query}", session_path(session), work.route());
                let body = work.json().map_err(|error| Failure::new(Exit::Error, &error))?;
                let execution = Execution::start(Client::new(remote.clone()), path, body).await;
                let execution = execution.map_err(|error| unanswered(&error))?;
                Ok(Events::Daemon(Box::new(execution)))
            }
        }
    }
}
