//! Conditions over more than one key.

use std::collections::BTreeMap;

use vivarium_api_types::ListenAddr;
use vivarium_engine::settings::{Environment, Mode, Runtime, Settings, Tenant, TenantToken};
use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::layer::Layer;

/// The largest body that fits a message to the agent, whatever its content.
pub(crate) const MAX_BODY_BYTES: u64 = 40 << 20;
const _: () = assert!(MAX_BODY_BYTES < MAX_FRAME_BYTES as u64);

/// The least budget of one tenant, in MiB: the largest body twice, as received and as parsed, or the
/// largest result and its response.
const MIN_TENANT_BUFFERED_MB: u64 = 160;

/// What one tenant's budget leaves to others, in MiB.
const MIN_OTHERS_BUFFERED_MB: u64 = 32;

/// Contradictions between settings, each with the path of the key to change.
pub(crate) fn check(settings: &Settings) -> Vec<(String, String)> {
    let mut errors = between_sections(settings);
    let too_low = vivarium_engine::too_low(&settings.sandbox.limits);
    errors.extend(too_low.map(|(name, reason)| (format!("sandbox.{name}"), reason)));
    for (name, tenant) in &settings.tenants {
        errors.extend(of_tenant(settings, name, tenant));
    }
    let mut owners = BTreeMap::new();
    for (name, tenant) in &settings.tenants {
        for TenantToken { hash, .. } in &tenant.tokens {
            if let Some(owner) = owners.insert(*hash, name) {
                let path = format!("tenant.{name}.token_sha256");
                let why = match owner == name {
                    true => format!("{hash} is there twice"),
                    false => format!("{hash} is a token of tenant {owner:?} too"),
                };
                errors.push((path, why));
            }
        }
    }
    errors.extend(
        vivarium_engine::contradictions(settings)
            .map(|(environment, field, why)| (format!("environments.{environment}.{field}"), why)),
    );
    errors.extend(settings.egress_errors());
    errors.extend(settings.packages_errors());
    let webhook = &settings.approval.webhook;
    if webhook.url.is_some() && webhook.secret.is_none() {
        let why = "needs webhook_secret_file or webhook_secret_credential";
        errors.push(("approval.webhook_url".to_owned(), why.to_owned()));
    }
    let granted = [("session.tool_servers".to_owned(), &settings.session.tool_servers)];
    let of_tenants = settings.tenants.iter().filter_map(|(name, tenant)| {
        let own = &tenant.overrides.as_ref()?.session.tool_servers;
        Some((format!("tenant.{name}.session.tool_servers"), own))
    });
    for (path, names) in granted.into_iter().chain(of_tenants) {
        if let Some(name) = names.iter().find(|name| !settings.tool_servers.contains_key(*name)) {
            errors.push((path, format!("there is no tool server {name:?}: [tools.{name}]")));
        }
    }
    for (name, environment) in &settings.environments {
        let size = environment.pool_size;
        if let Some(low) = environment.pool_low.filter(|low| *low > size) {
            let path = format!("environments.{name}.pool_low");
            errors.push((path, format!("{low} is more than the pool_size of {size}")));
        }
        let of_interpreters = unfit_for(environment).into_iter();
        errors.extend(of_interpreters.map(|key| {
            let why = "not available in runtime wasm: take it out, or use runtime \"cpython\"";
            (format!("environments.{name}.{key}"), why.to_owned())
        }));
    }
    errors
}

/// The keys of an environment that its runtime has no use for.
fn unfit_for(environment: &Environment) -> Vec<&'static str> {
    let has = |is_there, key| Some(key).filter(|_| is_there);
    match environment.runtime {
        Runtime::Cpython => Vec::new(),
        Runtime::Wasm => [
            has(environment.images, "images"),
            has(!environment.preimport.is_empty(), "preimport"),
            has(!environment.warmup.is_empty(), "warmup"),
            has(!environment.read_paths.is_empty(), "read_paths"),
            has(!environment.hidden.is_empty(), "hidden"),
        ]
        .into_iter()
        .flatten()
        .collect(),
    }
}

