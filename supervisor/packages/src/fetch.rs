//! How upstream is asked. What connects is the gate's, with its checks of names and addresses.

use std::future::Future;

use crate::url::Url;

/// The most redirects that are followed.
const REDIRECTS_MAX: usize = 5;

/// The head of an answer, and its body to come.
#[derive(Debug)]
pub struct Fetched<B> {
    /// The status.
    pub status: u16,
    /// `Content-Type`
    pub content_type: Option<String>,
    /// `Location`
    pub location: Option<String>,
    /// The body.
    pub body: B,
}

/// A body, as its bytes come.
pub trait Body: Send {
    /// The next bytes; `None` at the end of a whole body.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, FetchError>> + Send;
}

/// Makes `GET` requests.
pub trait Fetch: Send + Sync {
    /// What it has of a body.
    type Body: Body;

    /// Asks for `url`. Follows no redirect.
    fn get(
        &self,
        url: &Url,
        accept: &str,
    ) -> impl Future<Output = Result<Fetched<Self::Body>, FetchError>> + Send;
}

/// Why there is nothing from upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The connection failed, or was refused.
    #[error("the index does not answer: {0}")]
    Connect(String),
    /// The connection broke.
    #[error("the index's answer is not whole: {0}")]
    Broken(String),
    /// Another status than 200.
    #[error("the index answers {0}")]
    Status(u16),
    /// A redirect to nowhere, to a plain connection from an encrypted one, or one too many.
    #[error("the index redirects to where nobody follows")]
    Redirect,
    /// The answer is longer than it may be.
    #[error("the index's answer is longer than {0} bytes")]
    TooLong(u64),
    /// Not what the page says.
    #[error("a file has not the hash that the index gives")]
    Hash,
    /// It cannot be kept.
    #[error("the cache of packages: {0}")]
    Cache(String),
    /// There is no cache to keep it in.
    #[error("the gate has no cache for packages: the daemon's log says why")]
    NoCache,
    /// A directory of the operator's cannot be read.
    #[error("a directory of wheels cannot be read: {0}")]
    Links(std::io::ErrorKind),
}

/// Asks for `url` and follows redirects. Where the answer came from, and the answer, of status 200.
///
/// # Errors
/// [`FetchError`].
pub async fn follow<F: Fetch>(
    fetch: &F,
    url: &Url,
    accept: &str,
) -> Result<(Url, Fetched<F::Body>), FetchError> {
    let mut url = url.clone();
    for _ in 0..=REDIRECTS_MAX {
        let answer = fetch.get(&url, accept).await?;
        match (answer.status, &answer.location) {
            (200, _) => return Ok((url, answer)),
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                let next = url.join(location).map_err(|_| FetchError::Redirect)?;
                if url.is_https() && !next.is_https() {
                    return Err(FetchError::Redirect);
                }
                url = next;
            }
            (status, _) => return Err(FetchError::Status(status)),
        }
    }
    Err(FetchError::Redirect)
}

/// All of a body, if it has at most `max` bytes.
///
/// # Errors
/// [`FetchError`].
pub async fn whole(mut body: impl Body, max: usize) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    while let Some(next) = body.next().await? {
        if bytes.len().saturating_add(next.len()) > max {
            return Err(FetchError::TooLong(u64::try_from(max).unwrap_or(u64::MAX)));
        }
        bytes.extend_from_slice(&next);
    }
    Ok(bytes)
}
