//! Sessions whose network is `trusted`, and the gate.

use std::sync::Arc;

use vivarium_egress::message::{Call, CallError, CallResponse};
use vivarium_egress::{Allow, Rules};
use vivarium_protocol::error_chain;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::outcome::Cause;
use vivarium_protocol::policy::{Network, Policy};

use super::environment::Prepared;
use super::{Engine, EngineError};
use crate::egress::{SessionEgress, covers};
use crate::session::Session;
use crate::settings::{ApprovalRule, Settings};

impl Engine {
    /// Makes a request for the daemon itself through the egress gate, which checks its address.
    pub async fn call_out(&self, request: Call) -> Result<CallResponse, CallError> {
        self.inner.host.egress.call(request).await
    }

    /// Waits until there is a gate.
    pub(super) async fn gate_ready(&self) -> Result<(), EngineError> {
        let ready = self.inner.host.egress.ready().await;
        ready.map_err(|error| EngineError::EgressUnavailable(error.to_string()))
    }

    /// What a session of this network is to have of the egress, if anything.
    pub(super) fn egress_of(
        &self,
        settings: &Settings,
        tenant: &str,
        (wanted, network): (Network, Network),
        asked: Option<Vec<String>>,
        unlisted: ApprovalRule,
    ) -> Result<Option<Arc<SessionEgress>>, EngineError> {
        let asked = asked.map(|asked| check(settings, tenant, wanted, &asked)).transpose()?;
        if network != Network::Trusted {
            return Ok(None);
        }
        let made = self.inner.host.egress.session(settings, tenant, asked, unlisted);
        made.map(Some).map_err(|error| {
            // Not for the tenant: it may have a path.
            tracing::error!(tenant, "{}", error_chain(&error));
            let reason = "a secret of the tenant can not be read: the daemon's log says why";
            EngineError::EgressUnavailable(reason.to_owned())
        })
    }

    /// Has a session served, from when its agent is there until it is gone.
    pub(super) fn serve_egress(&self, session: &Arc<Session>, egress: Arc<SessionEgress>) {
        session.set_egress(Arc::clone(&egress));
        let (session, host) = (Arc::clone(session), Arc::clone(&self.inner.host.egress));
        let engine = self.clone();
        tokio::spawn(async move {
            match session.egress_listener().await {
                Ok(listener) => {
                    let settings = engine.settings();
                    drop(engine);
                    let id = session.identity.id.as_str();
                    host.serve(Arc::clone(&egress), id, listener, &settings).await;
                }
                Err(_) if session.is_closed() => {}
                Err(error) => {
                    let id = session.identity.id.as_str();
                    tracing::warn!(session = id, %error, "no way out for a session: ending it");
                    session.send(crate::session::Command::Close(Cause::Agent)).await;
                }
            }
            session.gone().await;
            host.end(&egress).await;
        });
    }

    /// Has the rules of running sessions follow the settings.
    pub(super) async fn update_egress(&self) {
        let settings = self.settings();
        self.inner.host.egress.follow(&settings).await;
        for session in self.inner.registry.all() {
            if let Some(egress) = session.egress() {
                self.inner.host.egress.update(egress, &settings).await;
            }
        }
    }
}

/// Puts what is a session's own into its policy.
pub(super) fn equip(
    policy: &mut Policy,
    prepared: &Prepared,
    egress: &SessionEgress,
) -> Result<(), EngineError> {
    policy.ca_certificate = egress.certificate();
    if policy.ca_certificate.is_some() && !prepared.plan.applies(Layer::Mounts) {
        let reason = "secrets need the mounts layer, which is missing";
        return Err(EngineError::EgressUnavailable(reason.to_owned()));
    }
    for (name, placeholder) in egress.variables() {
        if policy.env.iter().all(|(given, _)| *given != name) {
            policy.env.push((name, placeholder));
        }
    }
    egress.equip(&mut policy.env);
    policy.env.sort();
    Ok(())
}

/// The list that a request asks for, if that is within the tenant's.
fn check(
    settings: &Settings,
    tenant: &str,
    network: Network,
    asked: &[String],
) -> Result<Vec<Allow>, EngineError> {
    let refuse = |reason: String| EngineError::invalid("egress_allow", reason);
    if network != Network::Trusted {
        return Err(refuse("it goes with the network \"trusted\"".to_owned()));
    }
    let own = settings.egress_allow_of(tenant);
    let mut allow = Vec::new();
    for text in asked {
        let entry: Allow = text.parse().map_err(|error| refuse(format!("{text:?}: {error}")))?;
        if !covers(own, &entry) {
            return Err(refuse(format!("{text:?} is not within what the operator allows")));
        }
        allow.push(entry);
    }
    // Of the tenant's secrets too, as they decide what the gate sees.
    let rules = Rules { allow, ..settings.rules_to_check(&[], settings.secrets_of(tenant)) };
    match rules.errors().first() {
        Some(error) => Err(refuse(error.to_string())),
        None => Ok(rules.allow),
    }
}