/// What does not fit together of a tenant's own values and those of all.
fn of_tenant(settings: &Settings, name: &str, tenant: &Tenant) -> Vec<(String, String)> {
    let mut errors = Vec::new();
    for environment in tenant.allowed_environments.iter().flatten() {
        if !settings.environments.contains_key(environment) {
            let path = format!("tenant.{name}.allowed_environments");
            errors.push((path, format!("there is no environment {environment:?}")));
        }
    }
    let (results_mb, most) = (tenant.quotas.max_results_mb, settings.server.max_tenant_buffered_mb);
    if results_mb > most {
        let path = format!("tenant.{name}.max_results_mb");
        errors.push((path, format!("at most server.max_tenant_buffered_mb, {most}")));
    }
    let Some(own) = settings.of_tenant(name) else { return errors };
    let path = |key: &str| format!("tenant.{name}.{key}");
    if let Some((limit, reason)) = vivarium_engine::too_low(&own.sandbox.limits)
        && vivarium_engine::too_low(&settings.sandbox.limits).is_none()
    {
        errors.push((path(&format!("sandbox.{limit}")), reason));
    }
    let of_all: Vec<_> = vivarium_engine::contradictions(settings).collect();
    let new = vivarium_engine::contradictions(&own).filter(|error| !of_all.contains(error));
    errors.extend(new.map(|(_, field, why)| (path(&format!("sandbox.{field}")), why)));
    let both = [inconsistent(&own), inconsistent(settings)];
    let [own, of_all] = both;
    let new = own.into_iter().filter(|error| !of_all.contains(error));
    errors.extend(new.map(|(key, why)| (path(key), why.to_owned())));
    errors
}

/// What of `[sandbox]` and `[session]` a tenant's own values may bring into contradiction.
fn inconsistent(settings: &Settings) -> Vec<(&'static str, &'static str)> {
    let (sandbox, session) = (&settings.sandbox, &settings.session);
    let mut errors = Vec::new();
    if !sandbox.allowed_networks.contains(&sandbox.network) {
        let why = "is not one of sandbox.allowed_networks: add it there, or choose one of those";
        errors.push(("sandbox.network", why));
    }
    if session.exec_timeout > session.max_exec_timeout {
        let why = "is longer than session.max_exec_timeout: raise that, or lower this";
        errors.push(("session.exec_timeout", why));
    }
    errors
}

fn between_sections(settings: &Settings) -> Vec<(String, String)> {
    let mut errors = Vec::new();
    let mut refuse = |path: &str, why: String| errors.push((path.to_owned(), why));
    let server = &settings.server;
    let sandbox = &settings.sandbox;
    if let Some(why) = settings.why_local_only() {
        for address in server.listen.iter().filter(|address| !address.is_local()) {
            let message = format!(
                "{address} can be reached from other hosts, and {why}: use 127.0.0.1, [::1] or \
                 unix:/PATH"
            );
            refuse("server.listen", message);
        }
        let e2b = settings.e2b.listen.iter().filter(|_| settings.dialects.e2b);
        for address in e2b.filter(|address| !address.is_local()) {
            let message = format!("{address} can be reached from other hosts, and {why}");
            refuse("e2b.listen", message);
        }
    }
    let e2b = settings.e2b.listen.iter().filter(|_| settings.dialects.e2b);
    let is_any = |address: &&ListenAddr| matches!(address, ListenAddr::Tcp(it) if it.port() == 0);
    for address in e2b.filter(|it| !is_any(it) && server.listen.contains(it)) {
        refuse("e2b.listen", format!("{address} is in server.listen too"));
    }
    if server.max_body_bytes > MAX_BODY_BYTES {
        refuse("server.max_body_bytes", format!("at most {MAX_BODY_BYTES}"));
    }
    let (all_mb, tenant_mb) = (server.max_buffered_mb, server.max_tenant_buffered_mb);
    if tenant_mb < MIN_TENANT_BUFFERED_MB {
        refuse(
            "server.max_tenant_buffered_mb",
            format!("at least {MIN_TENANT_BUFFERED_MB}: a largest body and result have to fit"),
        );
    }
    if all_mb < tenant_mb.saturating_add(MIN_OTHERS_BUFFERED_MB) {
        refuse(
            "server.max_buffered_mb",
            format!(
                "at least {MIN_OTHERS_BUFFERED_MB} more than server.max_tenant_buffered_mb: one \
                 tenant is not to hold everything"
            ),
        );
    }
    if sandbox.mode == Mode::On && !sandbox.disable_layers.is_empty() {
        let names: Vec<_> = sandbox.disable_layers.iter().map(|layer| layer.name()).collect();
        refuse(
            "sandbox.disable_layers",
            format!(
                "{} switched off, but sandbox.mode \"on\" means every layer: use mode \"auto\"",
                names.join(", ")
            ),
        );
    }
    for layer in sandbox.required() {
        if let Some(key) = sandbox.disabled_by(*layer) {
            let message = format!(
                "has {layer}, which {key} switches off: take it out here (--sandbox-require), or \
                 leave it on there"
            );
            refuse("sandbox.require", message);
        }
    }
    if sandbox.disable_layers.len() >= Layer::ALL.len() {
        refuse(
            "sandbox.disable_layers",
            "every layer: that is sandbox.mode \"off\"; say so there".to_owned(),
        );
    }
    for (path, why) in inconsistent(settings) {
        refuse(path, why.to_owned());
    }
    if server.state_dir == server.runtime_dir {
        refuse(
            "server.runtime_dir",
            "is server.state_dir: what is kept and what is cleared need two directories".to_owned(),
        );
    }
    errors
}
