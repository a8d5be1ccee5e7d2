//! Templates of the library and kernel program that an earlier Vivarium had, for sessions that were suspended under it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::timeout;
use vivarium_audit::Hash;

use super::super::{Engine, EngineError};
use super::blocked;
use super::wake::cannot;
use crate::images::{Images, Record};
use crate::session::Session;
use crate::template::{Programs, State, Template};

/// How long a session that is resumed waits for its template.
const TEMPLATE_WITHIN: Duration = Duration::from_secs(60);

/// How long one stays that no session has.
const UNUSED_FOR: Duration = Duration::from_secs(60);

/// By environment and programs.
type Place = (String, Hash);

/// Each with when it was last asked for.
#[derive(Debug, Default)]
pub(in crate::engine) struct EarlierTemplates(Mutex<BTreeMap<Place, (Arc<Template>, Instant)>>);

impl EarlierTemplates {
    fn get(&self, place: &Place) -> Option<Arc<Template>> {
        let mut all = self.lock();
        let (template, asked_for) = all.get_mut(place)?;
        *asked_for = Instant::now();
        Some(Arc::clone(template))
    }

    /// A template that is to be built, unless somebody was faster.
    fn begin(&self, place: &Place) -> Arc<Template> {
        let new = || (Arc::new(Template::new(&place.0)), Instant::now());
        let mut all = self.lock();
        Arc::clone(&all.entry(place.clone()).or_insert_with(new).0)
    }

    /// Ends those of which this is true, by their programs and when they were last asked for.
    async fn end(&self, mut is_over: impl FnMut(&Place, &Instant) -> bool) {
        let over: Vec<_> =
            self.lock().extract_if(.., |place, (_, at)| is_over(place, at)).collect();
        for (_, (template, _)) in over {
            template.stop().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, (Arc<Template>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The template that a kernel has to be forked from to become what an image is of, unless it is the environment's
    /// own. Waits until it is ready.
    pub(super) async fn earlier_template(
        &self,
        images: &Arc<Images>,
        record: &Record,
    ) -> Result<Option<Arc<Template>>, EngineError> {
        let environment = &record.info.environment;
        let Some(own) = self.template_of(environment) else { return Ok(None) };
        // Without one the kernel would be executed, and could not become another.
        let settled = timeout(TEMPLATE_WITHIN, own.settled()).await;
        drop(settled);
        let (Some(needed), Some(mut build)) = (record.programs, own.wanted()) else {
            return Ok(None);
        };
        if build.programs.hash.is_none_or(|installed| installed == needed) {
            return Ok(None);
        }
        let (earlier, place) = (&self.inner.earlier_templates, (environment.clone(), needed));
        let template = if let Some(known) = earlier.get(&place) {
            known
        } else {
            let (store, python) = (Arc::clone(images), build.order.interpreter.version.clone());
            let kept = spawn_blocking(move || store.programs.read(&needed, &python)).await;
            let kept = blocked(kept)?.map_err(cannot)?;
            build.order.interpreter.program = Arc::new(kept.program.into());
            let library = Some(Arc::new(kept.library));
            build.programs = Programs { hash: Some(needed), library };
            let template = earlier.begin(&place);
            let host = &self.inner.host;
            template.build(&host.backend, &host.metrics, build);
            tracing::info!(environment, programs = %needed, "a template of an earlier Vivarium");
            template
        };
        match timeout(TEMPLATE_WITHIN, template.settled()).await {
            Ok(State::Ready(_)) => Ok(Some(template)),
            _ => {
                earlier.end(|other, _| *other == place).await;
                let why = "no template of the Vivarium that it was suspended under can be had, as the log explains";
                Err(cannot(why))
            }
        }
    }

    /// The template of an environment of the operator's.
    fn template_of(&self, environment: &str) -> Option<Arc<Template>> {
        let configured = self.inner.environments.get(environment);
        let configured = configured.map(|prepared| Arc::clone(&prepared.template));
        configured.or_else(|| self.built_template_of(environment))
    }

    /// Ends those that no session has had for a while.
    pub(super) async fn end_unused_templates(&self) {
        let sessions = self.inner.registry.all();
        let programs = |session: &Arc<Session>| session.template_memory()?.programs();
        let used: BTreeSet<_> = sessions.iter().filter_map(programs).collect();
        let is_over = |(_, programs): &Place, asked_for: &Instant| {
            !used.contains(programs) && asked_for.elapsed() > UNUSED_FOR
        };
        self.inner.earlier_templates.end(is_over).await;
    }

    pub(in crate::engine) async fn end_earlier_templates(&self) {
        self.inner.earlier_templates.end(|_, _| true).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_template_is_there_once_until_it_is_ended() {
        let templates = EarlierTemplates::default();
        let places = [b"one", b"two"].map(|programs| ("default".to_owned(), Hash::of(programs)));
        let [one, two] = &places;
        let begun = templates.begin(one);
        assert!(Arc::ptr_eq(&begun, &templates.begin(one)));
        assert!(Arc::ptr_eq(&begun, &templates.get(one).unwrap()));
        assert!(templates.get(two).is_none());
        drop(templates.begin(two));
        templates.end(|place, _| place == two).await;
        assert!(templates.get(two).is_none());
        assert!(templates.get(one).is_some());
    }
}
