//! How a session of network `trusted` reaches the egress gate.
//!
//! The agent listens at [`PORT`] of the session's loopback interface and hands the listening socket
//! out ([`crate::message::ToAgent::Egress`]), in the form of [`crate::port`]. Variables tell programs
//! of it; they are a convenience and no boundary: there is no other way out of the session's network
//! namespace.

use std::net::Ipv4Addr;

/// Where the egress gate listens inside. Taken before tenant code runs.
pub const PORT: u16 = 3128;

/// The address that goes with it.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The file of certificate authorities that the session's programs trust, where the policy has one.
pub const CA_BUNDLE: &str = "/etc/session-ca-bundle.pem";

/// Destinations that programs reach without a proxy.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// Variables by which programs find the gate, in both spellings: curl and Python read one of
/// `http_proxy` only.
///
/// Not `socks5h`, which the gate speaks too: httpx makes no client at all if it lacks the library for
/// it, whatever the other variables say.
#[must_use]
pub fn proxy_variables() -> [(&'static str, String); 8] {
    let proxy = || format!("http://{ADDRESS}:{PORT}");
    [
        ("HTTP_PROXY", proxy()),
        ("HTTPS_PROXY", proxy()),
        ("ALL_PROXY", proxy()),
        ("NO_PROXY", NO_PROXY.to_owned()),
        ("http_proxy", proxy()),
        ("https_proxy", proxy()),
        ("all_proxy", proxy()),
        ("no_proxy", NO_PROXY.to_owned()),
    ]
}

/// Variables by which programs find [`CA_BUNDLE`]: OpenSSL, requests, curl, Node and pip.
pub const CA_VARIABLES: [&str; 5] =
    ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT"];
