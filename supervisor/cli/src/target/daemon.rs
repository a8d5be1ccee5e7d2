//! Requests to a daemon, and what its errors mean for the exit code.

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use vivarium_api_types::{SessionInfo, SessionPage};
use vivarium_client::{ApiRequest, Client, ClientError, Method, Remote};
use vivarium_protocol::error_chain;

use crate::exit::{Exit, Failure};
use crate::options;

pub(crate) async fn request<T: DeserializeOwned>(
    client: &mut Client,
    method: Method,
    path: &str,
) -> Result<T, Failure> {
    Ok(client.call(ApiRequest::new(method, path)).await?)
}

pub(super) async fn post<T: DeserializeOwned>(
    remote: &Remote,
    path: &str,
    body: &(impl Serialize + Sync),
) -> Result<T, Failure> {
    Ok(Client::new(remote.clone()).json(Method::POST, path, Some(body)).await?)
}

/// Sends a request about a session and ignores the body of the response. `action` follows the
/// session's path.
pub(super) async fn act(
    remote: &Remote,
    method: Method,
    session: &str,
    action: &str,
) -> Result<(), Failure> {
    let path = format!("{}{action}", session_path(session));
    request(&mut Client::new(remote.clone()), method, &path).await.map(|_: IgnoredAny| ())
}

/// The tenant's sessions: all, or the first pages that have `enough`.
pub(crate) async fn list_sessions(
    client: &mut Client,
    enough: usize,
) -> Result<Vec<SessionInfo>, ClientError> {
    let mut sessions = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/sessions?limit=1000{after}");
        let page: SessionPage = client.call(ApiRequest::new(Method::GET, &path)).await?;
        sessions.extend(page.sessions);
        match page.next {
            Some(next) if sessions.len() < enough => {
                after = format!("&after={}", percent_encode(&next));
            }
            _ => return Ok(sessions),
        }
    }
}

/// The path of a session. Any id stays one component; the daemon refuses invalid ones.
pub(crate) fn session_path(session: &str) -> String {
    format!("/v1/sessions/{}", percent_encode(session))
}

/// Encodes text as one component of a path, or one value of a query.
pub(super) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        // RFC 3986, 2.3: unreserved, without the full stop, which alone means a directory.
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Problem { status, .. } if status.as_u16() == 401 => {
                let about = if options::token().is_some() {
                    "what VIVARIUM_TOKEN holds is no token of its tenants (any more)"
                } else {
                    "it has tenants: set VIVARIUM_TOKEN to the token of one"
                };
                return Self::says(Exit::Usage, format!("the daemon refused: {about}"));
            }
            ClientError::Connect { .. } => {
                let why = error_chain(&error);
                let hint = "is the daemon running? `vivarium serve` starts one; without --url and \
                            VIVARIUM_URL, `run` and `repl` need none";
                return Self::says(Exit::Unavailable, format!("{why}; {hint}"));
            }
            ClientError::Http { .. } => Exit::Unavailable,
            ClientError::Problem { status, .. } if [429, 503].contains(&status.as_u16()) => {
                Exit::Unavailable
            }
            ClientError::Problem { status, .. } if [400, 413, 422].contains(&status.as_u16()) => {
                Exit::Usage
            }
            _ => Exit::Error,
        };
        Self::new(exit, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_stays_one_component_of_the_path() {
        assert_eq!(session_path("a-B_9"), "/v1/sessions/a-B_9");
        assert_eq!(session_path("../x?y"), "/v1/sessions/%2E%2E%2Fx%3Fy");
    }
}
