//! The rules of a session: its tenant's list, tightened by its request.

use std::time::Duration;

use vivarium_egress::allow::{HTTP_PORT, HTTPS_PORT};
use vivarium_egress::rules::Unlisted;
use vivarium_egress::{Allow, Rules};

use super::{SessionEgress, packages, secrets};
use crate::settings::{ApprovalRule, Settings};

/// How long an answer may take that needs nobody to decide, or has its decision.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Whether a list allows all that this entry does.
pub fn covers(list: &[Allow], entry: &Allow) -> bool {
    let ports = entry.port.map_or_else(|| vec![HTTP_PORT, HTTPS_PORT], |port| vec![port]);
    ports.iter().all(|port| {
        list.iter().any(|own| {
            let methods = own.methods.is_empty()
                || (!entry.methods.is_empty() && entry.methods.is_subset(&own.methods));
            methods && own.has_port(*port) && own.hosts.covers(&entry.hosts)
        })
    })
}

/// Where a session may connect to. What its request named and its tenant no longer has is left out.
pub(super) fn allowed(settings: &Settings, tenant: &str, asked: Option<&[Allow]>) -> Vec<Allow> {
    let own = settings.egress_allow_of(tenant);
    match asked {
        None => own.to_vec(),
        Some(asked) => asked.iter().filter(|entry| covers(own, entry)).cloned().collect(),
    }
}

pub(super) fn of(settings: &Settings, session: &SessionEgress) -> Rules {
    let tenant = &session.tenant;
    Rules {
        allow: allowed(settings, tenant, session.asked.as_deref()),
        unlisted: unlisted(settings, tenant, session.unlisted),
        allow_addresses: settings.egress.allow_addresses.clone(),
        limits: settings.egress.limits,
        tenant_rate: settings.tenants.get(&**tenant).and_then(|it| it.quotas.egress_rate),
        secrets: secrets::of_session(settings.secrets_of(tenant), session),
        packages: packages::source(settings, tenant),
    }
}

/// What becomes of a destination that is on no list, for a session that is to have this at least.
pub(super) fn unlisted(settings: &Settings, tenant: &str, at_least: ApprovalRule) -> Unlisted {
    let approval = settings.approval_of(tenant);
    match approval.egress.max(at_least) {
        ApprovalRule::Deny => Unlisted::Refuse,
        // The daemon answers at once.
        ApprovalRule::Allow => Unlisted::Ask { wait: ANSWERED_WITHIN },
        ApprovalRule::Ask => {
            Unlisted::Ask { wait: approval.timeout.saturating_add(ANSWERED_WITHIN) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(entries: &[&str]) -> Vec<Allow> {
        entries.iter().map(|entry| entry.parse().unwrap()).collect()
    }

    #[test]
    fn request_only_tightens() {
        let own = allow(&[
            "a.example",
            "*.b.example:8443",
            "GET,HEAD c.example:80",
            "d.example:80",
            "d.example:443",
        ]);
        for entry in [
            "a.example",
            "a.example:443",
            "GET a.example:80",
            "x.b.example:8443",
            "*.x.b.example:8443",
            "GET c.example:80",
            "d.example",
        ] {
            assert!(covers(&own, &entry.parse().unwrap()), "{entry}");
        }
        for entry in [
            "a.example:22",
            "*.a.example",
            "b.example:8443",
            "x.b.example",
            "c.example:80",
            "POST c.example:80",
            "c.example",
            "e.example",
        ] {
            assert!(!covers(&own, &entry.parse().unwrap()), "{entry}");
        }
    }
}
