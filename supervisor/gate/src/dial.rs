//! From a destination to a connection: may it be reached, what are its addresses, may these be.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use vivarium_egress::decision::SessionKey;
use vivarium_egress::rules::{Verdict, refused_address};
use vivarium_egress::{Host, Network, Reason, Rules};
use vivarium_protocol::discard;

use crate::shared::Shared;

/// The most time for one of several addresses.
const ATTEMPT: Duration = Duration::from_secs(3);

/// That a destination may be reached.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) reason: Reason,
    /// The only methods, if not all.
    pub(crate) methods: Option<BTreeSet<String>>,
}

impl Admission {
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.contains(method))
    }
}

/// What the rules say, or whoever they ask.
pub(crate) async fn admit(
    shared: &Shared,
    session: SessionKey,
    rules: &Rules,
    host: &Host,
    port: u16,
) -> Result<Admission, Reason> {
    match rules.verdict(host, port) {
        Verdict::Allowed(entries) => {
            let is_any = entries.iter().any(|entry| entry.methods.is_empty());
            let methods = entries.iter().flat_map(|entry| entry.methods.clone()).collect();
            Ok(Admission { reason: Reason::Listed, methods: (!is_any).then_some(methods) })
        }
        Verdict::Refused(reason) => Err(reason),
        Verdict::Ask(wait) => {
            if shared.ask(session, host, port, wait).await {
                Ok(Admission { reason: Reason::Approved, methods: None })
            } else {
                Err(Reason::NotApproved)
            }
        }
    }
}

/// Why there is no connection, and which address is to blame, if one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) address: Option<IpAddr>,
}

/// Connects to the first address that may be reached and answers.
pub(crate) async fn connect(
    shared: &Shared,
    allowed: &[Network],
    host: &Host,
    port: u16,
    within: Duration,
) -> Result<(TcpStream, IpAddr), Refusal> {
    let refusal = |reason, address| Refusal { reason, address };
    let connecting = async {
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => shared
                .resolver
                .lookup(name)
                .await
                .ok()
                .filter(|found| !found.is_empty())
                .ok_or(refusal(Reason::Unresolved, None))?,
        };
        let own = shared.own_addresses().ok_or(refusal(Reason::Unreachable, None))?;
        let mut last = refusal(Reason::Unreachable, None);
        let mut is_only_refused = true;
        for address in found {
            if let Some(class) = refused_address(allowed, address, &own) {
                if is_only_refused && last.address.is_none() {
                    last = refusal(Reason::Address(class), Some(address));
                }
                continue;
            }
            is_only_refused = false;
            match timeout(ATTEMPT.min(within), TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => {
                    discard(stream.set_nodelay(true), "it is slower without");
                    return Ok((stream, address));
                }
                _ => last = refusal(Reason::Unreachable, Some(address)),
            }
        }
        Err(last)
    };
    timeout(within, connecting).await.unwrap_or(Err(refusal(Reason::Unreachable, None)))
}
