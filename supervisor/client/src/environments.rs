//! Environments that are built: the tenant's own, or, of an administrator, everybody's.

use hyper::Method;
use hyper::header::ACCEPT;
use vivarium_api_types::{
    BuildInfo, BuildRequest, BuiltEnvironmentInfo, BuiltEnvironmentList, CollectReply,
};

use super::execution::EVENT_STREAM;
use super::sse::Decoder;
use super::{ApiRequest, ApiResponse, Client, ClientError, Event, event, path};

/// The largest event of a build's log.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Whose environments are meant.
#[derive(Debug, Clone, Copy)]
pub enum Builder<'a> {
    /// Those of the tenant whose token it is.
    Own,
    /// As an administrator: this tenant's, or the operator's for all.
    Administrator(Option<&'a str>),
}

impl Builder<'_> {
    fn path(self, rest: &[&str]) -> String {
        let root = match self {
            Self::Own => "/v1/environments",
            Self::Administrator(_) => "/v1/admin/environments",
        };
        let mut at = root.to_owned();
        for part in rest {
            at.push('/');
            at.push_str(&path::encode(part));
        }
        if let Self::Administrator(Some(tenant)) = self {
            path::add(&mut at, "tenant", tenant);
        }
        at
    }
}

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// Begins a build.
    pub async fn build_environment(
        &mut self,
        builder: Builder<'_>,
        request: &BuildRequest,
    ) -> Result<BuildInfo, ClientError> {
        self.json(Method::POST, &builder.path(&[]), Some(request)).await
    }

    /// The environments; everybody's of an administrator who names no tenant.
    pub async fn list_environments(
        &mut self,
        builder: Builder<'_>,
    ) -> Result<BuiltEnvironmentList, ClientError> {
        self.call(ApiRequest::new(Method::GET, &builder.path(&[]))).await
    }

    /// An environment.
    pub async fn environment(
        &mut self,
        builder: Builder<'_>,
        name: &str,
    ) -> Result<BuiltEnvironmentInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &builder.path(&[name]))).await
    }

    /// Takes an environment's name away.
    pub async fn remove_environment(
        &mut self,
        builder: Builder<'_>,
        name: &str,
    ) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &builder.path(&[name]))).await
    }

    /// The last build of an environment.
    pub async fn build(
        &mut self,
        builder: Builder<'_>,
        name: &str,
    ) -> Result<BuildInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &builder.path(&[name, "build"]))).await
    }

    /// What the last build of an environment printed.
    pub async fn build_log(
        &mut self,
        builder: Builder<'_>,
        name: &str,
    ) -> Result<ApiResponse, ClientError> {
        self.open(ApiRequest::new(Method::GET, &builder.path(&[name, "build", "log"]))).await
    }

    /// Follows a build: gives each event to `on`, and returns when the build is over.
    pub async fn follow_build(
        &mut self,
        builder: Builder<'_>,
        name: &str,
        mut on: impl FnMut(Event),
    ) -> Result<(), ClientError> {
        let request = ApiRequest::new(Method::GET, &builder.path(&[name, "build"]));
        let mut response = self.open(request.header(ACCEPT, EVENT_STREAM)).await?;
        let mut decoder = Decoder::new(MAX_EVENT_BYTES);
        while let Some(chunk) = response.chunk().await? {
            let broken = |source| ClientError::Events { url: self.url.clone(), source };
            decoder.feed(&chunk).map_err(broken)?;
            while let Some(received) = decoder.next_event() {
                event::read(&received).map_err(broken)?.into_iter().for_each(&mut on);
            }
        }
        Ok(())
    }

    /// Removes what neither a name nor a session has.
    pub async fn collect(&mut self) -> Result<CollectReply, ClientError> {
        self.json::<CollectReply>(Method::POST, "/v1/admin/collect", None::<&()>).await
    }
}
