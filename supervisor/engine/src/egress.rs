//! The way out of sessions whose network is `trusted`: the engine's side of the egress gate.
//!
//! The gate is another process, which connects to the outside for sessions; this hands it their
//! listening sockets and rules, and counts what it reports. No byte of a session's traffic comes
//! through here. One task ([`keeper`]) has the gate: it starts one when a session needs it, and
//! another when that ends. Sessions of other networks never wait for any of this.

mod accounting;
mod asking;
mod authority;
mod counts;
mod gate;
mod keeper;
mod launch;
mod packages;
mod regular;
mod rules;
mod secrets;
mod webhook;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{mpsc, oneshot};
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::{Authority, Call, CallError, CallResponse};
use vivarium_egress::{Allow, Rules};

use crate::approvals::Approvals;
use crate::settings::{ApprovalRule, Settings};

pub use accounting::Accounting;
pub use authority::AuthorityError;
pub use counts::{Counting, Counts};
pub use gate::GateError;
pub use launch::GateLaunch;
pub use rules::covers;
pub(crate) use secrets::read as read_secret;
pub use secrets::{SecretError, check_tool_server_secrets};
pub use webhook::{WebhookSecretError, check_webhook_secret, tell_webhook};

/// Commands that may wait for the keeper.
const COMMANDS: usize = 64;

/// What of the egress a session has for its life.
#[derive(Debug)]
pub struct SessionEgress {
    key: SessionKey,
    tenant: Arc<str>,
    /// Its id, once it is served.
    id: OnceLock<String>,
    /// The list of the request, tighter than the tenant's.
    asked: Option<Vec<Allow>>,
    /// What holds at least for destinations that are on no list.
    unlisted: ApprovalRule,
    /// What the session knows of its tenant's secrets: placeholders by name.
    placeholders: BTreeMap<String, String>,
    authority: Option<Authority>,
    /// By which pip and uv find the package index.
    package_variables: Vec<(&'static str, String)>,
    /// Where it may connect to now.
    allow: Mutex<Vec<Allow>>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    counter: counts::Counter,
    /// To the keeper, which has this: not to keep it alive.
    commands: mpsc::WeakSender<Command>,
}

impl SessionEgress {
    /// The variables that have the placeholders.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.placeholders.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Adds the variables by which pip and uv find the package index to those of the session.
    pub fn equip(&self, env: &mut Vec<(String, String)>) {
        packages::equip(env, &self.package_variables);
    }

    /// What the session's programs are to trust.
    pub fn certificate(&self) -> Option<String> {
        self.authority.as_ref().map(|authority| authority.certificate_pem.clone())
    }

    /// Where it may connect to, as entries of an allow-list.
    pub fn allowed(&self) -> Vec<String> {
        let allow = self.allow.lock().unwrap_or_else(PoisonError::into_inner);
        allow.iter().map(ToString::to_string).collect()
    }

    /// What holds at least for destinations that are on no list, whatever the tenant's rule.
    pub const fn unlisted(&self) -> ApprovalRule {
        self.unlisted
    }

    /// Bytes to the session and to destinations, of connections that have ended.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_in.load(Ordering::Relaxed), self.bytes_out.load(Ordering::Relaxed))
    }
}

/// The engine's hold on the gate.
#[derive(Debug)]
pub struct Egress {
    commands: mpsc::Sender<Command>,
    last_key: AtomicU64,
}

/// What the keeper can be told.
#[derive(Debug)]
enum Command {
    /// Answer when there is a gate, or why there is none.
    Ready(oneshot::Sender<Result<(), GateError>>),
    Serve {
        session: Arc<SessionEgress>,
        listener: OwnedFd,
        rules: Rules,
    },
    /// Use these rules for a session, if it is served.
    Update {
        key: SessionKey,
        rules: Rules,
    },
    End {
        key: SessionKey,
    },
    /// Have the gate started like this, from now on.
    Follow(GateLaunch),
    Count {
        session: Arc<SessionEgress>,
        reply: oneshot::Sender<Counts>,
    },
    Call {
        request: Call,
        reply: oneshot::Sender<Result<CallResponse, CallError>>,
    },
}

impl Egress {
    /// Starts the keeper, and no gate.
    pub fn new(launch: GateLaunch, accounting: Accounting, approvals: Arc<Approvals>) -> Self {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        tokio::spawn(keeper::run(launch, accounting, approvals, receiver));
        Self { commands, last_key: AtomicU64::new(0) }
    }

    /// Waits until there is a gate.
    pub async fn ready(&self) -> Result<(), GateError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Ready(reply)).await;
        answer.await.unwrap_or(Err(GateError::Stopped))
    }

    /// What a session of this tenant is to have, for a request that may say less than its tenant.
    pub fn session(
        &self,
        settings: &Settings,
        tenant: &str,
        asked: Option<Vec<Allow>>,
        unlisted: ApprovalRule,
    ) -> Result<Arc<SessionEgress>, SecretError> {
        // A request that names its own list says that there is to be nothing else.
        let unlisted = if asked.is_some() { ApprovalRule::Deny } else { unlisted };
        let secrets = settings.secrets_of(tenant);
        // Read now, so that who asks for the session hears what is wrong.
        for secret in secrets {
            secrets::value(secret)?;
        }
        let authority = (!secrets.is_empty()).then(authority::make).transpose()?;
        let allow = rules::allowed(settings, tenant, asked.as_deref());
        Ok(Arc::new(SessionEgress {
            key: self.last_key.fetch_add(1, Ordering::Relaxed) + 1,
            tenant: tenant.into(),
            id: OnceLock::new(),
            asked,
            unlisted,
            placeholders: secrets.iter().map(secrets::placeholder).collect(),
            authority,
            package_variables: packages::variables(
                settings,
                tenant,
                &allow,
                rules::unlisted(settings, tenant, unlisted),
            ),
            allow: Mutex::new(allow),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            counter: counts::Counter::default(),
            commands: self.commands.downgrade(),
        }))
    }

    /// Has a session served from its listening socket, until [`Self::end`].
    pub async fn serve(
        &self,
        session: Arc<SessionEgress>,
        id: &str,
        listener: OwnedFd,
        settings: &Settings,
    ) {
        session.id.get_or_init(|| id.to_owned());
        let rules = rules::of(settings, &session);
        self.send(Command::Serve { session, listener, rules }).await;
    }

    /// Has the session's rules follow the settings, for connections from now on.
    pub async fn update(&self, session: &SessionEgress, settings: &Settings) {
        let rules = rules::of(settings, session);
        session.allow.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&rules.allow);
        self.send(Command::Update { key: session.key, rules }).await;
    }

    /// Has the gate follow the settings, which may mean another gate.
    pub async fn follow(&self, settings: &Settings) {
        self.send(Command::Follow(GateLaunch::of(settings))).await;
    }

    pub async fn end(&self, session: &SessionEgress) {
        self.send(Command::End { key: session.key }).await;
    }

    /// Makes a request for the daemon itself, from where the gate is.
    pub async fn call(&self, request: Call) -> Result<CallResponse, CallError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Call { request, reply }).await;
        answer.await.unwrap_or_else(|_| Err(CallError::Broken("there is no gate".to_owned())))
    }

    async fn send(&self, command: Command) {
        if self.commands.send(command).await.is_err() {
            tracing::error!("a defect: nobody has the egress gate");
        }
    }
}

#[cfg(test)]
mod tests;
