//! The egress gate: the one process through which sessions of network `trusted` reach anything.
//!
//! It accepts on a socket that listens inside each session, reads what is wanted (HTTP's CONNECT, a
//! request with an absolute URL, SOCKS5), decides by the session's rules, resolves the name itself,
//! checks the address, connects to that address, and copies bytes. See docs/egress-gate.md.
//!
//! It speaks to tenant code and to strangers at once, so it confines itself before it reads anything
//! ([`confine`]), and has one thread: there is no other that the confinement could miss. It must never
//! log, echo or report the value of a secret.
#![forbid(unsafe_code)]

mod buffered;
mod call;
mod confine;
mod connection;
mod context;
mod control;
mod dial;
mod dns;
mod flow;
mod http;
mod packages;
mod relay;
mod session;
mod shared;
mod socks;
mod tenant;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType, sockopt};
use vivarium_egress::message::GATE_VERSION;
use vivarium_packages::Index;

/// Where certificates of authorities are, on one distribution or another.
const CA_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What a gate needs to know before it is confined.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names the resolvers: resolv.conf(5).
    pub resolv_conf: PathBuf,
    /// Names that are asked of nobody: hosts(5).
    pub hosts: PathBuf,
    /// Resolvers in place of those of `resolv_conf`.
    pub nameservers: Vec<SocketAddr>,
    /// Authorities that destinations' certificates are checked by; the system's if there is none.
    pub ca_bundle: Option<PathBuf>,
    /// The most connections of all sessions at one time; less if descriptors do not suffice.
    pub max_connections: usize,
    /// Do not run where Landlock is missing.
    pub strict: bool,
    /// Where files of packages are kept, if they are; made if it is not there.
    pub cache_dir: Option<PathBuf>,
    /// What is kept of them, of all tenants, in MiB.
    pub max_cache_mb: u64,
    /// Directories of wheels that may be served.
    pub find_links: Vec<PathBuf>,
}

impl Options {
    fn ca_bundle(&self) -> PathBuf {
        let known = || CA_BUNDLES.map(PathBuf::from).into_iter().find(|path| path.exists());
        self.ca_bundle.clone().or_else(known).unwrap_or_else(|| CA_BUNDLES[0].into())
    }
}

/// Why a gate can not run, or ended.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Nobody to serve.
    #[error("standard input is not a Unix stream socket of a supervisor")]
    NoSupervisor,
    /// A layer of its confinement is missing.
    #[error("cannot confine the gate")]
    Confine(#[from] confine::ConfineError),
    /// Descriptors, or the runtime.
    #[error("cannot start the gate")]
    Start(#[source] io::Error),
    /// The supervisor's socket failed, or what came is none of its messages.
    #[error("the supervisor's socket")]
    Control(#[from] control::ControlError),
    /// TLS could not be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] tls::TlsError),
}

/// Serves the supervisor at standard input until that closes. Must be called with no other thread
/// running, as the confinement is of the calling thread.
///
/// # Errors
/// Any [`GateError`].
pub fn run(options: &Options) -> Result<(), GateError> {
    let supervisor = supervisor()?;
    // Before the confinement, which the parts of a runtime that the gate does not use would not pass.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(GateError::Start)?;
    let ca_bundle = options.ca_bundle();
    let mut warnings = Vec::new();
    let cache = packages::open_cache(options).unwrap_or_else(|why| {
        warnings.push(why);
        None
    });
    let files = confine::Files {
        read: &[&options.resolv_conf, &options.hosts, &ca_bundle],
        list: &options.find_links,
        write: options.cache_dir.as_deref().filter(|_| cache.is_some()),
    };
    let (mut confinement, descriptors) = confine::apply(&files, options.strict)?;
    warnings.extend(packages::unreadable(&options.find_links));
    let resolver = dns::Resolver::read(&options.resolv_conf, &options.hosts, &options.nameservers);
    let (tls, authorities) = tls::Upstream::read(&ca_bundle)?;
    confinement.push(format!("certificates: {authorities} in {}", ca_bundle.display()));
    // Two for each connection, some for sessions' own sockets and queries.
    let most = (descriptors / 4).max(1);
    let max_connections = options.max_connections.min(most);
    let index = Index::new(cache);
    let shared = shared::Parts { resolver, tls, max_connections, index };
    let opening = control::Opening { version: GATE_VERSION, confinement, warnings };
    runtime.block_on(control::serve(supervisor, shared, opening))?;
    Ok(())
}

/// Standard input, or the one connection that comes on a socket of systemd's.
fn supervisor() -> Result<UnixStream, GateError> {
    let mut listeners = listenfd::ListenFd::from_env();
    if let Ok(Some(listener)) = listeners.take_unix_listener(0) {
        return listener.accept().map(|(stream, _)| stream).map_err(GateError::Start);
    }
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(GateError::Start)?;
    let is_socket = sockopt::socket_domain(&stdin) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&stdin) == Ok(SocketType::STREAM);
    if is_socket { Ok(UnixStream::from(stdin)) } else { Err(GateError::NoSupervisor) }
}
