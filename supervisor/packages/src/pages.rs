//! Pages from upstream, for as long as they are used: so many, and of so many bytes, for all tenants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::page::File;
use crate::url::Url;

/// How long a page is used.
const LIFETIME: Duration = Duration::from_secs(300);

/// The most pages that are kept, and the most bytes of them as they came.
const COUNT_MAX: usize = 256;
const BYTES_MAX: usize = 128 << 20;

/// A tenant, the index, and a project.
pub(crate) type Key = (String, Url, String);

#[derive(Debug)]
struct Page {
    since: Instant,
    bytes: usize,
    files: Arc<Vec<File>>,
}

/// The pages that are kept.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<BTreeMap<Key, Page>>);

impl Pages {
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Vec<File>>> {
        let pages = self.lock();
        let page = pages.get(key).filter(|page| page.since.elapsed() < LIFETIME)?;
        Some(Arc::clone(&page.files))
    }

    /// Keeps a page that came with so many bytes. The oldest go for it.
    pub(crate) fn keep(&self, key: Key, bytes: usize, files: &Arc<Vec<File>>) {
        let mut pages = self.lock();
        pages.remove(&key);
        loop {
            let used: usize = pages.values().map(|page| page.bytes).sum();
            if pages.len() < COUNT_MAX && used.saturating_add(bytes) <= BYTES_MAX {
                break;
            }
            let oldest = pages.iter().min_by_key(|(_, page)| page.since);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            pages.remove(&oldest);
        }
        pages.insert(key, Page { since: Instant::now(), bytes, files: Arc::clone(files) });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Page>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded_in_number_and_bytes() {
        let pages = Pages::default();
        let key =
            |number: usize| ("t".to_owned(), Url::parse("http://a").unwrap(), number.to_string());
        let files = Arc::new(Vec::new());
        for number in 0..COUNT_MAX + 10 {
            pages.keep(key(number), 1, &files);
        }
        assert!(pages.find(&key(9)).is_none() && pages.find(&key(10)).is_some());
        pages.keep(key(0), BYTES_MAX, &files);
        assert!(pages.find(&key(0)).is_some() && pages.lock().len() == 1);
        pages.keep(key(1), BYTES_MAX + 1, &files);
        assert_eq!(pages.lock().len(), 0);
    }
}
