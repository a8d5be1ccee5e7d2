//! When the agent's next message is received, and when its execution has to wait.

use std::time::Duration;

use tokio::time::Instant;
use vivarium_protocol::message::FromAgent;

use super::RunningExecution;
use crate::budget::Account;
use crate::session::channel::{Channel, ChannelError};

/// How long an execution is held back where the daemon has no room for what it prints or shows.
/// What it prints and shows after that is dropped, so that those which wait for one another's room
/// come to an end.
const MAX_BUDGET_WAIT: Duration = Duration::from_secs(5);

/// What the agent says next. It is not listened to while who follows the execution is behind by
/// all that is kept, nor while the daemon has no room for more, so that the code waits; unless the
/// code is being stopped, which it has to be seen to obey. Safe to cancel: nothing is lost.
pub(super) async fn recv(
    channel: &mut Channel,
    running: Option<&RunningExecution>,
    account: &Account,
) -> Result<FromAgent, ChannelError> {
    let max_wait = match running.filter(|running| running.stop.is_none()) {
        Some(running) => {
            running.writer.log().ready_for_events().await;
            MAX_BUDGET_WAIT
        }
        None => Duration::ZERO,
    };
    channel.next_within(account, max_wait).await
}

/// Resolves when everybody went away for whom this runs, if it is to stop then.
pub(super) async fn abandoned(running: Option<&RunningExecution>) {
    match running.filter(|running| running.stop.is_none()) {
        Some(running) => running.writer.log().abandoned().await,
        None => std::future::pending().await,
    }
}

/// Resolves at this time; never if there is none.
pub(super) async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
