//! The API's listening sockets: handed over by systemd, or made here.
//!
//! They are made before root is given up and before the runtime starts, so they are the standard
//! library's, set to non-blocking.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid};
use vivarium_api_types::ListenAddr;

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// `None` for a socket from systemd that has no address.
    #[must_use]
    pub fn address(&self) -> Option<ListenAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(ListenAddr::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr().ok()?;
                address.as_pathname().map(|path| ListenAddr::Unix(path.to_owned()))
            }
        }
    }
}

impl fmt::Display for Listener {
    /// The actual address: with the port that the system chose, or the path from systemd.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(address) => address.fmt(f),
            None => f.write_str("a socket without an address"),
        }
    }
}

/// The Unix sockets made here, removed when dropped. Drop it while they are still listened on:
/// afterwards one could be another daemon's. A socket that can not be removed, in a directory of
/// root's, is stale, and the next start replaces it.
#[derive(Debug, Default)]
pub struct UnixSockets(Vec<PathBuf>);

impl UnixSockets {
    #[must_use]
    pub fn of(addresses: &[ListenAddr]) -> Self {
        let paths = addresses.iter().filter_map(|address| match address {
            ListenAddr::Unix(path) => Some(path.clone()),
            ListenAddr::Tcp(_) => None,
        });
        Self(paths.collect())
    }

    /// Adds those of other addresses.
    pub fn add(&mut self, addresses: &[ListenAddr]) {
        let mut others = Self::of(addresses);
        self.0.append(&mut others.0);
    }
}

impl Drop for UnixSockets {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = fs::remove_file(path) {
                tracing::debug!(%error, socket = %path.display(), "a socket stays");
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is taken, or not permitted.
    #[error("cannot listen on {address}")]
    Bind { address: String, source: io::Error },
    /// Something that is no socket is in the way.
    #[error("cannot listen on unix:{path}: it is there and is not a socket", path = .0.display())]
    NotASocket(PathBuf),
    /// Another process listens there.
    #[error("cannot listen on unix:{path}: another process listens there", path = .0.display())]
    Taken(PathBuf),
    /// A socket from systemd has an unsupported type. The index counts from 0.
    #[error("the socket unit's socket number {index} is neither a TCP nor a Unix stream socket")]
    Inherited { index: usize },
    /// Other hosts can reach a socket of the unit, and must not.
    #[error(
        "the socket unit listens on {address}, which can be reached from other hosts, and {why}: \
         use a loopback address or a Unix socket in ListenStream="
    )]
    NotLocal { address: SocketAddr, why: &'static str },
}

/// The sockets that systemd hands over (`sd_listen_fds(3)`); empty if there are none. `local_only`
/// is the reason if only this host may reach them.
///
/// # Errors
/// [`ListenError::Inherited`] or [`ListenError::NotLocal`].
pub fn inherited(local_only: Option<&'static str>) -> Result<Vec<Listener>, ListenError> {
    let mut fds = ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..fds.len() {
        if let Ok(Some(unix)) = fds.take_unix_listener(index) {
            listeners.push(Listener::Unix(unix));
        } else if let Ok(Some(tcp)) = fds.take_tcp_listener(index) {
            let address = tcp.local_addr().map_err(|_| ListenError::Inherited { index })?;
            if let Some(why) = local_only.filter(|_| !address.ip().is_loopback()) {
                return Err(ListenError::NotLocal { address, why });
            }
            listeners.push(Listener::Tcp(tcp));
        } else {
            return Err(ListenError::Inherited { index });
        }
    }
    for (index, listener) in listeners.iter().enumerate() {
        nonblocking(listener).map_err(|_| ListenError::Inherited { index })?;
    }
    Ok(listeners)
}

/// Makes a listener for each address. Unix sockets get mode 0660 and, if given, this owner.
///
/// # Errors
/// The first [`ListenError`].
pub fn bind(
    addresses: &[ListenAddr],
    owner: Option<(Uid, Gid)>,
) -> Result<Vec<Listener>, ListenError> {
    addresses.iter().map(|address| bind_one(address, owner)).collect()
}

fn bind_one(address: &ListenAddr, owner: Option<(Uid, Gid)>) -> Result<Listener, ListenError> {
    let failed = |source| ListenError::Bind { address: address.to_string(), source };
    let listener = match address {
        ListenAddr::Tcp(tcp) => Listener::Tcp(TcpListener::bind(tcp).map_err(failed)?),
        ListenAddr::Unix(path) => {
            remove_stale(path)?;
            // By umask(2), since before a later chmod(2) others could connect. No other thread runs
            // yet whose files this could affect.
            let before = umask(Mode::from_bits_truncate(0o117));
            let bound = UnixListener::bind(path);
            umask(before);
            let unix = bound.map_err(failed)?;
            if let Some((uid, gid)) = owner {
                // Never through a link: the owner of the directory may have put one there to be
                // given its target.
                std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw()))
                    .map_err(failed)?;
            }
            Listener::Unix(unix)
        }
    };
    nonblocking(&listener).map_err(failed)?;
    Ok(listener)
}

fn nonblocking(listener: &Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(tcp) => tcp.set_nonblocking(true),
        Listener::Unix(unix) => unix.set_nonblocking(true),
    }
}

/// Removes a socket that nobody listens on any more, such as a killed daemon leaves.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Bind { address: format!("unix:{}", path.display()), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            Err(ListenError::NotASocket(path.to_owned()))
        }
        Ok(_) => match UnixStream::connect(path) {
            // connect(2): the path is a socket, and nobody listens on it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)
            }
            _ => Err(ListenError::Taken(path.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn stale_socket_is_replaced_and_a_live_one_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("api.sock");
        let address = [ListenAddr::Unix(path.clone())];
        let first = bind(&address, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert!(matches!(bind(&address, None), Err(ListenError::Taken(_))));
        drop(first);
        assert!(path.exists(), "a closed listener leaves its socket");
        bind(&address, None).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_kept() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        fs::write(&path, "precious").unwrap();
        let error = bind(&[ListenAddr::Unix(path.clone())], None).unwrap_err();
        assert!(error.to_string().ends_with("is not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    /// Whoever may write to the directory could have us give away another directory's socket.
    #[test]
    fn a_link_to_a_socket_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let [socket, link] = ["api.sock", "link.sock"].map(|name| temp.path().join(name));
        drop(UnixListener::bind(&socket).unwrap());
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        let error = bind(&[ListenAddr::Unix(link.clone())], None).unwrap_err();
        assert!(matches!(error, ListenError::NotASocket(path) if path == link));
        assert!(socket.exists());
    }

    #[test]
    fn an_address_in_use_is_named() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(&[ListenAddr::Tcp(address)], None).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on {address}"));
    }
}
