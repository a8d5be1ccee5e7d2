//! Many clients at one time, and many sessions.

use std::ops::Range;

use tokio::task::JoinSet;
use vivarium_api_types::{SessionInfo, SessionUsage};
use vivarium_client::{Client, Method};

use super::requests::{self, unexpected};
use crate::BenchError;
use crate::daemon::Daemon;

/// Clients that make sessions which are not themselves measured.
pub(super) const MAKERS: usize = 8;

/// Runs all of these at the same time, and returns their results in the order of their ends.
pub(super) async fn at_once<T: Send + 'static>(
    what: &'static str,
    tasks: impl IntoIterator<Item = impl Future<Output = Result<T, BenchError>> + Send + 'static>,
) -> Result<Vec<T>, BenchError> {
    let mut running: JoinSet<_> = tasks.into_iter().collect();
    let mut found = Vec::with_capacity(running.len());
    while let Some(ended) = running.join_next().await {
        found.push(ended.map_err(|error| unexpected(what, &error))??);
    }
    Ok(found)
}

/// Does the same to each of these, divided among so many clients.
pub(super) async fn each<Item: Clone, Done>(
    what: &'static str,
    daemon: &Daemon,
    clients: usize,
    items: &[Item],
    act: fn(Client, Vec<Item>) -> Done,
) -> Result<(), BenchError>
where
    Done: Future<Output = Result<(), BenchError>> + Send + 'static,
{
    let acts = (0..clients).map(|number| {
        act(daemon.client(), items.iter().skip(number).step_by(clients).cloned().collect())
    });
    at_once(what, acts).await.map(drop)
}

/// Deletes these sessions.
pub(super) async fn delete(mut client: Client, ids: Vec<String>) -> Result<(), BenchError> {
    for id in ids {
        requests::delete(&mut client, &id).await?;
    }
    Ok(())
}

/// Makes idle sessions of these numbers, in each of which this code has given 2.
pub(super) async fn grow(
    daemon: &Daemon,
    numbers: Range<usize>,
    code: &str,
) -> Result<(), BenchError> {
    let makers = (0..MAKERS).map(|maker| {
        let (mut client, code) = (daemon.client(), code.to_owned());
        let own = numbers.clone().skip(maker).step_by(MAKERS);
        async move {
            for number in own {
                requests::create(&mut client, &id(number), &code, "an idle session").await?;
            }
            Ok(())
        }
    });
    at_once("idle sessions", makers).await.map(drop)
}

/// Deletes what [`grow`] made.
pub(super) async fn shrink(daemon: &Daemon, numbers: Range<usize>) -> Result<(), BenchError> {
    let ids: Vec<_> = numbers.map(id).collect();
    each("idle sessions", daemon, MAKERS, &ids, delete).await
}

pub(super) async fn usage(
    daemon: &Daemon,
    numbers: Range<usize>,
) -> Result<Vec<SessionUsage>, BenchError> {
    let mut client = daemon.client();
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        let path = format!("/v1/sessions/{}", id(number));
        let info: SessionInfo = client.json(Method::GET, &path, None::<&()>).await?;
        found.push(info.usage);
    }
    Ok(found)
}

fn id(number: usize) -> String {
    format!("idle-{number}")
}
