//! Requests of sessions, and what they get.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cache::{Cache, Stored};
use crate::fetch::{self, Fetch, FetchError};
use crate::links::Links;
use crate::name;
use crate::page::{self, File, JSON};
use crate::pages::Pages;
use crate::source::Source;
use crate::turns::Turns;
use crate::url::Url;

/// The most bytes of a page. The largest of PyPI have some 10 MB.
const PAGE_MAX_BYTES: usize = 24 << 20;

/// How many pages of a tenant are worked on or sent at one time: what they take of the memory.
const PAGES_MAX: usize = 8;

/// How many files a tenant has fetched at one time.
const FETCHES_MAX: usize = 4;

/// The most bytes of a file of metadata.
const METADATA_MAX_BYTES: usize = 8 << 20;

/// What is sent.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Content-Type`
    pub content_type: &'static str,
    /// The body.
    pub content: Content,
    /// Held as long as a page is in memory.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    /// Text.
    Text(String),
    /// A file.
    File(Stored),
}

impl Answer {
    fn text(status: u16, text: impl Into<String>) -> Self {
        let content = Content::Text(text.into());
        Self { status, content_type: "text/plain; charset=utf-8", content, _permit: None }
    }

    fn file(stored: Stored) -> Self {
        let content_type = "application/octet-stream";
        Self { status: 200, content_type, content: Content::File(stored), _permit: None }
    }
}

/// Permits of tenants.
type Permits = Mutex<BTreeMap<String, Arc<Semaphore>>>;

/// The index of all tenants. Each has its own pages and its own part of the cache.
#[derive(Debug)]
pub struct Index {
    cache: Option<Cache>,
    links: Links,
    pages: Pages,
    page_permits: Permits,
    file_permits: Permits,
    turns: Turns,
}

impl Index {
    /// An index that keeps files in this cache. Without one, files from upstream are not served.
    #[must_use]
    pub fn new(cache: Option<Cache>) -> Self {
        Self {
            cache,
            links: Links::default(),
            pages: Pages::default(),
            page_permits: Permits::default(),
            file_permits: Permits::default(),
            turns: Turns::default(),
        }
    }

    /// Answers a request of a session of this tenant for a path, by `GET` or `HEAD`. `accept` is the request's
    /// header.
    ///
    /// Reads and writes files where it runs.
    pub async fn answer(
        &self,
        tenant: &str,
        source: &Source,
        path: &str,
        accept: &str,
        fetch: &impl Fetch,
    ) -> Answer {
        let Some(path) = decoded(path.split('?').next().unwrap_or_default()) else {
            return Answer::text(400, "not a path of the index\n");
        };
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let outcome = match *parts.as_slice() {
            ["simple", project] | ["simple", project, ""] => {
                self.page(tenant, source, project, accept, fetch).await
            }
            ["files", project, file] => self.file(tenant, source, project, file, fetch).await,
            _ => return Answer::text(404, "the index has /simple/<project>/\n"),
        };
        match outcome {
            Ok(Some(answer)) => answer,
            Ok(None) | Err(FetchError::Status(404 | 410)) => Answer::text(404, "not found\n"),
            Err(error) => Answer::text(502, format!("{error}\n")),
        }
    }

    async fn page(
        &self,
        tenant: &str,
        source: &Source,
        project: &str,
        accept: &str,
        fetch: &impl Fetch,
    ) -> Result<Option<Answer>, FetchError> {
        let Some(project) = name::normalized(project) else { return Ok(None) };
        let permit = permit(&self.page_permits, tenant, PAGES_MAX).await;
        let local = self.links.files(&source.find_links, &project).await?;
        let files = if local.is_empty() {
            match self.upstream(tenant, source, &project, fetch).await? {
                Some(files) => files,
                None => return Ok(None),
            }
        } else {
            Arc::new(local.into_iter().map(|(file, _)| file).collect())
        };
        let is_json = accept.contains(JSON);
        let (content_type, text) = if is_json {
            (JSON, page::to_json(&project, &files))
        } else {
            ("text/html; charset=utf-8", page::to_html(&project, &files))
        };
        let content = Content::Text(text);
        Ok(Some(Answer { status: 200, content_type, content, _permit: permit }))
    }

