//! An engine on a backend whose agents a test plays, for the tests of this crate and those above.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use vivarium_api_types::TokenHash;
use vivarium_audit::AuditLog;
use vivarium_metrics::Metrics;
use vivarium_protocol::layer::{Intent, Layer, Plan};
use vivarium_protocol::policy::{CpuCores, Interpreter, Limits, Network};
use vivarium_protocol::units::Limit;

use super::environment::Prepared;
use super::{Engine, Host};
use crate::approvals::Approvals;
pub use crate::backend::fake::{Fake, FakeAgent, FakeSocket};
use crate::backend::program::ProgramFile;
use crate::cgroup::{Missing, Support};
use crate::egress::{Accounting, Egress, GateLaunch};
use crate::memory::{Memory, MemoryReading};
use crate::passt::NoPasta;
use crate::settings::{
    AgentBinary, Approval, Audit, Builds, CallBounds, CheckpointMode, Egress as EgressSettings,
    Environment, Homes, Images, LogFormat, Mode, Packages, Preview, Sandbox, Server, Session,
    Settings, Tenant, Usage,
};
use crate::template::Template;

/// Settings for tests, with nothing of the host in them.
pub fn settings() -> Settings {
    let at = |n| Limit::new(n).unwrap();
    Settings {
        server: Server {
            listen: vec![],
            state_dir: "/nonexistent".into(),
            runtime_dir: "/nonexistent".into(),
            user: "nobody".into(),
            max_body_bytes: 16 << 20,
            max_connections: 1024,
            max_buffered_mb: 512,
            max_tenant_buffered_mb: 256,
            log_format: LogFormat::Text,
        },
        sandbox: Sandbox {
            mode: Mode::Auto,
            disable_layers: vec![],
            require: None,
            limits: Limits {
                max_memory_mb: at(2048),
                max_cpu_secs: at(300),
                max_procs: at(64),
                max_open_fds: at(1024),
                max_file_size_mb: at(256),
                max_disk_mb: at(512),
                max_inodes: at(65536),
                cpu_cores: CpuCores::ONE,
                max_output_bytes: at(10 << 20),
                max_result_bytes: at(32 << 20),
            },
            code_policy: Default::default(),
            network: Network::Loopback,
            allowed_networks: vec![Network::None, Network::Loopback],
            network_fallback: Network::None,
            workdir: "/workspace".into(),
            cgroup_root: None,
        },
        session: Session {
            exec_timeout: Duration::from_secs(30),
            max_exec_timeout: Duration::from_secs(300),
            interrupt_grace: Duration::from_secs(3),
            start_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(3600),
            reap_interval: Duration::from_secs(300),
            max_lifetime: None,
            max_sessions: at(100),
            queue_depth: 4,
            results_kept: Duration::from_secs(600),
            event_buffer_bytes: 1 << 20,
            tools: true,
            calls: CallBounds {
                timeout: Duration::from_secs(60),
                max_timeout: Duration::from_secs(600),
                max_wait: Duration::from_secs(600),
                max_calls: 10_000,
            },
            tool_servers: vec![],
            memory_reserve_mb: 1,
            max_memory_pressure_percent: 100,
            pool_cpu_share: 1.0,
            pool_memory_pressure_percent: 100,
        },
        audit: Audit::default(),
        homes: Homes {
            session: false,
            tenant: false,
            volumes: false,
            max_mb: at(1024),
            max_inodes: at(65536),
            max_per_tenant: at(20),
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
            timeout: Duration::from_secs(60),
            max_mb: 64,
            max_inodes: 10_000,
            max_at_once: 2,
        },
        preview: Preview { url: None, lifetime: Duration::from_secs(3600) },
        dialects: Default::default(),
        e2b: Default::default(),
        egress: EgressSettings::default(),
        packages: Packages::default(),
        approval: Approval::default(),
        usage: Usage {
            flush_interval: Duration::from_secs(3600),
            keep: Duration::from_secs(86_400),
        },
        tool_servers: BTreeMap::new(),
        environments: BTreeMap::from([("default".to_owned(), Environment::default())]),
        tenant_sources: Default::default(),
        tenants: BTreeMap::new(),
        sources: Arc::default(),
        agent_binary: AgentBinary::default(),
    }
}

pub fn tenant(token: &str) -> Tenant {
    Tenant { tokens: vec![TokenHash::of(token).into()], ..Tenant::default() }
}

/// An engine, and the agents that it launches.
pub fn engine(settings: Settings) -> (Engine, Arc<Fake>, mpsc::UnboundedReceiver<FakeAgent>) {
    engine_with(settings, Memory::fixed(MemoryReading::default()))
}

/// One on a host of this memory.
pub fn engine_with(
    settings: Settings,
    memory: Memory,
) -> (Engine, Arc<Fake>, mpsc::UnboundedReceiver<FakeAgent>) {
    let (backend, launched) = Fake::new();
    let mut plan = Plan::full();
    plan.set(Layer::Cgroup, &Intent::Off);
    let prepared = Prepared {
        interpreter: Interpreter {
            path: "/usr/bin/python3".into(),
            prefixes: vec![],
            isolate: vec![],
            program: Arc::default(),
            version: "3.0".into(),
            wasm: None,
        },
        plan,
        program: ProgramFile::new(b"").unwrap(),
        protection: Arc::new([]),
        read_paths: vec![],
        hidden: vec![],
        env: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
        ids: None,
        template: Arc::new(Template::new("default")),
        passt: Err(NoPasta::new("a test", "")),
    };
    let (metrics, results) = (Arc::new(Metrics::new().unwrap()), Arc::default());
    let accounting = Accounting {
        metrics: Arc::clone(&metrics),
        audit: AuditLog::default(),
        usage: Arc::default(),
    };
    let approvals = Arc::new(Approvals::new(Arc::clone(&metrics), AuditLog::default()));
    let host = Host {
        backend: Arc::clone(&backend) as _,
        cgroups: Support::Unavailable(Missing { why: "a test".into(), fix: String::new() }),
        ids: None,
        images: Err("a test"),
        stores: Err("a test"),
        egress: Arc::new(Egress::new(
            GateLaunch::of(&settings),
            accounting,
            Arc::clone(&approvals),
        )),
        metrics,
        audit: AuditLog::default(),
        usage: Arc::default(),
        budget: super::start::budget(&settings, &results),
        results,
        approvals,
        quotas: Arc::default(),
        turns: Arc::default(),
        runtime_dir: "/nonexistent".into(),
        workdirs: Mutex::default(),
    };
    let environments = BTreeMap::from([("default".to_owned(), prepared)]);
    super::tenants::set_quotas(&settings, &host);
    let engine = Engine::assemble(Arc::new(settings), host, environments, memory);
    engine.arrange_pools();
    (engine, backend, launched)
}

/// An engine whose agents echo, and how often it launched or killed one.
pub fn echoing(settings: Settings) -> (Engine, Arc<Fake>) {
    echoing_with(settings, Memory::fixed(MemoryReading::default()))
}

/// The same on a host of this memory.
pub fn echoing_with(settings: Settings, memory: Memory) -> (Engine, Arc<Fake>) {
    let (engine, backend, mut launched) = engine_with(settings, memory);
    tokio::spawn(async move {
        while let Some(agent) = launched.recv().await {
            tokio::spawn(agent.echo());
        }
    });
    (engine, backend)
}
