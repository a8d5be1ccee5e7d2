//! `vivarium serve`

mod reload;

use std::env;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use vivarium_config::{Config, Host};
use vivarium_engine::egress::{check_tool_server_secrets, check_webhook_secret};
use vivarium_engine::{Engine, check_image_key};
use vivarium_server::api::Listeners;
use vivarium_server::listen::{Listener, UnixSockets};
use vivarium_server::shutdown::{self, Request, Signals};
use vivarium_server::startup::{self, Prepared};
use vivarium_server::tenant_watch::TenantWatch;
use vivarium_server::{api, logging};

use super::exit::{Exit, Failure};
use super::options::{self, ConfigOptions};
use reload::Running;

/// How long it may take to suspend and end sessions.
const SUSPENDING_WITHIN: Duration = Duration::from_secs(180);

/// Where to serve.
#[derive(Debug, clap::Args)]
#[command(after_help = "SIGTERM stops the daemon in an orderly way, a second one at once; SIGHUP \
                        reloads the configuration.")]
pub(super) struct Args {
    /// Where to listen: ADDRESS:PORT or unix:/PATH; repeatable [default: server.listen of the configuration]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    #[command(flatten)]
    config: ConfigOptions,
}

/// Says another number of threads, as it does to tokio.
const THREADS: &str = "TOKIO_WORKER_THREADS";

/// One for each four CPUs. The sessions need the others; and where there are two, each event of one wakes the
/// other as well, to look for work: with one thread on two CPUs a warm execution takes 0.7 of the time.
fn worker_threads() -> Result<usize, Failure> {
    let Some(asked) = env::var_os(THREADS) else {
        return Ok((available_parallelism().map_or(1, NonZero::get) / 4).max(1));
    };
    let asked = asked.to_str().and_then(|text| text.parse::<NonZero<usize>>().ok());
    asked
        .map(NonZero::get)
        .ok_or_else(|| Failure::says(Exit::Usage, format!("{THREADS} is not a number of threads")))
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let host = Host::look();
    let sources = reload::sources(args, host.clone())?;
    let mut config = options::resolve(&sources)?;
    logging::init(config.settings.server.log_format, "info")
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let prepared = startup::prepare(&mut config.settings)
        .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(worker_threads()?)
        // Memory is read on such a thread every few seconds, so one always stays. Where there is
        // none and no more can be made (RLIMIT_NPROC, pids.max), `spawn_blocking` panics.
        .thread_keep_alive(Duration::from_secs(60))
        .build()
        .map_err(|error| Failure::says(Exit::Unavailable, format!("cannot start: {error}")))?;
    runtime.block_on(serve(args, &host, Running::new(config, sources), prepared))
}

async fn serve(
    args: &Args,
    host: &Host,
    mut running: Running,
    prepared: Prepared,
) -> Result<Exit, Failure> {
    let unavailable = |error: &dyn std::error::Error| Failure::new(Exit::Unavailable, error);
    let mut signals = Signals::new().map_err(|error| unavailable(&error))?;
    // By the daemon's user, which root's configuration may have forgotten.
    check_webhook_secret(&running.config.settings.approval.webhook)
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    check_tool_server_secrets(&running.config.settings)
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    check_image_key(&running.config.settings.images)
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    let engine = Engine::start(Arc::new(running.config.settings.clone()))
        .await
        .map_err(|error| unavailable(&error))?;
    engine.keep_state().map_err(|source| {
        let why = format!("cannot tell who is paused (server.state_dir): {source}");
        Failure::says(Exit::Unavailable, why)
    })?;
    // Templates and pools get ready in the background; until then kernels are executed.
    engine.warm_up().await;
    let (stop, stopped) = oneshot::channel();
    announce(&running.config, &prepared);
    let mut stop = Some((stop, prepared.sockets));
    let listeners = Listeners { api: prepared.listeners, e2b: prepared.e2b };
    let mut server = tokio::spawn(api::serve(engine.clone(), listeners, stopped));
    ready();
    let watchdog = tokio::spawn(shutdown::feed_watchdog());
    let mut watch = TenantWatch::new(&running.config.settings.tenant_sources);
    if running.config.settings.tenant_sources.is_configured() {
        // They may have changed since they were read.
        running.reload_tenants(&engine).await;
    }
    let ended = loop {
        let request = tokio::select! {
            ended = &mut server => break ended,
            request = signals.next() => request,
            () = engine.stop_wanted() => Request::Stop,
            () = watch.changed() => {
                running.reload_tenants(&engine).await;
                continue;
            }
        };
        match request {
            Request::Reload => {
                shutdown::notify_reloading();
                running.reload(args, host, &engine).await;
                watch = TenantWatch::new(&running.config.settings.tenant_sources);
                ready();
            }
            Request::Stop => {
                tracing::info!("stopping: waiting for executions under way");
                shutdown::notify(&[NotifyState::Stopping]);
                if let Some((stop, sockets)) = stop.take() {
                    tokio::spawn(drain(engine.clone(), stop, sockets));
                }
            }
            Request::Abort => {
                tracing::warn!("told again to stop: not waiting any longer");
                return Err(Failure::quiet(Exit::Interrupted));
            }
        }
    };
    watchdog.abort();
    engine.audit().stop().await;
    match ended {
        Ok(Ok(())) => {
            tracing::info!("stopped");
            Ok(Exit::Ok)
        }
        Ok(Err(error)) => Err(unavailable(&error)),
        Err(error) => Err(unavailable(&error)),
    }
}

fn announce(config: &Config, prepared: &Prepared) {
    let server = &config.settings.server;
    let dropped = prepared.account.is_some();
    let user = if dropped { server.user.as_str() } else { "the user who started it" };
    let listen = listed(&prepared.listeners);
    if prepared.e2b.is_empty() {
        tracing::info!(listen, user, "vivarium {}", env!("CARGO_PKG_VERSION"));
    } else {
        let e2b = listed(&prepared.e2b);
        tracing::info!(listen, e2b, user, "vivarium {}", env!("CARGO_PKG_VERSION"));
    }
}

fn listed(listeners: &[Listener]) -> String {
    let listen: Vec<_> = listeners.iter().map(ToString::to_string).collect();
    listen.join(", ")
}

/// Waits for executions to end, ends the sessions, and then stops the server.
async fn drain(engine: Engine, stop: oneshot::Sender<()>, sockets: UnixSockets) {
    let grace = engine.settings().session.exec_timeout;
    let asking = tokio::spawn(shutdown::ask_for_time(grace + SUSPENDING_WITHIN));
    engine.shutdown(grace).await;
    asking.abort();
    drop(sockets);
    drop(stop);
}

/// Notifies the service manager, after the log up to here has been written.
fn ready() {
    logging::flush();
    shutdown::notify(&[NotifyState::Ready]);
}
