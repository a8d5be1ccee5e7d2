//! Contexts: the kernels of a session.

use hyper::Method;
use vivarium_api_types::{ContextInfo, ContextList, ContextSpec, InterruptReply, ResetReply};

use super::{ApiRequest, Client, ClientError, path};

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// The contexts of a session, `main` first.
    pub async fn list_contexts(&mut self, session: &str) -> Result<ContextList, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::contexts(session))).await
    }

    /// Opens a context; returns when its kernel is ready.
    pub async fn open_context(
        &mut self,
        session: &str,
        spec: &ContextSpec,
    ) -> Result<ContextInfo, ClientError> {
        self.json(Method::POST, &path::contexts(session), Some(spec)).await
    }

    /// A context, with what it runs.
    pub async fn context(&mut self, session: &str, id: &str) -> Result<ContextInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::context(session, id))).await
    }

    /// Deletes a context other than `main`; returns when nothing of it is left.
    pub async fn delete_context(&mut self, session: &str, id: &str) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::context(session, id))).await
    }

    /// Replaces a context's kernel.
    pub async fn reset_context(
        &mut self,
        session: &str,
        id: &str,
    ) -> Result<ResetReply, ClientError> {
        let at = format!("{}/reset", path::context(session, id));
        self.call(ApiRequest::new(Method::POST, &at)).await
    }

    /// Interrupts what a context runs; returns when it has ended, at the latest after the configured
    /// grace.
    pub async fn interrupt_context(
        &mut self,
        session: &str,
        id: &str,
    ) -> Result<InterruptReply, ClientError> {
        let at = format!("{}/interrupt", path::context(session, id));
        self.call(ApiRequest::new(Method::POST, &at)).await
    }
}
