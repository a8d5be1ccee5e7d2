//! Where the distributions are that a session asks to be without.
//!
//! Python says it, outside of any sandbox. So it is asked for admitted sessions alone, which have paid for it with a token of
//! their tenant's `session_rate`, for one at a time, and seldom twice for the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use vivarium_packages::name::normalized;
use vivarium_protocol::layer::Layer;

use super::builds::Chosen;
use super::{Engine, EngineError};
use crate::backend::inspect;

/// The most distributions that a request may hide.
const MAX_HIDDEN: usize = 256;

/// How long an answer holds. What is installed meanwhile is not hidden: docs/policies.md.
const KEPT_FOR: Duration = Duration::from_mins(1);

/// The most answers that are kept.
const KEPT: usize = 32;

/// How long to wait for the turn of an inspection, which takes 30 s at most.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// An environment, and the normalized names.
type Key = (String, BTreeSet<String>);

/// Answers, and the turn to ask.
#[derive(Debug)]
pub(super) struct Inspections {
    turn: Arc<Semaphore>,
    kept: Mutex<BTreeMap<Key, (Instant, Vec<PathBuf>)>>,
}

impl Default for Inspections {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), kept: Mutex::default() }
    }
}

impl Inspections {
    fn get(&self, key: &Key) -> Option<Vec<PathBuf>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, paths) = kept.get(key)?;
        (since.elapsed() < KEPT_FOR).then(|| paths.clone())
    }

    fn keep(&self, key: Key, paths: Vec<PathBuf>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (since, _)| since.elapsed() < KEPT_FOR);
        if kept.len() < KEPT {
            kept.insert(key, (Instant::now(), paths));
        }
    }
}

fn refused(reason: impl ToString) -> EngineError {
    EngineError::invalid("hidden", reason)
}

impl Engine {
    /// Refuses what no session of this environment can be without, as far as that is known without asking Python.
    pub(super) fn check_hidden(
        &self,
        chosen: &Chosen,
        names: &[String],
    ) -> Result<(), EngineError> {
        if names.is_empty() {
            return Ok(());
        }
        if names.len() > MAX_HIDDEN {
            return Err(refused(format!("over the maximum of {MAX_HIDDEN} names")));
        }
        if let Some(bad) = names.iter().find(|name| normalized(name).is_none()) {
            let shown: String = bad.chars().take(64).collect();
            return Err(refused(format!("{shown:?} is not a distribution's name")));
        }
        if chosen.built.is_some() {
            return Err(refused(
                "a built environment has what was asked for: build one without it",
            ));
        }
        if !self.environment(&chosen.base)?.plan.applies(Layer::Mounts) {
            return Err(refused("it needs the mounts layer, which is missing here"));
        }
        Ok(())
    }

    /// Where they are, besides those that the environment is without itself.
    pub(super) async fn find_hidden(
        &self,
        environment: &str,
        names: &[String],
    ) -> Result<Vec<PathBuf>, EngineError> {
        let inspections = &self.inner.inspections;
        let wanted: BTreeSet<_> = names.iter().filter_map(|name| normalized(name)).collect();
        let key = (environment.to_owned(), wanted);
        if let Some(paths) = inspections.get(&key) {
            return Ok(paths);
        }
        let unavailable = |why: &dyn std::fmt::Display| {
            EngineError::EnvironmentsUnavailable(format!(
                "environment {environment:?} does not say where its distributions are: {why}"
            ))
        };
        let turn = timeout(TURN_WITHIN, Arc::clone(&inspections.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(unavailable(&"other sessions ask it too"));
        };
        if let Some(paths) = inspections.get(&key) {
            return Ok(paths);
        }
        let path = self.environment(environment)?.interpreter.path.clone();
        let agent = self.settings().agent_binary.clone();
        let asked: Vec<_> = key.1.iter().cloned().collect();
        // To its end, even if the client goes: until then it is somebody's turn.
        let answer = tokio::spawn(async move {
            let answer = inspect::distributions(&agent, &path, &asked).await;
            drop(turn);
            answer
        });
        let found = answer.await.map_err(|error| unavailable(&error))?;
        let found = found.map_err(|error| unavailable(&error))?;
        if let Some(missing) = found.missing.first() {
            let is_it = |name: &&String| normalized(name).as_ref() == Some(missing);
            let name = names.iter().find(is_it).unwrap_or(missing);
            return Err(refused(format!(
                "environment {environment:?} has no {name:?} that tells which files are its own"
            )));
        }
        inspections.keep(key, found.hidden.clone());
        Ok(found.hidden)
    }
}

#[cfg(test)]
mod tests;
