//! Messages between supervisor and gate.
//!
//! The gate opens with [`FromGate::Ready`], once it is confined. Then the supervisor opens and closes
//! sessions, and the gate tells what it decides. The gate ends when the socket does.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::address::Network;
use crate::decision::{ConnectionNumber, Decided, Reason, SessionKey};
use crate::rules::Rules;

/// The version of this contract, in [`FromGate::Ready`].
pub const GATE_VERSION: u32 = 2;

/// The largest body of a [`Call`] and of its answer, in bytes.
pub const MAX_CALL_BODY_BYTES: usize = 512 << 10;

/// Calls that a gate makes at one time; others wait.
pub const MAX_CALLS: usize = 32;

/// Number of a call or question, never reused while a gate lives.
pub type CallNumber = u64;

/// Supervisor to gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToGate {
    /// Serve a session. With it comes the socket that listens inside (`SCM_RIGHTS`). The answer is
    /// [`FromGate::Opened`] or [`FromGate::NotOpened`].
    Open {
        /// Its key.
        session: SessionKey,
        /// Whose it is.
        tenant: String,
        /// What it may do.
        rules: Rules,
        /// What signs for the hosts of its secrets. Rules with secrets are refused without.
        authority: Option<Authority>,
    },
    /// Put other rules in place of a session's, for connections from now on. Secrets may change, and
    /// hosts for which TLS ends at the gate. Rules with an error change nothing.
    Update {
        /// Its key.
        session: SessionKey,
        /// What it may do from now on.
        rules: Rules,
    },
    /// End a session's connections and accept no more. The answer is [`FromGate::Closed`], after the
    /// session's last [`FromGate::Done`].
    Close {
        /// Its key.
        session: SessionKey,
    },
    /// Tell how much a session has transferred. The answer is [`FromGate::Counted`].
    Count {
        /// The question's number.
        id: CallNumber,
        /// The session's key.
        session: SessionKey,
    },
    /// Make a request for the daemon itself. The answer is [`FromGate::CallDone`].
    Call {
        /// Its number.
        id: CallNumber,
        /// The request.
        request: Call,
    },
    /// The answer to [`FromGate::Ask`].
    Answer {
        /// The question's number.
        id: CallNumber,
        /// Whether the destination may be reached.
        allowed: bool,
    },
}

/// Gate to supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromGate {
    /// The first message: it is confined, and that was read back.
    Ready {
        /// [`GATE_VERSION`] of the gate.
        version: u32,
        /// What confines it, a line for each layer: for the log and for `vivarium doctor`.
        confinement: Vec<String>,
    },
    /// Something that the gate was to have and has not, for the log.
    Warning {
        /// What, and why.
        what: String,
    },
    /// A session is served.
    Opened {
        /// Its key.
        session: SessionKey,
    },
    /// A session is not served.
    NotOpened {
        /// Its key.
        session: SessionKey,
        /// Why, without any secret.
        why: String,
    },
    /// About a connection. Comes before any byte goes to the destination.
    Decided(Decided),
    /// May a session reach a destination that is not listed? The answer is [`ToGate::Answer`].
    Ask {
        /// The question's number.
        id: CallNumber,
        /// Who asks.
        session: SessionKey,
        /// The name or address.
        destination: String,
        /// The port.
        port: u16,
    },
    /// An allowed connection ended. Comes after its [`FromGate::Decided`].
    Done {
        /// Whose.
        session: SessionKey,
        /// Which of the session's connections, as in [`Decided`].
        connection: ConnectionNumber,
        /// Bytes from the destination to the session.
        bytes_in: u64,
        /// Bytes from the session to the destination.
        bytes_out: u64,
        /// From the decision to the end.
        duration: Duration,
        /// What ended it, if that was the gate.
        cut: Option<Reason>,
    },
    /// The answer to [`ToGate::Count`]. Whatever was decided before has been told before.
    Counted {
        /// The question's number.
        id: CallNumber,
        /// Bytes to the session and to destinations, of all its connections; `None` if it is not served.
        bytes: Option<(u64, u64)>,
    },
    /// A session is no longer served.
    Closed {
        /// Its key.
        session: SessionKey,
        /// Bytes from destinations to the session, of all its connections.
        bytes_in: u64,
        /// Bytes from the session to destinations.
        bytes_out: u64,
    },
    /// A call ended.
    CallDone {
        /// Its number.
        id: CallNumber,
        /// The answer, or why there is none.
        result: Result<CallResponse, CallError>,
    },
}

/// A session's own certificate authority, which signs for the hosts for which the gate ends TLS. Only
/// that session trusts it.
///
/// The supervisor makes it: programs of the session are to trust it from their start, before there is
/// a socket to open the session with, and also when another gate has taken over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// Its certificate, as PEM: ECDSA on P-256, its subject [`AUTHORITY_NAME`] as common name and no
    /// more, its key identifier the first 20 bytes of the SHA-256 of its public key (rcgen's default).
    pub certificate_pem: String,
    /// Its private key: PKCS#8, as PEM.
    pub key_pem: String,
}

/// The subject of every [`Authority`].
pub const AUTHORITY_NAME: &str = "Vivarium session";

impl fmt::Debug for Authority {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A request for the daemon itself: any host, with the checks of addresses that sessions have.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub method: String,
    /// An absolute `http` or `https` URL. Redirects are not followed.
    pub url: String,
    /// Headers; `Host`, `Content-Length` and `Connection` are the gate's.
    pub headers: Vec<(String, String)>,
    /// The body; at most [`MAX_CALL_BODY_BYTES`].
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    /// For all of it.
    pub timeout: Duration,
    /// The most bytes of the answer's body; a longer one is an error. At most [`MAX_CALL_BODY_BYTES`].
    pub max_response_bytes: usize,
    /// Networks that are reached although their class is refused.
    pub allow_addresses: Vec<Network>,
}

impl fmt::Debug for Call {
    /// Without headers and body, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResponse {
    /// The status.
    pub status: u16,
    /// Headers, names in lower case; a value that is not UTF-8 is left out.
    pub headers: Vec<(String, String)>,
    /// The body, whole.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

/// Why a call has no answer. No text is of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CallError {
    /// The request is none that the gate makes.
    #[error("the request is not one that can be made: {0}")]
    Request(String),
    /// The destination was refused, or could not be reached.
    #[error("not connected: {}", <&'static str>::from(.0))]
    Refused(Reason),
    /// It took too long.
    #[error("no answer in time")]
    Timeout,
    /// The answer is longer than was asked for.
    #[error("an answer of over {0} bytes")]
    TooLarge(usize),
    /// The answer is not HTTP, or the connection broke.
    #[error("no answer: {0}")]
    Broken(String),
}
