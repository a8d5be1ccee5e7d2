//! Sessions, and the daemon itself.

use hyper::Method;
use vivarium_api_types::{
    AssistReply, HostInfo, InterruptReply, KeepaliveReply, PreviewReply, PreviewRequest,
    ResetReply, SessionInfo, SessionPage, SessionPatch, SessionQuery, SessionSpec, TenantList,
};

use super::{ApiRequest, Client, ClientError, path};

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// What the host offers, and how much of it is left.
    pub async fn host(&mut self) -> Result<HostInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, "/v1/host")).await
    }

    /// What every tenant uses.
    pub async fn tenants(&mut self) -> Result<TenantList, ClientError> {
        self.call(ApiRequest::new(Method::GET, "/metrics/tenants")).await
    }

    /// Creates a session; returns when its kernel is ready.
    pub async fn create_session(&mut self, spec: &SessionSpec) -> Result<SessionInfo, ClientError> {
        self.json(Method::POST, "/v1/sessions", Some(spec)).await
    }

    /// A session, with what its processes and files take.
    pub async fn session(&mut self, id: &str) -> Result<SessionInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::session(id))).await
    }

    /// One page of the sessions that the query asks for.
    pub async fn list_sessions(
        &mut self,
        query: &SessionQuery,
    ) -> Result<SessionPage, ClientError> {
        let mut at = "/v1/sessions".to_owned();
        path::add_part(&mut at, &query.page);
        for state in &query.state {
            path::add(&mut at, "state", <&str>::from(state));
        }
        for (key, value) in &query.metadata {
            path::add(&mut at, &format!("metadata[{key}]"), value);
        }
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// The sessions that the query asks for: all, or the first pages that have `enough`.
    pub async fn all_sessions(
        &mut self,
        mut query: SessionQuery,
        enough: usize,
    ) -> Result<Vec<SessionInfo>, ClientError> {
        let mut sessions = Vec::new();
        query.page.limit = super::PAGE;
        loop {
            let page = self.list_sessions(&query).await?;
            sessions.extend(page.sessions);
            query.page.after = page.next;
            if query.page.after.is_none() || sessions.len() >= enough {
                return Ok(sessions);
            }
        }
    }

    /// Changes a session as a merge patch says.
    pub async fn update_session(
        &mut self,
        id: &str,
        patch: &SessionPatch,
    ) -> Result<SessionInfo, ClientError> {
        self.json(Method::PATCH, &path::session(id), Some(patch)).await
    }

    /// Deletes a session; returns when nothing of it is left.
    pub async fn delete_session(&mut self, id: &str) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::session(id))).await
    }

    /// Interrupts what runs; returns when it has ended, at the latest after the configured grace.
    pub async fn interrupt(&mut self, id: &str) -> Result<InterruptReply, ClientError> {
        self.act(id, "interrupt").await
    }

    /// Replaces a session's kernel.
    pub async fn reset(&mut self, id: &str) -> Result<ResetReply, ClientError> {
        self.act(id, "reset").await
    }

    /// Restarts a session's idle timeout.
    pub async fn keepalive(&mut self, id: &str) -> Result<KeepaliveReply, ClientError> {
        self.act(id, "keepalive").await
    }

    /// A URL that shows a server in a session to a browser.
    pub async fn create_preview(
        &mut self,
        id: &str,
        port: u16,
    ) -> Result<PreviewReply, ClientError> {
        let at = format!("{}/previews", path::session(id));
        self.json(Method::POST, &at, Some(&PreviewRequest { port })).await
    }

    /// Asks a session's kernel about code: for completions, a description, or whether it is complete.
    pub async fn assist<T: AssistReply>(
        &mut self,
        id: &str,
        request: &T::Request,
    ) -> Result<T, ClientError> {
        let at = format!("{}/{}", path::session(id), <&str>::from(T::KIND));
        self.json(Method::POST, &at, Some(request)).await
    }

    pub(super) async fn act<T: serde::de::DeserializeOwned>(
        &mut self,
        id: &str,
        action: &str,
    ) -> Result<T, ClientError> {
        let at = format!("{}/{action}", path::session(id));
        self.call(ApiRequest::new(Method::POST, &at)).await
    }
}
