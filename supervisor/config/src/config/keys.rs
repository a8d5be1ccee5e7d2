//! Every key of the configuration, declared once. The parser, the environment variables, the
//! sample file, docs/configuration.md and `vivarium config show` all read these declarations.

mod approval;
mod audit;
mod builds;
mod code_policy;
mod dialects;
mod e2b;
mod egress;
mod environments;
mod homes;
mod images;
mod packages;
mod preview;
mod sandbox;
mod server;
mod session;
mod tenant;
mod tenant_overrides;
mod tenants;
pub(crate) mod token;
mod tool_servers;
mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use vivarium_engine::settings::{
    AgentBinary, Approval, Audit, Builds, CallBounds, CheckpointMode, Dialects, E2b, Egress, Homes,
    Images, LogFormat, Mode, Overrides, Packages, Preview, Sandbox, Server, Session, Settings,
    TenantSources, Usage,
};
use vivarium_protocol::policy::{CpuCores, Limits, Network};
use vivarium_protocol::units::Limit;

use crate::config::key::{Key, Section};
use crate::config::value::ValueError;
use crate::suggest;

/// Every key, in the order of the file.
pub fn all() -> impl Iterator<Item = &'static Key> {
    Section::ALL.into_iter().flat_map(of)
}

/// The keys of one section, in the order of the file.
#[must_use]
pub fn of(section: Section) -> &'static [Key] {
    match section {
        Section::Server => server::KEYS,
        Section::Sandbox => sandbox::KEYS,
        Section::Session => session::KEYS,
        Section::Preview => preview::KEYS,
        Section::Dialects => dialects::KEYS,
        Section::E2b => e2b::KEYS,
        Section::Homes => homes::KEYS,
        Section::Images => images::KEYS,
        Section::Builds => builds::KEYS,
        Section::Egress => egress::KEYS,
        Section::Packages => packages::KEYS,
        Section::Approval => approval::KEYS,
        Section::Audit => audit::KEYS,
        Section::Usage => usage::KEYS,
        Section::Tools => tool_servers::KEYS,
        Section::Environments => environments::KEYS,
        Section::Tenants => tenants::KEYS,
        Section::Tenant => tenant::KEYS,
        Section::TenantSandbox => &tenant_overrides::SANDBOX,
        Section::TenantSession => &tenant_overrides::SESSION,
        Section::TenantApproval => &tenant_overrides::APPROVAL,
    }
}

#[must_use]
pub fn find(section: Section, name: &str) -> Option<&'static Key> {
    of(section).iter().find(|key| key.name == name)
}

/// Keys of later versions. They are refused by name, so that nobody believes a missing protection or
/// feature to be on.
pub(crate) const LATER: [(&str, &str); 2] = [
    ("sandbox.allowed_domains", "allowed domains are `egress.allow` and `tenant.egress_allow`"),
    ("tenant.audit", "the audit log is one for all tenants: [audit]"),
];

/// The reason if a key or section comes with a later version.
pub(crate) fn later(path: &str) -> Option<&'static str> {
    LATER.iter().find(|(later, _)| *later == path).map(|(_, why)| *why)
}

/// Where a key belongs that stands in a `[[tenant]]` or one of its tables, and is none there.
pub(crate) fn misplaced(section: Section, name: &str) -> Option<&'static str> {
    let tables = [Section::TenantSandbox, Section::TenantSession, Section::TenantApproval];
    if section == Section::Tenant {
        let table = tables.into_iter().find(|table| find(*table, name).is_some())?;
        return Some(match table {
            Section::TenantSandbox => "it belongs into [tenant.sandbox], below this [[tenant]]",
            Section::TenantApproval => "it belongs into [tenant.approval], below this [[tenant]]",
            _ => "it belongs into [tenant.session], below this [[tenant]]",
        });
    }
    let is_of_all = find(section.overridden()?, name).is_some();
    is_of_all.then_some("it holds for all tenants, and none can have a value of its own")
}

fn url(text: &str) -> Result<String, ValueError> {
    let uri = text.parse::<http::Uri>().ok().filter(|uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        is_http && !authority.is_empty() && !authority.contains('@')
    });
    match uri {
        Some(_) => Ok(text.to_owned()),
        None => {
            let why = "is not an http:// or https:// URL without a user's name";
            Err(ValueError::Unfit(format!("{text:?} {why}")))
        }
    }
}

