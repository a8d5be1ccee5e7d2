//! Asking a daemon how it is, again and again.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use vivarium_api_types::{HostInfo, SessionInfo};
use vivarium_client::{ApiRequest, Client, ClientError, Method, Remote};
use vivarium_protocol::error_chain;

use super::metrics::{self, Tenant};
use super::view::Pane;
use crate::exit::Failure;
use crate::target;

/// The most sessions that are asked for. Nobody looks at more.
const MAX_SESSIONS: usize = 5000;

/// A daemon that does not answer for so long is not there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// What a daemon said.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) host: HostInfo,
    /// Where they were asked for.
    pub(super) sessions: Option<Vec<SessionInfo>>,
    /// Where they were asked for: the tenants, or why they are not told.
    pub(super) tenants: Option<Result<Vec<Tenant>, String>>,
}

/// What a daemon said, or why it said nothing.
pub(super) type News = Result<Snapshot, String>;

/// Asks once for what is wanted.
pub(super) async fn look(
    client: &mut Client,
    wants_sessions: bool,
    wants_tenants: bool,
) -> Result<Snapshot, ClientError> {
    let host = client.call(ApiRequest::new(Method::GET, "/v1/host")).await?;
    let at = Instant::now();
    let sessions = match wants_sessions {
        true => Some(target::list_sessions(client, MAX_SESSIONS).await?),
        false => None,
    };
    let tenants = if wants_tenants { Some(tenants(client).await?) } else { None };
    Ok(Snapshot { at, host, sessions, tenants })
}

async fn tenants(client: &mut Client) -> Result<Result<Vec<Tenant>, String>, ClientError> {
    let (status, body) = client.send(Method::GET, "/metrics", Vec::new()).await?;
    if !status.is_success() {
        return Ok(Err(format!("the daemon does not show its metrics to you ({status})")));
    }
    Ok(Ok(metrics::tenants(&String::from_utf8_lossy(&body))))
}

/// Asks for what the pane shows, every `interval` and whenever another is shown, until nobody
/// listens any more.
pub(super) async fn watch(
    remote: Remote,
    interval: Duration,
    mut pane: watch::Receiver<Pane>,
    tell: mpsc::Sender<News>,
) {
    let mut client = Client::new(remote);
    loop {
        let shown = *pane.borrow_and_update();
        let asked = look(&mut client, shown == Pane::Sessions, shown == Pane::Tenants);
        let news = match tokio::time::timeout(ANSWERS_WITHIN, asked).await {
            Ok(Ok(snapshot)) => Ok(snapshot),
            Ok(Err(error)) => Err(error_chain(&error)),
            Err(_) => Err(format!("no answer within {} s", ANSWERS_WITHIN.as_secs())),
        };
        if tell.send(news).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            changed = pane.changed() => if changed.is_err() { return },
        }
    }
}

/// All there is to know, once.
pub(super) async fn everything(remote: Remote) -> Result<Snapshot, Failure> {
    let looked = look(&mut Client::new(remote), true, true).await;
    looked.map_err(|error| target::daemon_failure(&error))
}
