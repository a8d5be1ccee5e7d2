//! Servers of tools that the operator has, which code may call where its tenant may: MCP over streamable HTTP.
//!
//! The daemon is their client. It reaches them through the egress gate, with secrets that sessions never
//! have. To code they are tools like those of its client's, and bounded alike; what comes from a server is as
//! strange as what comes from a client.
//!
//! | file | what it holds |
//! |---|---|
//! | [`client`] | requests of MCP, in the revisions with and without a handshake |
//! | [`message`] | what is asked and answered, and what Python gets of that |
//! | [`connection`] | what one execution has of a server: calls are made here |
//! | [`listing`] | the tools of a server, under the names that code has for them |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use vivarium_egress::Slots;
use vivarium_egress::message::MAX_CALLS;

use crate::egress::Egress;
use crate::settings::ToolServer;

mod client;
mod connection;
mod listing;
mod message;

use client::Client;
pub(crate) use client::ServerError;
pub(crate) use connection::{Connection, Served};
use listing::Listing;

/// The most servers of one execution.
pub(crate) const MAX_SERVERS: usize = 16;

/// How long is known what tools a server has, and how long that it did not say.
const FRESH: Duration = Duration::from_mins(1);
const FAILED: Duration = Duration::from_secs(5);

/// Calls of tools at one time. The gate makes more, so that webhooks never wait for them.
const AT_ONCE: usize = MAX_CALLS / 4 * 3;

#[derive(Debug)]
pub(crate) struct ToolServers {
    egress: Arc<Egress>,
    slots: Arc<Slots>,
    known: Mutex<BTreeMap<String, Arc<Known>>>,
}

/// A server, as it is configured, and its tools, once they were asked for.
#[derive(Debug)]
struct Known {
    server: Arc<ToolServer>,
    listed: tokio::sync::Mutex<Option<Listed>>,
}

#[derive(Debug)]
struct Listed {
    at: Instant,
    /// Or why it did not say.
    listing: Result<Arc<Listing>, String>,
}

impl ToolServers {
    pub(crate) fn new(egress: Arc<Egress>) -> Self {
        Self { egress, slots: Slots::new(AT_ONCE), known: Mutex::default() }
    }

    /// What an execution of this tenant can call of a server: the tools under the names that code has for them.
    ///
    /// # Errors
    /// With the reason, if the server does not say what it has.
    pub(crate) async fn connect(
        &self,
        name: &str,
        server: &ToolServer,
        tenant: &str,
    ) -> Result<Vec<Served>, String> {
        let known = self.known(name, server);
        let listing = self.listing(name, &known).await?;
        let client = Client::new(name, Arc::clone(&known.server), Arc::clone(&self.egress));
        let slots = Arc::clone(&self.slots);
        let connection = Arc::new(Connection::new(client, listing.era, tenant.into(), slots));
        let served = |tool| Served::new(Arc::clone(&connection), tool);
        Ok(listing.tools.iter().map(Arc::clone).map(served).collect())
    }

    /// What is known of the server, nothing if it is configured otherwise now.
    fn known(&self, name: &str, server: &ToolServer) -> Arc<Known> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(name)
            && *known.server == *server
        {
            return Arc::clone(known);
        }
        let listed = tokio::sync::Mutex::new(None);
        let known = Arc::new(Known { server: Arc::new(server.clone()), listed });
        all.insert(name.to_owned(), Arc::clone(&known));
        known
    }

    /// Its tools, asked for once for all who want to know.
    async fn listing(&self, name: &str, known: &Known) -> Result<Arc<Listing>, String> {
        let mut listed = known.listed.lock().await;
        if let Some(Listed { at, listing }) = &*listed
            && at.elapsed() < if listing.is_ok() { FRESH } else { FAILED }
        {
            return listing.clone();
        }
        let client = Client::new(name, Arc::clone(&known.server), Arc::clone(&self.egress));
        let asked = listing::ask(&client).await.map(Arc::new);
        if let Err(error) = &asked {
            let why = vivarium_protocol::error_chain(error);
            tracing::warn!(server = name, error = why, "what tools it has");
        }
        // A secret that cannot be read troubles no server.
        let is_kept = !matches!(asked, Err(ServerError::Secret(_)));
        let listing = asked.map_err(|error| error.to_string());
        *listed = is_kept.then(|| Listed { at: Instant::now(), listing: listing.clone() });
        listing
    }
}
