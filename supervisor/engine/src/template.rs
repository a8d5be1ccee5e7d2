//! Templates: for each environment a warmed Python that kernels are forked from, or an instance of the engine.
//!
//! A template is a process of the daemon's user, `vivarium-agent template`, that has imported what
//! the environment names. The supervisor builds it, asks it now and then whether it is there, and
//! builds it again after a fault. A session gets a socket that leads to it; where there is none, or
//! the fork fails, the session's kernel is executed instead, which takes longer and is the same in
//! every other way.
//!
//! It must never tell a template anything of a session.

mod keeper;
pub(crate) mod memory;
mod process;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use vivarium_audit::Hash;
use vivarium_metrics::Metrics;
use vivarium_protocol::message::{StartTemplate, ToTemplate};

use crate::backend::Backend;
use crate::backend::ids::IdPool;
use crate::recover::Workdirs;

use memory::TemplateMemory;
use process::Sender;

/// Variables that Python, libc or a numeric library reads once, as it starts, by what their names
/// begin with. A kernel that is to have another value of one of them is executed.
const READ_AT_START: [&str; 13] = [
    "PYTHON",
    "LANG",
    "LC_",
    "LD_",
    "GLIBC_",
    "MALLOC_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "MPL",
    "GOTO_",
    "JE_ARROW_",
    "ARROW_",
];

#[derive(Debug, Clone)]
pub struct Build {
    /// What it is told, but for its directories.
    pub order: StartTemplate,
    pub programs: Programs,
    /// Where it gets a directory of its own, for HOME and TMPDIR.
    pub workdirs: Arc<Workdirs>,
    /// The ids of the sessions it forks for, if they have their own: it has to be in the
    /// namespace that holds them.
    pub ids: Option<Arc<IdPool>>,
}

/// The library and kernel program of a template.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// By what images find them again, if they are kept for those.
    pub hash: Option<Hash>,
    /// The library, if it is not the installed one; the compiled component of runtime `wasm`.
    pub library: Option<Arc<OwnedFd>>,
}

impl PartialEq for Build {
    fn eq(&self, other: &Self) -> bool {
        // The others do not change while a daemon lives.
        self.order == other.order
    }
}

/// What there is of a template.
#[derive(Debug, Clone)]
pub enum State {
    Off,
    Building,
    /// Kernels are forked from it.
    Ready(Arc<Sender>),
    /// Kernels are executed, for this reason.
    Unavailable(String),
}

impl State {
    /// Its name, for people and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Building => "building",
            Self::Ready(_) => "ready",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

/// That a template may hang. No session is sent to it until it has answered.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    raised: AtomicBool,
    news: Notify,
}

impl Suspicion {
    async fn raised(&self) {
        self.news.notified().await;
    }

    fn clear(&self) {
        self.raised.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
pub struct Template {
    environment: String,
    state: watch::Sender<State>,
    wanted: watch::Sender<Option<Build>>,
    replaced: AtomicU64,
    suspicion: Suspicion,
    keeper: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Template {
    /// None, for a session that is not to have what this one has in memory.
    pub fn none(&self) -> Self {
        Self::new(&self.environment)
    }

    pub fn new(environment: &str) -> Self {
        Self {
            environment: environment.to_owned(),
            state: watch::Sender::new(State::Off),
            wanted: watch::Sender::new(None),
            replaced: AtomicU64::new(0),
            suspicion: Suspicion::default(),
            keeper: Mutex::new(None),
        }
    }

    /// Has it built, or built anew if it is to be another than it is.
    pub fn build(
        self: &Arc<Self>,
        backend: &Arc<dyn Backend>,
        metrics: &Arc<Metrics>,
        build: Build,
    ) {
        let changed = self.wanted.send_if_modified(|wanted| {
            let changed = wanted.as_ref() != Some(&build);
            *wanted = Some(build);
            changed
        });
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if changed {
            // At once, so that nothing more is forked from what it was.
            self.state.send_replace(State::Building);
        }
        if changed && keeper.is_none() {
            let task = keeper::keep(Arc::clone(self), Arc::clone(backend), Arc::clone(metrics));
            *keeper = Some(tokio::spawn(task));
        }
    }

    /// Has kernels executed, for this reason.
    pub fn refuse(&self, reason: &str) {
        self.state.send_replace(State::Unavailable(reason.to_owned()));
    }

    /// Ends it. Kernels that were forked from it go on.
    pub async fn stop(&self) {
        self.wanted.send_replace(None);
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper
            && let Err(error) = keeper.await
        {
            tracing::error!(%error, environment = self.environment, "a template's keeper");
        }
    }

    /// What it is to be.
    pub(crate) fn wanted(&self) -> Option<Build> {
        self.wanted.borrow().clone()
    }

    /// How often its interpreter was found to be another program than before. What was started
    /// earlier is of one that is not installed any more.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Acquire)
    }

    /// It did not fork a kernel that it was asked for: it is asked at once whether it is there.
    pub(crate) fn suspect(&self) {
        self.suspicion.raised.store(true, Ordering::Release);
        self.suspicion.news.notify_one();
    }

    /// Its interpreter is another.
    pub(crate) fn replace(&self) {
        self.replaced.fetch_add(1, Ordering::AcqRel);
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until it is ready, or is known not to be.
    pub async fn settled(&self) -> State {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Building)).await;
        settled.map_or(State::Off, |state| state.clone())
    }

    /// What leads to it, for the launcher of a session whose kernels get these variables; `None` if they
    /// are to be executed.
    pub fn connect(&self, env: &[(String, String)]) -> Option<Connected> {
        let State::Ready(sender) = &*self.state.borrow() else { return None };
        if self.suspicion.raised.load(Ordering::Acquire) {
            return None;
        }
        // A guest of the engine is made before it is in any environment, be its kernel executed or forked.
        let fits =
            |build: &Build| build.order.interpreter.wasm.is_some() || suits(&build.order.env, env);
        if !self.wanted.borrow().as_ref().is_some_and(fits) {
            return None;
        }
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()
            .map_err(|error| tracing::warn!(%error, "no socket for a template"))
            .ok()?;
        match sender.send(&ToTemplate::Serve, Some(theirs.into())) {
            Ok(()) => Some(Connected { socket: ours.into(), memory: sender.memory() }),
            Err(error) => {
                // Its keeper finds out what is wrong.
                tracing::warn!(%error, environment = self.environment, "a template does not read");
                None
            }
        }
    }
}

#[derive(Debug)]
pub struct Connected {
    pub socket: OwnedFd,
    /// What its kernels share, if they can be saved.
    pub(crate) memory: Option<Arc<TemplateMemory>>,
}

/// Whether a process that was started with `started` can become one that has `wanted`.
fn suits(started: &[(String, String)], wanted: &[(String, String)]) -> bool {
    let matters = |name: &str| READ_AT_START.iter().any(|prefix| name.starts_with(prefix));
    wanted.iter().filter(|(name, _)| matters(name)).all(|variable| started.contains(variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn environment_variables_read_at_startup_must_equal_the_templates() {
        let started = env(&[("LANG", "C.UTF-8"), ("PATH", "/bin")]);
        assert!(suits(
            &started,
            &env(&[("LANG", "C.UTF-8"), ("TOKEN", "x"), ("PATH", "/usr/bin")])
        ));
        assert!(!suits(&started, &env(&[("LANG", "de_DE.UTF-8")])));
        assert!(!suits(&started, &env(&[("PYTHONHASHSEED", "0")])));
    }
}
