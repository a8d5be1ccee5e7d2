//! Suspending and resuming sessions, and making sessions from others.

use hyper::Method;
use tokio::io::AsyncRead;
use vivarium_api_types::{
    BranchReply, BranchRequest, Checkpoint, CheckpointDiff, CheckpointList, CheckpointRequest,
    ImagePage, ImageableReply, Page, RollbackRequest, SessionInfo, StoredImage,
};

use super::{ApiRequest, ApiResponse, Client, ClientError, path};

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

    /// Which variables are different at a checkpoint from those of another, `from`, or of the one before.
    pub async fn diff_checkpoints(
        &mut self,
        session: &str,
        name: &str,
        from: Option<&str>,
    ) -> Result<CheckpointDiff, ClientError> {
        let mut at = format!("{}/diff", path::checkpoint(session, name));
        if let Some(from) = from {
            path::add(&mut at, "from", from);
        }
        self.call(ApiRequest::new(Method::GET, &at)).await
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

    /// One page of the images of the tenant's suspended sessions.
    pub async fn list_images(&mut self, page: &Page) -> Result<ImagePage, ClientError> {
        let mut at = "/v1/images".to_owned();
        path::add_part(&mut at, page);
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// All images of the tenant's suspended sessions.
    pub async fn all_images(&mut self) -> Result<Vec<StoredImage>, ClientError> {
        let (mut images, mut after) = (Vec::new(), None);
        loop {
            let page = self.list_images(&Page { limit: super::PAGE, after }).await?;
            images.extend(page.images);
            after = page.next;
            if after.is_none() {
                return Ok(images);
            }
        }
    }

    /// The image of a suspended session.
    pub async fn image(&mut self, session: &str) -> Result<StoredImage, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::image(session))).await
    }

    /// Deletes the image of a suspended session, and so the session.
    pub async fn delete_image(&mut self, session: &str) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::image(session))).await
    }

    /// The image of a suspended session, or a checkpoint, as a tar archive of encrypted files.
    pub async fn export_image(
        &mut self,
        session: &str,
        checkpoint: Option<&str>,
    ) -> Result<ApiResponse, ClientError> {
        let mut at = format!("{}/export", path::image(session));
        if let Some(checkpoint) = checkpoint {
            path::add(&mut at, "checkpoint", checkpoint);
        }
        self.open(ApiRequest::new(Method::GET, &at)).await
    }

    /// Makes a suspended session of an image that was exported; `length_bytes` if that is known.
    pub async fn import_image(
        &mut self,
        id: Option<&str>,
        from: impl AsyncRead + Send + 'static,
        length_bytes: Option<u64>,
    ) -> Result<SessionInfo, ClientError> {
        let mut at = "/v1/images".to_owned();
        if let Some(id) = id {
            path::add(&mut at, "id", id);
        }
        let request = ApiRequest::new(Method::POST, &at);
        self.call(request.stream("application/x-tar", from, length_bytes)).await
    }

    /// Whether a session can be suspended now, and what is in the way.
    pub async fn imageable(&mut self, id: &str) -> Result<ImageableReply, ClientError> {
        let at = format!("{}/imageable", path::session(id));
        self.call(ApiRequest::new(Method::GET, &at)).await
    }
}
