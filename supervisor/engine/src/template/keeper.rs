//! The task that keeps a template: builds it, watches it, and builds it again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use vivarium_metrics::Metrics;
use vivarium_protocol::discard;
use vivarium_protocol::error_chain;

use super::process::{Process, TemplateError};
use super::{Build, State, Template};
use crate::backend::Backend;
use crate::backoff::Backoff;
use crate::recover::remove_tree;

/// A template that was there for longer has no part in a row of faults.
const GOOD_AFTER: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Keeps a template until nobody wants it any more.
pub(super) async fn keep(
    template: Arc<Template>,
    backend: Arc<dyn Backend>,
    metrics: Arc<Metrics>,
) {
    let mut wanted = template.wanted.subscribe();
    let environment = template.environment.clone();
    metrics.templates.introduced(&environment);
    let mut backoff = Backoff::default();
    let mut last = None;
    loop {
        let Some(build) = wanted.borrow_and_update().clone() else { break };
        template.state.send_replace(State::Building);
        let interpreter = identity(&build.order.interpreter.path);
        let this = (build.order.interpreter.path.clone(), interpreter);
        if last.replace(this.clone()).is_some_and(|last| last.0 == this.0 && last.1 != this.1) {
            template.replace();
        }
        let started = tokio::select! {
            started = start(&*backend, &environment, &build) => started,
            () = changed(&mut wanted) => continue, // what was started of it is killed
        };
        let fault = match started {
            Ok((mut process, _scratch)) => {
                let fault = match process.sender().map(Arc::new) {
                    Ok(sender) => {
                        tracing::info!(environment, "template ready");
                        metrics.templates.built(&environment, true);
                        template.suspicion.clear();
                        template.state.send_replace(State::Ready(Arc::clone(&sender)));
                        let since = Instant::now();
                        let fault = tokio::select! {
                            fault = process.watch(&sender, &template.suspicion) => Some(fault),
                            () = changed(&mut wanted) => None,
                            () = replaced(&build.order.interpreter.path, interpreter) => None,
                        };
                        if since.elapsed() > GOOD_AFTER {
                            backoff.succeeded();
                        }
                        fault
                    }
                    Err(error) => Some(error.into()),
                };
                template.state.send_replace(State::Building);
                process.end(&*backend).await;
                fault
            }
            Err(fault) => {
                metrics.templates.built(&environment, false);
                Some(fault)
            }
        };
        let Some(fault) = fault else {
            backoff.succeeded();
            continue; // It is to be another, or none.
        };
        let reason = error_chain(&fault);
        tracing::warn!(
            environment,
            reason,
            "no template: kernels are executed, which takes them longer to start"
        );
        template.state.send_replace(State::Unavailable(reason));
        // What the environment itself can not do it will not be able to in a minute either.
        let is_final = matches!(fault, TemplateError::Unfit(_) | TemplateError::NoLibrary);
        let now = Instant::now();
        backoff.failed(now);
        let again = backoff.until(now).unwrap_or(now);
        tokio::select! {
            () = sleep_until(again), if !is_final => {}
            () = changed(&mut wanted) => {}
            () = replaced(&build.order.interpreter.path, interpreter) => {}
        }
    }
    template.state.send_replace(State::Off);
}

/// A process that is ready, and the directory that is its.
async fn start(
    backend: &dyn Backend,
    environment: &str,
    build: &Build,
) -> Result<(Process, Scratch), TemplateError> {
    let scratch = Scratch(build.workdirs.make()?);
    fs::create_dir(scratch.0.join("tmp"))?;
    let mut order = build.order.clone();
    order.env.extend(directories(&scratch.0));
    let Build { programs, ids, .. } = build;
    let process = Process::start(backend, environment, &order, programs, ids.as_deref()).await?;
    Ok((process, scratch))
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a template's directory stays");
        }
    }
}

/// Where a template's libraries keep what is theirs. What they remember of it, kernels forget
/// (agent/python/zygote/after_fork.py).
fn directories(scratch: &Path) -> impl Iterator<Item = (String, String)> {
    [
        ("HOME", "."),
        ("TMPDIR", "tmp"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("MPLCONFIGDIR", ".config/matplotlib"),
    ]
    .map(|(name, path)| (name.to_owned(), scratch.join(path).to_string_lossy().into_owned()))
    .into_iter()
}

/// Resolves when something else is wanted, or nothing.
async fn changed(wanted: &mut watch::Receiver<Option<Build>>) {
    discard(wanted.changed().await, "the template holds the sender, and this task");
}

/// What tells a program from the one that an upgrade puts in its place.
fn identity(path: &Path) -> Option<(u64, u64, i64)> {
    fs::metadata(path).ok().map(|data| (data.dev(), data.ino(), data.mtime()))
}

/// Resolves when the interpreter is another.
async fn replaced(path: &Path, before: Option<(u64, u64, i64)>) {
    loop {
        sleep(LOOK_EVERY).await;
        let now = identity(path);
        if now.is_some() && now != before {
            tracing::info!(interpreter = %path.display(), "the interpreter is another");
            return;
        }
    }
}
