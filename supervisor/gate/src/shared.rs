//! What all sessions of a gate share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::CallNumber;
use vivarium_egress::{FromGate, Host, Slots};
use vivarium_packages::Index;
use vivarium_protocol::discard;

use crate::dns::Resolver;
use crate::flow::Reporter;
use crate::tenant::Tenant;
use crate::tls::Upstream;

/// How long the host's own addresses are taken for the same.
const OWN_ADDRESSES_FOR: Duration = Duration::from_secs(1);

/// What is made before the supervisor is listened to.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) resolver: Resolver,
    pub(crate) tls: Upstream,
    pub(crate) max_connections: usize,
    pub(crate) index: Index,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reporter: Reporter,
    pub(crate) resolver: Resolver,
    pub(crate) tls: Upstream,
    /// One for each connection of any session.
    pub(crate) slots: Arc<Slots>,
    /// The packages that sessions find at [`vivarium_packages::HOST`].
    pub(crate) index: Index,
    own: Mutex<Option<(Instant, Arc<[IpAddr]>)>>,
    questions: Mutex<HashMap<CallNumber, oneshot::Sender<bool>>>,
    next_question: AtomicU64,
    tenants: Mutex<HashMap<String, Arc<Tenant>>>,
}

impl Shared {
    pub(crate) fn new(parts: Parts, reporter: Reporter) -> Self {
        Self {
            reporter,
            resolver: parts.resolver,
            tls: parts.tls,
            slots: Slots::new(parts.max_connections),
            index: parts.index,
            own: Mutex::new(None),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
            tenants: Mutex::default(),
        }
    }

    /// A tenant by its name, which stays: what it used is not forgotten with its sessions.
    pub(crate) fn tenant(&self, name: String) -> Arc<Tenant> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Tenant::new(&name));
        tenants.entry(name.clone()).or_insert_with(new).clone()
    }

    /// The host's own addresses; `None` if they can not be read.
    pub(crate) fn own_addresses(&self) -> Option<Arc<[IpAddr]>> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, addresses)) = own.as_ref()
            && read.elapsed() < OWN_ADDRESSES_FOR
        {
            return Some(addresses.clone());
        }
        let addresses = getifaddrs().ok()?.filter_map(|interface| interface.address);
        let ips = addresses.filter_map(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        });
        let ips: Arc<[IpAddr]> = ips.collect();
        *own = Some((Instant::now(), ips.clone()));
        Some(ips)
    }

    /// Asks the supervisor about a destination; no answer in time is a no.
    pub(crate) async fn ask(
        &self,
        session: SessionKey,
        host: &Host,
        port: u16,
        wait: Duration,
    ) -> bool {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.questions().insert(id, sender);
        let question = FromGate::Ask { id, session, destination: host.to_string(), port };
        let asked = async {
            self.reporter.send(&question).await;
            answer.await
        };
        let answer = timeout(wait, asked).await;
        self.questions().remove(&id);
        matches!(answer, Ok(Ok(true)))
    }

    pub(crate) fn answer(&self, id: CallNumber, allowed: bool) {
        if let Some(question) = self.questions().remove(&id) {
            discard(question.send(allowed), "the connection that asked may be gone");
        }
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, HashMap<CallNumber, oneshot::Sender<bool>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
