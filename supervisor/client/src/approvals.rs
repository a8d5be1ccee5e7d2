//! Calls that wait for approval.

use hyper::Method;
use vivarium_api_types::{ApprovalInfo, ApprovalPage, ApprovalQuery, DecideRequest};

use super::{ApiRequest, Client, ClientError, path};

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// One part of the list.
    pub async fn approvals(&mut self, query: &ApprovalQuery) -> Result<ApprovalPage, ClientError> {
        let mut at = "/v1/approvals".to_owned();
        path::add(&mut at, "all", query.all);
        path::add(&mut at, "limit", query.limit);
        if let Some(state) = query.state {
            path::add(&mut at, "state", <&str>::from(state));
        }
        if let Some(after) = &query.after {
            path::add(&mut at, "after", after);
        }
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// All of the list: those that wait, or with `all` those that did.
    pub async fn all_approvals(&mut self, all: bool) -> Result<Vec<ApprovalInfo>, ClientError> {
        let mut query = ApprovalQuery { all, limit: 1000, ..ApprovalQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = self.approvals(&query).await?;
            found.extend(page.approvals);
            query.after = page.next;
            if query.after.is_none() {
                return Ok(found);
            }
        }
    }

    /// A call, with what is to run.
    pub async fn approval(&mut self, id: &str) -> Result<ApprovalInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::approval(id))).await
    }

    /// Allows or denies a call.
    pub async fn decide(
        &mut self,
        id: &str,
        request: &DecideRequest,
    ) -> Result<ApprovalInfo, ClientError> {
        self.json(Method::POST, &path::approval(id), Some(request)).await
    }
}
