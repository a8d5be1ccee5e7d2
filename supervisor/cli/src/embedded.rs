//! An engine in this process, for commands that need no daemon.

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Uid, User};
use vivarium_api_types::SessionSpec;
use vivarium_engine::Engine;
use vivarium_engine::settings::Settings;
use vivarium_protocol::units::Limit;
use vivarium_server::logging;

use super::exit::{Exit, Failure};
use super::options::ConfigOptions;
use super::output_dir::OutputDir;
use super::target::Target;

/// Resolves the configuration, gives up root, and checks that the new user can write to the output
/// folder. Whatever needs the rights of the user who started us must be done before, and no other
/// thread may run.
pub(super) fn prepare(
    options: &ConfigOptions,
    spec: &SessionSpec,
    timeout: Option<Duration>,
    output_dir: Option<&OutputDir>,
) -> Result<Settings, Failure> {
    let mut settings = options.load(&[])?.settings;
    // The user of an embedded sandbox is its operator: the session gets the network and the limits
    // that they ask for, and an execution may take as long as they say.
    if let Some(network) = spec.network
        && !settings.sandbox.allowed_networks.contains(&network)
    {
        settings.sandbox.allowed_networks.push(network);
    }
    if let Some(limits) = spec.limits {
        settings.sandbox.limits = limits.raise(&settings.sandbox.limits);
    }
    if let Some(timeout) = timeout {
        settings.session.max_exec_timeout = settings.session.max_exec_timeout.max(timeout);
    }
    settings.session.max_sessions = Limit::Unlimited;
    settings.keep_none_ready();
    // It is the daemon's, which may be running.
    settings.audit.dir = None;
    logging::init(settings.server.log_format, "error")
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    if let (Some(output_dir), true) = (output_dir, Uid::effective().is_root())
        && let Ok(Some(user)) = User::from_name(&settings.server.user)
    {
        output_dir.give_to(&user)?;
    }
    vivarium_privilege::prepare(&mut settings)
        .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    output_dir.map_or(Ok(()), OutputDir::check)?;
    Ok(settings)
}

/// Starts an engine, runs `work` with it, and returns when nothing is left of the engine.
pub(super) async fn with_engine<T>(
    settings: Settings,
    work: impl AsyncFnOnce(Target) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let engine = Engine::start(Arc::new(settings))
        .await
        .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    let result = work(Target::Embedded(engine.clone())).await;
    engine.shutdown(Duration::ZERO).await;
    result
}
