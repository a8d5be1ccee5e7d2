//! Administration: on the Unix socket as root or the daemon's user, or with a token of scope `admin`.

use hyper::Method;
use vivarium_api_types::{
    AdminStatus, AdminTenantList, DrainReply, DrainRequest, PauseReply, PauseRequest, UsageFormat,
    UsagePeriod, UsageQuery, UsageReport,
};

use super::{ApiRequest, ApiResponse, Client, ClientError, path};

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// How the daemon does.
    pub async fn admin_status(&mut self) -> Result<AdminStatus, ClientError> {
        self.call(ApiRequest::new(Method::GET, "/v1/admin/status")).await
    }

    /// Has new sessions and executions refused.
    pub async fn pause(&mut self, request: &PauseRequest) -> Result<PauseReply, ClientError> {
        self.json(Method::POST, "/v1/admin/pause", Some(request)).await
    }

    /// Has them taken again.
    pub async fn resume(&mut self, request: &PauseRequest) -> Result<PauseReply, ClientError> {
        self.json(Method::POST, "/v1/admin/resume", Some(request)).await
    }

    /// Has every session end.
    pub async fn drain(&mut self, request: DrainRequest) -> Result<DrainReply, ClientError> {
        self.json(Method::POST, "/v1/admin/drain", Some(&request)).await
    }

    /// Every tenant with what it uses now.
    pub async fn admin_tenants(&mut self) -> Result<AdminTenantList, ClientError> {
        self.call(ApiRequest::new(Method::GET, "/v1/admin/tenants")).await
    }

    /// What tenants used.
    pub async fn usage(&mut self, query: &UsageQuery) -> Result<UsageReport, ClientError> {
        let query = UsageQuery { format: UsageFormat::Json, ..query.clone() };
        self.call(ApiRequest::new(Method::GET, &usage(&query))).await
    }

    /// The same as CSV, to be read as it comes.
    pub async fn usage_csv(&mut self, query: &UsageQuery) -> Result<ApiResponse, ClientError> {
        let query = UsageQuery { format: UsageFormat::Csv, ..query.clone() };
        self.open(ApiRequest::new(Method::GET, &usage(&query))).await
    }
}

fn usage(query: &UsageQuery) -> String {
    let mut at = "/v1/admin/usage".to_owned();
    for (name, value) in [("from", &query.from), ("to", &query.to), ("tenant", &query.tenant)] {
        if let Some(value) = value {
            path::add(&mut at, name, value);
        }
    }
    let period = match query.period {
        UsagePeriod::Hour => "hour",
        UsagePeriod::Day => "day",
        UsagePeriod::Month => "month",
        UsagePeriod::Total => "total",
    };
    path::add(&mut at, "period", period);
    path::add(&mut at, "format", if query.format == UsageFormat::Csv { "csv" } else { "json" });
    at
}
