//! Suspending and resuming sessions, and making sessions from others.

use hyper::Method;
use vivarium_api_types::{
    BranchReply, BranchRequest, Checkpoint, CheckpointList, CheckpointRequest, ImageableReply,
    RollbackRequest, SessionInfo,
};

use super::{ApiRequest, Client, ClientError, path};

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// Suspends a session; returns when its image is on disk and its processes are gone.
    pub async fn suspend_session(&mut self, id: &str) -> Result<SessionInfo, ClientError> {
        self.act(id, "suspend").await
    }

    /// Resumes a session; one that is not suspended stays as it is.
    pub async fn resume_session(&mut self, id: &str) -> Result<SessionInfo, ClientError> {
        self.act(id, "resume").await
    }

    /// Makes sessions from the state of one; returns when all are ready.
    pub async fn branch_session(
        &mut self,
        id: &str,
        request: &BranchRequest,
    ) -> Result<BranchReply, ClientError> {
        let at = format!("{}/branch", path::session(id));
        self.json(Method::POST, &at, Some(request)).await
    }

    /// Keeps what a session is now, to go back to.
    pub async fn make_checkpoint(
        &mut self,
        session: &str,
        request: &CheckpointRequest,
    ) -> Result<Checkpoint, ClientError> {
        self.json(Method::POST, &path::checkpoints(session), Some(request)).await
    }

    /// The checkpoints of a session, the oldest first.
    pub async fn list_checkpoints(&mut self, session: &str) -> Result<CheckpointList, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::checkpoints(session))).await
    }

    /// Deletes a checkpoint.
    pub async fn delete_checkpoint(
        &mut self,
        session: &str,
        name: &str,
    ) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::checkpoint(session, name))).await
    }

    /// Has a session be what it was at a checkpoint; what runs in it ends.
    pub async fn roll_back(
        &mut self,
        session: &str,
        request: &RollbackRequest,
    ) -> Result<SessionInfo, ClientError> {
        let at = format!("{}/rollback", path::session(session));
        self.json(Method::POST, &at, Some(request)).await
    }

    /// Whether a session can be suspended now, and what is in the way.
    pub async fn imageable(&mut self, id: &str) -> Result<ImageableReply, ClientError> {
        let at = format!("{}/imageable", path::session(id));
        self.call(ApiRequest::new(Method::GET, &at)).await
    }
}
