//! Ports of a session: who may connect to which.

use std::num::NonZeroU16;
use std::sync::Arc;

use jiff::Timestamp;
use vivarium_protocol::layer::{Layer, Status};
use vivarium_protocol::policy::Network;

use super::{Engine, EngineError};
use crate::descriptors;
use crate::observe::PortResult;
use crate::session::Session;
use crate::session::port::{MAX_CONNECTIONS, PortError, PortStream};

impl Engine {
    /// Connects to a port inside a session.
    ///
    /// # Errors
    /// [`EngineError`], of which [`EngineError::NoPorts`] if the session's network is not its own.
    pub async fn connect_port(
        &self,
        tenant: &str,
        id: &str,
        port: u16,
    ) -> Result<PortStream, EngineError> {
        self.check_open(tenant)?;
        let port = checked(port)?;
        let session = self.session_with_ports(tenant, id).await?;
        let connected = session.connect(port).await;
        self.observer(tenant).port_connected(match &connected {
            Ok(_) => PortResult::Connected,
            Err(PortError::Closed) => PortResult::Closed,
            Err(PortError::TimedOut) => PortResult::TimedOut,
            Err(PortError::TooMany) => PortResult::TooMany,
            Err(PortError::Over | PortError::Unusable(_) | PortError::Io(_)) => PortResult::Failed,
        });
        connected.map_err(|error| match error {
            PortError::Closed => EngineError::PortClosed(port),
            PortError::TimedOut => EngineError::PortTimedOut(port),
            PortError::TooMany => EngineError::TooManyPortConnections { max: MAX_CONNECTIONS },
            PortError::Over => EngineError::UnknownSession(id.to_owned()),
            PortError::Io(error) if descriptors::are_exhausted(&error) => {
                EngineError::NoDescriptors
            }
            PortError::Unusable(_) | PortError::Io(_) => {
                tracing::warn!(session = id, %port, %error, "connect to a port");
                EngineError::Internal(error.to_string())
            }
        })
    }

    /// When the session of this id was made, if its ports can be connected to: a later session may
    /// have the same id.
    ///
    /// # Errors
    /// As [`Self::connect_port`].
    pub async fn session_made_at(
        &self,
        tenant: &str,
        id: &str,
        port: u16,
    ) -> Result<Timestamp, EngineError> {
        checked(port)?;
        Ok(self.session_with_ports(tenant, id).await?.created_at)
    }

    /// A session that has started, and has a network of its own with a loopback interface.
    async fn session_with_ports(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<Arc<Session>, EngineError> {
        let session = self.find(tenant, id)?;
        self.needs_cpython(&session.identity.environment, "ports are")?;
        let network = match session.identity.network {
            Network::None => Some("\"none\""),
            Network::Loopback | Network::Trusted | Network::Full => None,
        };
        session.started().await.map_err(EngineError::NotStarted)?;
        // Without the layer every network is the host's, and so is "full" without passt.
        let is_own = session
            .status()
            .protection
            .iter()
            .any(|report| report.layer == Layer::Network && report.status == Status::Enforced);
        let shared = match session.identity.network {
            Network::Full => "\"full\", the host's",
            _ => "the host's",
        };
        let network = network.or_else(|| (!is_own).then_some(shared));
        match network {
            Some(network) => Err(EngineError::NoPorts { session: id.to_owned(), network }),
            None => Ok(session),
        }
    }
}

fn checked(port: u16) -> Result<NonZeroU16, EngineError> {
    NonZeroU16::new(port).ok_or_else(|| EngineError::invalid("port", "it is 1 to 65535"))
}
