//! The templates of the environments.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use vivarium_api_types::{SessionSpec, TemplateInfo};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Origin, StartTemplate};
use vivarium_protocol::policy::Interpreter;
use vivarium_protocol::{PROTOCOL_VERSION, error_chain, one_python};

use super::environment::Prepared;
use super::{DEFAULT_TENANT, Engine};
use crate::recover::Workdirs;
use crate::settings::Environment;
use crate::template::{Build, Programs, State};

/// How many threads numeric libraries start. More than one there could be no fork of.
const ONE_THREAD: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"];

/// pyarrow's jemalloc starts one otherwise, with its first memory: jemalloc(3), `background_thread`.
const ARROW: (&str, &str) = ("JE_ARROW_MALLOC_CONF", "background_thread:false");

/// Why there is no template without the namespaces layer. What a forked kernel leaves running when
/// it ends is its template's there, and not its session's to end.
const NO_NAMESPACES: &str = "kernels are executed without the namespaces layer: what one leaves \
                             running has to be its launcher's, which ends it";

impl Engine {
    /// Has the templates built that the settings want, and ends those that they do not. Those that
    /// are as they are wanted stay as they are.
    pub async fn build_templates(&self) {
        let settings = self.settings();
        let host = &self.inner.host;
        for (name, prepared) in &self.inner.environments {
            match settings.environments.get(name).filter(|environment| environment.template) {
                Some(_) if !prepared.plan.applies(Layer::Namespaces) => {
                    host.metrics.templates.introduced(name);
                    prepared.template.refuse(NO_NAMESPACES);
                }
                Some(environment) => match host.workdirs() {
                    Ok(workdirs) => {
                        let home = &settings.sandbox.workdir;
                        let interpreter = prepared.interpreter.clone();
                        let build = build(environment, prepared, interpreter, home, workdirs);
                        let build = self.with_programs(build).await;
                        prepared.template.build(&host.backend, &host.metrics, build);
                    }
                    Err(error) => {
                        let error = error_chain(&error);
                        tracing::warn!(environment = name, error, "no template");
                    }
                },
                None => prepared.template.stop().await,
            }
        }
        self.arrange_built_templates().await;
    }

    /// Starts a session in each environment that has a template; why a kernel was not forked, by
    /// environment.
    pub async fn try_templates(&self) -> BTreeMap<String, String> {
        let mut refused = BTreeMap::new();
        for (name, prepared) in &self.inner.environments {
            if !matches!(prepared.template.settled().await, State::Ready(_)) {
                continue;
            }
            let spec = SessionSpec { environment: Some(name.clone()), ..SessionSpec::default() };
            let why = match self.create(DEFAULT_TENANT, spec).await {
                Err(error) => error.to_string(),
                Ok(info) if info.kernel_origin == Some(Origin::Forked) => continue,
                Ok(_) => "it is ready, but a kernel could not be forked into a session".to_owned(),
            };
            refused.insert(name.clone(), why);
        }
        refused
    }

    pub(super) async fn stop_templates(&self) {
        for prepared in self.inner.environments.values() {
            prepared.template.stop().await;
        }
        self.stop_built_templates().await;
        self.end_earlier_templates().await;
    }

    /// What is to be built, with its library and kernel program kept for the images of its kernels.
    pub(super) async fn with_programs(&self, mut build: Build) -> Build {
        if let (true, Ok(images)) = (build.order.images, self.images()) {
            let interpreter = build.order.interpreter.clone();
            let kept = spawn_blocking(move || images.programs.keep(&interpreter)).await;
            match kept.map_err(io::Error::other).flatten() {
                Ok(hash) => build.programs.hash = hash,
                Err(error) => {
                    let lost = "images are refused after an upgrade: programs cannot be kept";
                    tracing::warn!(%error, "{lost}");
                }
            }
        }
        build
    }
}

pub(super) fn info(state: &State) -> TemplateInfo {
    let reason = match state {
        State::Unavailable(reason) => Some(reason.clone()),
        State::Off | State::Building | State::Ready(_) => None,
    };
    TemplateInfo { state: state.name().to_owned(), reason }
}

/// What is to be built, of this interpreter; `home` is where kernels have theirs.
pub(super) fn build(
    wanted: &Environment,
    prepared: &Prepared,
    interpreter: Interpreter,
    home: &Path,
    workdirs: Arc<Workdirs>,
) -> Build {
    let mut env = prepared.env.clone();
    env.insert("MPLBACKEND".to_owned(), "Agg".to_owned());
    env.entry("PATH".to_owned()).or_insert_with(|| one_python::SYSTEM_PATH.to_owned());
    // Python keeps it from its start on (`site.USER_BASE`), and would find it by the template's HOME.
    env.entry("PYTHONUSERBASE".to_owned())
        .or_insert_with(|| home.join(".local").to_string_lossy().into_owned());
    env.extend(ONE_THREAD.map(|name| (name.to_owned(), "1".to_owned())));
    env.entry(ARROW.0.to_owned()).or_insert_with(|| ARROW.1.to_owned());
    if wanted.images {
        env.entry("PYTHONHASHSEED".to_owned()).or_insert_with(|| "0".to_owned());
    }
    let order = StartTemplate {
        protocol_version: PROTOCOL_VERSION,
        interpreter,
        preimport: wanted.preimport.clone(),
        warmup: wanted.warmup.clone(),
        env: env.into_iter().collect(),
        read_only: prepared.plan.applies(Layer::Mounts),
        // Without a root of their own workdirs have another path in each session, which memory remembers.
        images: wanted.images && prepared.plan.applies(Layer::Mounts),
    };
    // The engine's program is linked with the library, and gets its component in the place of that.
    let library = prepared.interpreter.wasm.as_ref().map(|_| prepared.program.shared());
    let programs = Programs { hash: None, library };
    Build { order, programs, workdirs, ids: prepared.session_ids() }
}
