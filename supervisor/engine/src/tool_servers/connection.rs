//! What one execution has of a server. Nothing is shared with others, least of all the server's session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use vivarium_api_types::{CallAnswer, JsonText};
use vivarium_egress::Slots;
use vivarium_egress::message::MAX_CALL_BODY_BYTES;
use vivarium_protocol::discard;

use super::client::{Client, Era, ServerError, Terms};
use super::listing::ListedTool;
use super::message;
use crate::budget::{Account, Reservation};

/// Time in which a server is told that a session of it is over.
const END: Duration = Duration::from_secs(5);

const GATE_IS_LATER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Connection {
    client: Arc<Client>,
    era: Era,
    /// Agreed on at the first call.
    terms: OnceCell<Terms>,
    tenant: Arc<str>,
    slots: Arc<Slots>,
}

/// A tool of a server, for one execution.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    connection: Arc<Connection>,
    tool: Arc<ListedTool>,
}

impl Connection {
    pub(super) fn new(client: Client, era: Era, tenant: Arc<str>, slots: Arc<Slots>) -> Self {
        Self { client: Arc::new(client), era, terms: OnceCell::new(), tenant, slots }
    }

    async fn call(
        &self,
        call: u64,
        tool: &str,
        arguments: &JsonText,
        until: Instant,
    ) -> Result<CallAnswer, ServerError> {
        // The call ends by the clock of its execution, and the gate's is a bit later.
        let left = || until.saturating_duration_since(Instant::now()) + GATE_IS_LATER;
        let terms =
            self.terms.get_or_try_init(|| self.client.terms(self.era, left())).await?.clone();
        // It was written from a value.
        let arguments = serde_json::from_str(arguments.as_str()).unwrap_or(Value::Null);
        let params = [("name", Value::from(tool)), ("arguments", arguments)];
        let params: Map<_, _> =
            params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let result = self.client.request(&terms, call, "tools/call", params, left()).await?;
        Ok(message::answer(&result))
    }
}

impl Drop for Connection {
    /// Ends the server's session, which is nobody else's.
    fn drop(&mut self) {
        let has_session =
            |terms: &Terms| matches!(terms, Terms::Handshake { session: Some(_), .. });
        let Some(terms) = self.terms.take().filter(has_session) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let client = Arc::clone(&self.client);
        runtime.spawn(async move {
            discard(client.end(&terms, END).await, "the server ends it by itself");
        });
    }
}

impl Served {
    pub(super) const fn new(connection: Arc<Connection>, tool: Arc<ListedTool>) -> Self {
        Self { connection, tool }
    }

    /// As code has it.
    pub(crate) fn name(&self) -> &str {
        &self.tool.name
    }

    pub(crate) fn description(&self) -> &str {
        &self.tool.description
    }

    pub(crate) fn parameters(&self) -> Option<&JsonText> {
        self.tool.parameters.as_ref()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.connection.client.server.timeout
    }

    /// The server, as it is configured.
    pub(crate) fn server(&self) -> &str {
        self.connection.client.name()
    }

    /// What the server answers to a call, and the room that this takes; `None` if it does not by then.
    pub(crate) async fn answer(
        self,
        (call, arguments): (u64, JsonText),
        until: Instant,
        account: Account,
    ) -> Option<(CallAnswer, Option<Reservation>)> {
        let Self { connection, tool } = self;
        let answered = timeout_at(until, async {
            let slot = connection.slots.take(&connection.tenant).await;
            let Ok(mut room) = account.take(MAX_CALL_BODY_BYTES) else {
                return (message::failed("the daemon has no room for the answer"), None);
            };
            let answer = connection.call(call, &tool.theirs, &arguments, until).await;
            let answer = answer.unwrap_or_else(|error| {
                let server = connection.client.name();
                let why = vivarium_protocol::error_chain(&error);
                tracing::info!(server, error = why, "a call of a tool");
                message::failed(error.to_string())
            });
            drop(slot);
            room.set(answer.result.as_ref().map_or(0, |result| result.as_str().len()));
            (answer, Some(room))
        });
        answered.await.ok()
    }
}
