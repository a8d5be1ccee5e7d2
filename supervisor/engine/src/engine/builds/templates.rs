//! The templates of built environments: of the operator's that are hash-locked, and of no others.
//!
//! A template is outside of sessions, so what its Python imports and what `.pth` files say runs there. It
//! must never be a tenant's choice, nor what a build could have put in by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use vivarium_protocol::error_chain;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::policy::Interpreter;

use super::super::environment::Prepared;
use super::super::{Engine, templates};
use super::Builds;
use crate::artefacts::{Artefact, Owner};
use crate::settings::Settings;
use crate::template::Template;

/// The template of a name of the operator's.
#[derive(Debug, Clone)]
pub(super) struct BuiltTemplate {
    /// Of the artefact. Not the artefact itself, which would never be removed.
    data: PathBuf,
    template: Arc<Template>,
}

impl Builds {
    fn templates(&self) -> MutexGuard<'_, BTreeMap<String, BuiltTemplate>> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Has the templates that there are to be, and no others. One is replaced when its name stands for
    /// something else; it is gone before what it has read can be removed.
    pub(in crate::engine) async fn arrange_built_templates(&self) {
        let builds = &self.inner.builds;
        let turn = builds.arranging.lock().await;
        if self.is_draining() {
            return; // They go last: `stop_built_templates`.
        }
        let settings = self.settings();
        let wanted = self.wanted(&settings);
        let stays = |name: &String, built: &BuiltTemplate| {
            wanted.get(name).is_some_and(|(artefact, _)| artefact.data() == built.data)
        };
        let gone: Vec<_> = builds.templates().extract_if(.., |name, it| !stays(name, it)).collect();
        for (_, built) in gone {
            built.template.stop().await;
        }
        for (name, (artefact, prepared)) in &wanted {
            let host = &self.inner.host;
            let configured = settings.environments.get(&artefact.record.base);
            let (workdirs, Some(configured)) = (host.workdirs(), configured) else { continue };
            let workdirs = match workdirs {
                Ok(workdirs) => workdirs,
                Err(error) => {
                    tracing::warn!(environment = name, error = error_chain(&error), "no template");
                    continue;
                }
            };
            let interpreter =
                Interpreter { path: artefact.interpreter(), ..prepared.interpreter.clone() };
            let home = &settings.sandbox.workdir;
            let order = templates::build(configured, prepared, interpreter, home, workdirs);
            let order = self.with_programs(order).await;
            let template = {
                let mut templates = builds.templates();
                let built = templates.entry(name.clone()).or_insert_with(|| BuiltTemplate {
                    data: artefact.data(),
                    template: Arc::new(Template::new(name)),
                });
                Arc::clone(&built.template)
            };
            template.build(&host.backend, &host.metrics, order);
        }
        drop(turn);
    }

    /// Ends them all, when there are to be no more.
    pub(in crate::engine) async fn stop_built_templates(&self) {
        let builds = &self.inner.builds;
        let turn = builds.arranging.lock().await;
        let all = std::mem::take(&mut *builds.templates());
        for built in all.into_values() {
            built.template.stop().await;
        }
        drop(turn);
    }

    /// The operator's environments that get a template, by name.
    fn wanted(&self, settings: &Settings) -> BTreeMap<String, (Arc<Artefact>, &Prepared)> {
        let Some(artefacts) = self.inner.builds.artefacts.get() else { return BTreeMap::new() };
        let found = artefacts.names_of(&Owner::Operator).into_iter().filter_map(|name| {
            let artefact = artefacts.find(&Owner::Operator, &name)?.artefact;
            let prepared = self.base_of(&name, &artefact).ok()?;
            let configured = settings.environments.get(&artefact.record.base)?;
            let can_be = artefact.record.hash_locked
                && configured.template
                && prepared.plan.applies(Layer::Namespaces)
                && !is_shown(prepared, &artefact.data());
            can_be.then_some((name, (artefact, prepared)))
        });
        found.collect()
    }

    /// The template of a built environment, if it gets one: of exactly this one, and not of what its name
    /// stands for by now.
    pub(in crate::engine) fn built_template(
        &self,
        name: &str,
        artefact: &Artefact,
    ) -> Option<Arc<Template>> {
        let templates = self.inner.builds.templates();
        let built = templates.get(name).filter(|built| built.data == artefact.data())?;
        Some(Arc::clone(&built.template))
    }

    /// The template of what a name stands for.
    pub(in crate::engine) fn built_template_of(&self, name: &str) -> Option<Arc<Template>> {
        self.inner.builds.templates().get(name).map(|built| Arc::clone(&built.template))
    }

    /// The states of all of them, by name.
    pub(in crate::engine) fn built_template_states(&self) -> Vec<(String, &'static str)> {
        let templates = self.inner.builds.templates();
        templates.iter().map(|(name, it)| (name.clone(), it.template.state().name())).collect()
    }
}

/// Whether sessions see something of the host where the environment is there: the path can not lead to
/// their own place for it.
fn is_shown(prepared: &Prepared, data: &Path) -> bool {
    let shown = prepared.interpreter.prefixes.iter().chain(&prepared.read_paths);
    shown.map(PathBuf::as_path).chain([Path::new("/usr")]).any(|outer| data.starts_with(outer))
}
