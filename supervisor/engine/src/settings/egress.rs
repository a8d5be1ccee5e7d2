//! `[egress]`, and what tenants have of it

use std::collections::BTreeSet;
use std::path::PathBuf;

use vivarium_egress::allow::HostPattern;
use vivarium_egress::{Allow, Limits, Network, Rules, Secret};

use super::{Settings, Tenant};

/// `[egress]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Egress {
    pub gate: GateSource,
    /// Where sessions of tenants without a list of their own may connect to.
    pub allow: Vec<Allow>,
    /// Networks that are reached although their class is refused.
    pub allow_addresses: Vec<Network>,
    /// Of one session.
    pub limits: Limits,
    /// What connects sessions of network `full`.
    pub passt: PasstSource,
}

/// Where pasta is, passt's user-mode network stack for network namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PasstSource {
    /// On PATH, if it is there and works.
    #[default]
    Auto,
    /// On PATH, and it must work.
    On,
    /// Here, and it must work.
    Path(PathBuf),
    /// Network `full` is the host's own.
    Off,
}

impl PasstSource {
    /// Whether the daemon is not to start without it.
    pub const fn is_required(&self) -> bool {
        matches!(self, Self::On | Self::Path(_))
    }
}

/// Where the egress gate is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GateSource {
    /// A process that the engine starts.
    #[default]
    Process,
    /// Behind a Unix socket: a unit of its own.
    Socket(PathBuf),
}

/// A secret of a tenant, without its value, which is read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantSecret {
    /// The variable that has the placeholder inside.
    pub name: String,
    /// To whom it goes.
    pub hosts: Vec<HostPattern>,
    /// The header in which it is put.
    pub header: String,
    pub source: SecretSource,
}

/// Where the value of a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    File(PathBuf),
    /// A credential of the daemon's unit: systemd.exec(5), `LoadCredential=`.
    Credential(String),
}

impl SecretSource {
    /// The file that has the value; `None` if the daemon was given no credentials.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path.clone()),
            Self::Credential(name) => {
                let directory = std::env::var_os("CREDENTIALS_DIRECTORY")?;
                Some(PathBuf::from(directory).join(name))
            }
        }
    }
}

impl Settings {
    /// Where sessions of this tenant may connect to, unless their requests say less.
    pub fn egress_allow_of(&self, tenant: &str) -> &[Allow] {
        let own = self.tenants.get(tenant).and_then(|tenant| tenant.egress_allow.as_deref());
        own.unwrap_or(&self.egress.allow)
    }

    pub fn secrets_of(&self, tenant: &str) -> &[TenantSecret] {
        self.tenants.get(tenant).map_or(&[], |tenant| &tenant.secrets)
    }

    /// Rules of this list and these secrets, without their values.
    pub fn rules_to_check(&self, allow: &[Allow], secrets: &[TenantSecret]) -> Rules {
        Rules {
            allow: allow.to_vec(),
            limits: self.egress.limits,
            secrets: secrets.iter().enumerate().map(stand_in).collect(),
            ..Rules::default()
        }
    }

    /// What is wrong with the rules of `[egress]` and of tenants, each with the path of its key.
    pub fn egress_errors(&self) -> Vec<(String, String)> {
        let mut errors = Vec::new();
        let check = |path: String, allow: &[Allow], secrets: &[TenantSecret]| -> Vec<_> {
            let rules = self.rules_to_check(allow, secrets);
            rules.errors().iter().map(|error| (path.clone(), error.to_string())).collect()
        };
        let lists = |tenant: &Tenant| tenant.egress_allow.is_some();
        if !self.tenants.values().any(|tenant| !lists(tenant)) {
            errors.extend(check("egress.allow".to_owned(), &self.egress.allow, &[]));
        }
        for (name, tenant) in &self.tenants {
            let (path, allow) = match &tenant.egress_allow {
                Some(own) => (format!("tenant.{name}.egress_allow"), own.as_slice()),
                None => ("egress.allow".to_owned(), self.egress.allow.as_slice()),
            };
            errors.extend(check(path, allow, &tenant.secrets));
            let mut names = BTreeSet::new();
            for secret in &tenant.secrets {
                if !names.insert(&secret.name) {
                    let path = format!("tenant.{name}.secret");
                    errors.push((path, format!("there are two of the name {:?}", secret.name)));
                }
            }
        }
        errors.dedup();
        errors
    }
}

/// A secret with a placeholder and a value that can be no other's.
fn stand_in((number, secret): (usize, &TenantSecret)) -> Secret {
    Secret {
        placeholder: format!("placeholder-{number:04}"),
        value: "value".to_owned(),
        hosts: secret.hosts.clone(),
        header: secret.header.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{settings, tenant};

    fn allow(entries: &[&str]) -> Vec<Allow> {
        entries.iter().map(|entry| entry.parse().unwrap()).collect()
    }

    #[test]
    fn list_of_a_tenant_takes_the_place_of_the_operators() {
        let mut settings = settings();
        settings.egress.allow = allow(&["a.example"]);
        assert_eq!(settings.egress_allow_of("default"), allow(&["a.example"]));
        settings.tenants.insert("own".into(), tenant("1"));
        assert_eq!(settings.egress_allow_of("own"), allow(&["a.example"]));
        settings.tenants.get_mut("own").unwrap().egress_allow = Some(allow(&["b.example"]));
        assert_eq!(settings.egress_allow_of("own"), allow(&["b.example"]));
        settings.tenants.get_mut("own").unwrap().egress_allow = Some(vec![]);
        assert_eq!(settings.egress_allow_of("own"), []);
    }

    #[test]
    fn methods_that_the_gate_can_not_see_are_refused() {
        let mut settings = settings();
        settings.egress.allow = allow(&["GET a.example:80"]);
        assert_eq!(settings.egress_errors(), []);
        settings.egress.allow = allow(&["GET a.example"]);
        let errors = settings.egress_errors();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].0 == "egress.allow" && errors[0].1.contains("within TLS"), "{errors:?}");

        // A tenant that has a secret for the host has TLS ended there.
        let mut one = tenant("1");
        one.secrets = vec![TenantSecret {
            name: "KEY".into(),
            hosts: vec!["a.example".parse().unwrap()],
            header: "authorization".into(),
            source: SecretSource::Credential("key".into()),
        }];
        settings.tenants.insert("one".into(), one.clone());
        assert_eq!(settings.egress_errors(), []);
        one.secrets.push(one.secrets[0].clone());
        settings.tenants.insert("one".into(), one);
        let errors = settings.egress_errors();
        assert!(errors.iter().any(|(path, _)| path == "tenant.one.secret"), "{errors:?}");
        settings.tenants.insert("two".into(), tenant("2"));
        assert!(settings.egress_errors().iter().any(|(path, _)| path == "egress.allow"));
    }
}
