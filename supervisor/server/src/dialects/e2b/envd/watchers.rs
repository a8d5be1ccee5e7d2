//! Watchers that clients ask for news: what has changed since they asked last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Watchers of one sandbox.
const MAX: usize = 16;

/// What is kept for one that is not asked: so many changes, and so many bytes of their names.
const MAX_EVENTS: usize = 1024;
pub(super) const MAX_BYTES: usize = 256 << 10;

/// After so long without being asked, a watcher is removed.
const UNASKED: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Watcher {
    news: News,
    task: JoinHandle<()>,
    asked: Instant,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, Default)]
struct Unread {
    events: VecDeque<(Value, usize)>,
    bytes: usize,
}

/// What has changed. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct News(Arc<Mutex<Unread>>);

impl News {
    fn lock(&self) -> MutexGuard<'_, Unread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds something of this size, in place of the oldest where there is too much.
    pub(super) fn add(&self, event: Value, bytes: usize) {
        let mut unread = self.lock();
        unread.events.push_back((event, bytes));
        unread.bytes += bytes;
        while unread.events.len() > MAX_EVENTS || unread.bytes > MAX_BYTES {
            let Some((_, oldest)) = unread.events.pop_front() else { return };
            unread.bytes -= oldest;
        }
    }

    fn take(&self) -> Vec<Value> {
        let mut unread = self.lock();
        unread.bytes = 0;
        unread.events.drain(..).map(|(event, _)| event).collect()
    }
}

/// The watchers of a sandbox.
#[derive(Debug, Default)]
pub(in super::super) struct Watchers(Mutex<BTreeMap<String, Watcher>>);

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watcher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for one more, after the forgotten ones are removed.
    pub(super) fn has_room(&self) -> bool {
        let mut all = self.lock();
        all.retain(|_, watcher| watcher.asked.elapsed() < UNASKED);
        all.len() < MAX
    }

    /// Keeps a watcher, and gives its id.
    pub(super) fn add(&self, news: News, task: JoinHandle<()>) -> String {
        let id = Uuid::new_v4().to_string();
        let watcher = Watcher { news, task, asked: Instant::now() };
        drop(self.lock().insert(id.clone(), watcher));
        id
    }

    /// What has changed since this was asked last; `None` if there is no such watcher.
    pub(super) fn take(&self, id: &str) -> Option<Vec<Value>> {
        let mut all = self.lock();
        let watcher = all.get_mut(id)?;
        watcher.asked = Instant::now();
        Some(watcher.news.take())
    }

    pub(super) fn remove(&self, id: &str) -> bool {
        self.lock().remove(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_come_once_and_have_a_bound() {
        let watchers = Watchers::default();
        let news = News::default();
        let id = watchers.add(news.clone(), tokio::spawn(std::future::pending()));
        news.add(1.into(), 1);
        assert_eq!(watchers.take(&id), Some(vec![1.into()]));
        assert_eq!(watchers.take(&id), Some(Vec::new()));
        for number in 0..=MAX_EVENTS {
            news.add(number.into(), 1);
        }
        let kept = watchers.take(&id).unwrap();
        assert_eq!((kept.len(), &kept[0]), (MAX_EVENTS, &Value::from(1)));
        for number in 0..5 {
            news.add(number.into(), MAX_BYTES / 2);
        }
        assert_eq!(watchers.take(&id), Some(vec![3.into(), 4.into()]));
        assert!(watchers.remove(&id) && !watchers.remove(&id));
        assert_eq!(watchers.take(&id), None);
    }

    #[tokio::test]
    async fn a_sandbox_has_a_bound_of_watchers() {
        let watchers = Watchers::default();
        for _ in 0..MAX {
            assert!(watchers.has_room());
            drop(watchers.add(News::default(), tokio::spawn(std::future::pending())));
        }
        assert!(!watchers.has_room());
    }
}
