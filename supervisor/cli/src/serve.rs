//! `vivarium serve`

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use vivarium_audit::Event;
use vivarium_engine::Engine;
use vivarium_server::config::{self, Config, Host};
use vivarium_server::listen::{Listener, UnixSockets};
use vivarium_server::privilege::{self, Prepared, Purpose};
use vivarium_server::shutdown::{self, Request, Signals};
use vivarium_server::{api, logging};

use super::exit::{Exit, Failure};
use super::options::{self, ConfigOptions};

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

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let host = Host::look();
    let mut config = options::resolve(&args.config.sources(host.clone(), &args.listen)?)?;
    logging::init(config.settings.server.log_format, "info")
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let prepared = privilege::prepare(&mut config.settings, Purpose::Serve)
        .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        // Memory is read on such a thread every few seconds, so one always stays. Where there is
        // none and no more can be made (RLIMIT_NPROC, pids.max), `spawn_blocking` panics.
        .thread_keep_alive(Duration::from_secs(60))
        .build()
        .map_err(|error| Failure::says(Exit::Unavailable, format!("cannot start: {error}")))?;
    runtime.block_on(serve(args, &host, config, prepared))
}

async fn serve(
    args: &Args,
    host: &Host,
    config: Config,
    prepared: Prepared,
) -> Result<Exit, Failure> {
    let unavailable = |error: &dyn std::error::Error| Failure::new(Exit::Unavailable, error);
    let mut signals = Signals::new().map_err(|error| unavailable(&error))?;
    let engine = Engine::start(Arc::new(config.settings.clone()))
        .await
        .map_err(|error| unavailable(&error))?;
    engine.keep_state().map_err(|source| {
        let why = format!("cannot tell who is paused (server.state_dir): {source}");
        Failure::says(Exit::Unavailable, why)
    })?;
    // Templates and pools get ready in the background; until then kernels are executed.
    engine.warm_up().await;
    let (stop, stopped) = oneshot::channel();
    let mut stop = Some((stop, prepared.sockets));
    announce(&config, &prepared.listeners, prepared.account.is_some());
    let mut server = tokio::spawn(api::serve(engine.clone(), prepared.listeners, stopped));
    ready();
    let watchdog = tokio::spawn(shutdown::feed_watchdog());
    let mut config = config;
    let ended = loop {
        let request = tokio::select! {
            ended = &mut server => break ended,
            request = signals.next() => request,
            () = engine.stop_wanted() => Request::Stop,
        };
        match request {
            Request::Reload => {
                shutdown::notify_reloading();
                config = reload(args, host, &engine, config).await;
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

fn announce(config: &Config, listeners: &[Listener], dropped: bool) {
    let server = &config.settings.server;
    let listen: Vec<_> = listeners.iter().map(ToString::to_string).collect();
    let user = if dropped { server.user.as_str() } else { "the user who started it" };
    tracing::info!(listen = listen.join(", "), user, "vivarium {}", env!("CARGO_PKG_VERSION"));
}

/// Waits for executions to end, ends the sessions, and then stops the server.
async fn drain(engine: Engine, stop: oneshot::Sender<()>, sockets: UnixSockets) {
    engine.shutdown(engine.settings().session.exec_timeout).await;
    drop(sockets);
    drop(stop);
}

/// Reloads the configuration; returns the old one if the new one has an error.
async fn reload(args: &Args, host: &Host, engine: &Engine, old: Config) -> Config {
    let sources = match args.config.sources(host.clone(), &args.listen) {
        Ok(sources) => sources,
        Err(failure) => {
            tracing::error!("not reloaded: {}", failure.message());
            return old;
        }
    };
    let reloaded = options::resolve(&sources).and_then(|new| {
        config::reload(&engine.settings(), &old, &new)
            .map_err(|errors| Failure::says(Exit::Usage, errors.to_string()))
    });
    match reloaded {
        Err(failure) => {
            tracing::error!("not reloaded: {}", failure.message());
            old
        }
        Ok(reloaded) => {
            engine.reload(Arc::new(reloaded.config.settings.clone())).await;
            for key in &reloaded.kept {
                tracing::warn!(key, "not reloaded: it needs a restart");
            }
            engine.audit().record(|| Event::ConfigReloaded {
                changed: reloaded.changed.clone(),
                needs_restart: reloaded.kept.clone(),
            });
            tracing::info!(changed = reloaded.changed.join(", "), "configuration reloaded");
            reloaded.config
        }
    }
}

/// Notifies the service manager, after the log up to here has been written.
fn ready() {
    logging::flush();
    shutdown::notify(&[NotifyState::Ready]);
}
