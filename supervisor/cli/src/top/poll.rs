//! Polling a daemon.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use vivarium_api_types::{HostInfo, SessionInfo, SessionQuery, TenantInfo, TenantList};
use vivarium_client::{Client, ClientError, Remote};
use vivarium_protocol::error_chain;

use super::view::Pane;
use crate::exit::Failure;

/// The most sessions that are fetched.
const MAX_SESSIONS: usize = 5000;

/// A daemon that does not answer within this time counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) host: HostInfo,
    /// None if not fetched.
    pub(super) sessions: Option<Vec<SessionInfo>>,
    /// None if not fetched; else the tenants, or why the daemon does not show them.
    pub(super) tenants: Option<Result<Vec<TenantInfo>, String>>,
}

pub(super) type Update = Result<Snapshot, String>;

/// Fetches the host, and the sessions and tenants if they are wanted.
pub(super) async fn fetch(
    client: &mut Client,
    wants_sessions: bool,
    wants_tenants: bool,
) -> Result<Snapshot, ClientError> {
    let host = client.host().await?;
    let at = Instant::now();
    let sessions = match wants_sessions {
        true => Some(client.all_sessions(SessionQuery::default(), MAX_SESSIONS).await?),
        false => None,
    };
    let tenants = if wants_tenants { Some(tenants(client).await?) } else { None };
    Ok(Snapshot { at, host, sessions, tenants })
}

/// A proxy may hide this route, as it may hide the metrics: the rest is shown then.
async fn tenants(client: &mut Client) -> Result<Result<Vec<TenantInfo>, String>, ClientError> {
    match client.tenants().await {
        Ok(TenantList { tenants }) => Ok(Ok(tenants)),
        Err(ClientError::Problem { status, .. } | ClientError::Malformed { status, .. }) => {
            Ok(Err(format!("the daemon does not show its tenants to you ({status})")))
        }
        Err(error) => Err(error),
    }
}

/// Fetches what the pane shows, every `interval` and whenever another pane is shown, until nobody
/// receives it any more.
pub(super) async fn watch(
    remote: Remote,
    interval: Duration,
    mut pane: watch::Receiver<Pane>,
    updates: mpsc::Sender<Update>,
) {
    let mut client = Client::new(remote);
    loop {
        let shown = *pane.borrow_and_update();
        let fetched = fetch(&mut client, shown == Pane::Sessions, shown == Pane::Tenants);
        let update = match tokio::time::timeout(TIMEOUT, fetched).await {
            Ok(Ok(snapshot)) => Ok(snapshot),
            Ok(Err(error)) => Err(error_chain(&error)),
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        if updates.send(update).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            changed = pane.changed() => if changed.is_err() { return },
        }
    }
}

pub(super) async fn fetch_all(remote: Remote) -> Result<Snapshot, Failure> {
    Ok(fetch(&mut Client::new(remote), true, true).await?)
}
