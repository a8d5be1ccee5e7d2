//! The socket on which the egress gate accepts connections of a session whose network is `trusted`.
//!
//! The agent binds it inside the session's network namespace before a kernel is confined, keeps it as long
//! as the session lives and hands it out. It accepts nothing itself: what is connected while no gate is
//! there waits in the backlog.

use std::net::TcpListener;

use vivarium_protocol::egress::{ADDRESS, PORT};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::Failure;
use vivarium_protocol::policy::Network;

use crate::failure::OrFailure;
use crate::sandbox::Context;

pub(super) fn listen(context: &Context) -> Result<Option<TcpListener>, Failure> {
    if context.policy.network != Network::Trusted || !context.applies(Layer::Network) {
        return Ok(None);
    }
    let listener = TcpListener::bind((ADDRESS, PORT)).or_failure("listen for the egress gate")?;
    listener.set_nonblocking(true).or_failure("listen for the egress gate")?;
    Ok(Some(listener))
}