/// Settings for the setters to fill in: the default of each key overwrites its value here.
pub(crate) fn blank() -> Settings {
    Settings {
        server: Server {
            listen: Vec::new(),
            state_dir: PathBuf::new(),
            runtime_dir: PathBuf::new(),
            user: String::new(),
            max_body_bytes: 0,
            max_connections: 0,
            max_buffered_mb: 0,
            max_tenant_buffered_mb: 0,
            log_format: LogFormat::Auto,
        },
        sandbox: Sandbox {
            mode: Mode::On,
            disable_layers: Vec::new(),
            require: None,
            limits: Limits {
                max_memory_mb: Limit::Unlimited,
                max_cpu_secs: Limit::Unlimited,
                max_procs: Limit::Unlimited,
                max_open_fds: Limit::Unlimited,
                max_file_size_mb: Limit::Unlimited,
                max_disk_mb: Limit::Unlimited,
                max_inodes: Limit::Unlimited,
                cpu_cores: CpuCores::UNLIMITED,
                max_output_bytes: Limit::Unlimited,
                max_result_bytes: Limit::Unlimited,
            },
            code_policy: Default::default(),
            network: Network::None,
            allowed_networks: Vec::new(),
            network_fallback: Network::None,
            workdir: PathBuf::new(),
            cgroup_root: None,
        },
        session: Session {
            exec_timeout: Duration::ZERO,
            max_exec_timeout: Duration::ZERO,
            interrupt_grace: Duration::ZERO,
            start_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            reap_interval: Duration::ZERO,
            max_lifetime: None,
            max_sessions: Limit::Unlimited,
            queue_depth: 0,
            results_kept: Duration::ZERO,
            event_buffer_bytes: 0,
            tools: false,
            calls: CallBounds {
                timeout: Duration::ZERO,
                max_timeout: Duration::ZERO,
                max_wait: Duration::ZERO,
                max_calls: 0,
            },
            tool_servers: Vec::new(),
            memory_reserve_mb: 0,
            max_memory_pressure_percent: 0,
            pool_cpu_share: 0.0,
            pool_memory_pressure_percent: 0,
        },
        preview: Preview { url: None, lifetime: Duration::ZERO },
        dialects: Dialects::default(),
        e2b: E2b::default(),
        audit: Audit::default(),
        homes: Homes {
            session: false,
            tenant: false,
            volumes: false,
            max_mb: Limit::Unlimited,
            max_inodes: Limit::Unlimited,
            max_per_tenant: Limit::Unlimited,
            expire_after: None,
        },
        images: Images {
            key_file: None,
            keep_programs: true,
            suspend_after: None,
            suspend_for_room: None,
            suspend_expired: false,
            max_mb: Limit::Unlimited,
            max_per_tenant: Limit::Unlimited,
            checkpoint: CheckpointMode::Named,
            checkpoints_kept: Limit::Unlimited,
            expire_after: None,
        },
        builds: Builds {
            uv: None,
            timeout: Duration::ZERO,
            max_mb: 0,
            max_inodes: 0,
            max_at_once: 0,
        },
        egress: Egress::default(),
        packages: Packages::default(),
        approval: Approval::default(),
        usage: Usage { flush_interval: Duration::ZERO, keep: Duration::ZERO },
        tool_servers: BTreeMap::new(),
        environments: BTreeMap::new(),
        tenant_sources: TenantSources::default(),
        tenants: BTreeMap::new(),
        sources: Default::default(),
        agent_binary: AgentBinary::default(),
    }
}

/// Overrides that replace nothing.
pub(crate) fn no_overrides() -> Box<Overrides> {
    let Settings { sandbox, session, approval, .. } = blank();
    let (sandbox_keys, session_keys, approval_keys) = Default::default();
    Box::new(Overrides { sandbox, sandbox_keys, session, session_keys, approval, approval_keys })
}

/// Stores a value, or reports why it does not fit.
fn put<T>(to: &mut T, value: Result<T, ValueError>) -> Result<(), ValueError> {
    *to = value?;
    Ok(())
}

/// Refuses a text that is none of the choices.
fn no_such(given: &str, choices: &[&str]) -> ValueError {
    let near = suggest::hint(given, choices.iter().copied());
    let choices = choices.join("\", \"");
    ValueError::Unfit(format!("{given:?} is not one of \"{choices}\"{near}"))
}
