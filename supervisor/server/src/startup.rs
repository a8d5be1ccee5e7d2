//! What the daemon makes before it gives up the rights of the user who started it.

use vivarium_engine::settings::Settings;
use vivarium_privilege::{Account, PrivilegeError, ensure_dir};

use crate::listen::{self, ListenError, Listener, UnixSockets};

#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

#[derive(Debug)]
pub struct Prepared {
    /// Listeners of the API.
    pub listeners: Vec<Listener>,
    /// Listeners of E2B; none if it is off.
    pub e2b: Vec<Listener>,
    /// Unix sockets that were made and are removed at the end.
    pub sockets: UnixSockets,
    /// The user that root was given up for.
    pub account: Option<Account>,
}

/// Makes directories and listeners, completes the settings, and gives up root.
///
/// # Errors
/// Any [`StartupError`]; the caller must not continue.
pub fn prepare(settings: &mut Settings) -> Result<Prepared, StartupError> {
    let (made, account) = vivarium_privilege::prepare_with(settings, make)?;
    let (listeners, e2b, sockets) = made;
    Ok(Prepared { listeners, e2b, sockets, account })
}

type Made = (Vec<Listener>, Vec<Listener>, UnixSockets);

fn make(settings: &mut Settings, account: Option<&Account>) -> Result<Made, StartupError> {
    let local_only = settings.why_local_only();
    let server = &mut settings.server;
    ensure_dir("server.state_dir", &server.state_dir, 0o700, account)?;
    if let Some(dir) = &settings.audit.dir {
        ensure_dir("audit.dir", dir, 0o700, account)?;
    }
    let owner = account.map(|own| (own.uid, own.gid));
    let (mut listeners, mut sockets) = (listen::inherited(local_only)?, UnixSockets::default());
    if listeners.is_empty() {
        listeners = listen::bind(&server.listen, owner)?;
        sockets = UnixSockets::of(&server.listen);
    } else {
        // A reload that would let other hosts in without a token is then refused.
        server.listen = listeners.iter().filter_map(Listener::address).collect();
    }
    let mut e2b = Vec::new();
    if settings.dialects.e2b {
        e2b = listen::bind(&settings.e2b.listen, owner)?;
        sockets.add(&settings.e2b.listen);
    }
    Ok((listeners, e2b, sockets))
}