    /// The files of a project upstream; `None` if there is no upstream.
    async fn upstream(
        &self,
        tenant: &str,
        source: &Source,
        project: &str,
        fetch: &impl Fetch,
    ) -> Result<Option<Arc<Vec<File>>>, FetchError> {
        let Some(index) = &source.index_url else { return Ok(None) };
        let key = (tenant.to_owned(), index.clone(), project.to_owned());
        if let Some(files) = self.pages.find(&key) {
            return Ok(Some(files));
        }
        let of_index = index.to_string();
        let url = format!("{}/{project}/", of_index.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|error| FetchError::Connect(error.to_string()))?;
        let (url, answer) = fetch::follow(fetch, &url, page::ACCEPT).await?;
        let is_json = answer.content_type.as_deref().is_some_and(|kind| kind.contains("json"));
        let body = fetch::whole(answer.body, PAGE_MAX_BYTES).await?;
        let files = page::read(project, &url, is_json, &body)
            .map_err(|error| FetchError::Broken(error.to_string()))?;
        let files = Arc::new(files);
        self.pages.keep(key, body.len(), &files);
        Ok(Some(files))
    }

    async fn file(
        &self,
        tenant: &str,
        source: &Source,
        project: &str,
        asked: &str,
        fetch: &impl Fetch,
    ) -> Result<Option<Answer>, FetchError> {
        let wanted = asked.strip_suffix(name::METADATA).unwrap_or(asked);
        if name::project_of(wanted).as_deref() != Some(project) {
            return Ok(None);
        }
        let local = self.links.files(&source.find_links, project).await?;
        if !local.is_empty() {
            let found = local.iter().find(|(file, _)| file.name == asked);
            let stored = found.and_then(|(_, path)| Stored::open(path).ok());
            return Ok(stored.map(Answer::file));
        }
        let permit = permit(&self.page_permits, tenant, PAGES_MAX).await;
        let Some(files) = self.upstream(tenant, source, project, fetch).await? else {
            return Ok(None);
        };
        let Some(file) = files.iter().find(|file| file.name == wanted) else { return Ok(None) };
        let (file, Some(url)) = (file.clone(), file.url.clone()) else { return Ok(None) };
        drop((files, permit));
        if wanted == asked {
            self.fetched(tenant, &file, &url, fetch).await.map(Some)
        } else {
            self.metadata(&file, &url, fetch).await
        }
    }

    async fn fetched(
        &self,
        tenant: &str,
        file: &File,
        url: &Url,
        fetch: &impl Fetch,
    ) -> Result<Answer, FetchError> {
        let cache = self.cache.as_ref().ok_or(FetchError::NoCache)?;
        let kept = || cache.find(tenant, file.hash.as_ref()?);
        if let Some(stored) = kept() {
            return Ok(Answer::file(stored));
        }
        let turn = file.hash.as_ref().map(|hash| self.turns.of(tenant, &hash.to_string()));
        let taken = match &turn {
            Some(turn) => turn.wait().await,
            None => None,
        };
        let permit = permit(&self.file_permits, tenant, FETCHES_MAX).await;
        if let Some(stored) = kept() {
            return Ok(Answer::file(stored));
        }
        let (_, answer) = fetch::follow(fetch, url, "*/*").await?;
        let stored = cache.store(tenant, file.hash.as_ref(), answer.body).await?;
        drop((taken, permit));
        Ok(Answer::file(stored))
    }

    /// The metadata of a wheel (PEP 658), which is small: not kept.
    async fn metadata(
        &self,
        file: &File,
        url: &Url,
        fetch: &impl Fetch,
    ) -> Result<Option<Answer>, FetchError> {
        let Some(hash) = &file.metadata else { return Ok(None) };
        let url = Url::parse(&format!("{url}{}", name::METADATA))
            .map_err(|error| FetchError::Connect(error.to_string()))?;
        let (_, answer) = fetch::follow(fetch, &url, "*/*").await?;
        let body = fetch::whole(answer.body, METADATA_MAX_BYTES).await?;
        let mut hasher = crate::hash::Hasher::like(Some(hash));
        hasher.update(&body);
        if hasher.finish() != *hash {
            return Err(FetchError::Hash);
        }
        let text = String::from_utf8(body)
            .map_err(|_| FetchError::Broken("metadata that is not UTF-8".to_owned()))?;
        Ok(Some(Answer::text(200, text)))
    }
}

/// One of a tenant's permits. They are never closed.
async fn permit(all: &Permits, tenant: &str, most: usize) -> Option<OwnedSemaphorePermit> {
    let own = {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(tenant.to_owned());
        Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(most))))
    };
    own.acquire_owned().await.ok()
}

/// A path with its percent-encoding undone; `None` if that is malformed, or hides a byte that names never have.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let value = u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
            if value == b'/' || !(0x20..0x7f).contains(&value) {
                return None;
            }
            bytes.push(value);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
