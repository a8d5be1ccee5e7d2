//! Who may see calls that wait for approval, and decide about them.
//!
//! An administrator may for every tenant. A tenant sees its own, and decides with a token of scope
//! `approve` alone: who may run code can not allow it too. Without tenants, only administrators decide.

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use vivarium_api_types::Scope;
use vivarium_engine::settings::DEFAULT_TENANT;

use super::admin::Administrator;
use super::auth::Caller;
use super::{Problem, Shared, auth, scopes};

/// The authenticated one.
pub(super) struct Approver {
    /// Whose calls; of all tenants, if there is none.
    pub(super) tenant: Option<String>,
    /// For the audit log: `uid 0`, or the token and its tenant.
    pub(super) actor: String,
}

impl FromRequestParts<Shared> for Approver {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, Problem> {
        let settings = api.engine.settings();
        let has_token =
            parts.headers.contains_key(header::AUTHORIZATION) && !settings.tenants.is_empty();
        if !has_token {
            let reads = scopes::required(parts)? == Scope::Read;
            return match Administrator::from_request_parts(parts, api).await {
                Ok(administrator) => Ok(Self { tenant: None, actor: administrator.actor }),
                Err(_) if reads && settings.tenants.is_empty() => {
                    Ok(Self { tenant: Some(DEFAULT_TENANT.to_owned()), actor: String::new() })
                }
                Err(problem) => Err(problem),
            };
        }
        if let Ok((tenant, token)) = auth::authenticate(&settings, &parts.headers) {
            let name = token.name.as_deref().unwrap_or("unnamed");
            let actor = format!("token {name} of {tenant}");
            if token.scopes.allow(Scope::Admin) {
                return Ok(Self { tenant: None, actor });
            }
            let Caller(tenant) = Caller::from_request_parts(parts, api).await?;
            return Ok(Self { tenant: Some(tenant), actor });
        }
        // Refuses, and records it.
        let Caller(tenant) = Caller::from_request_parts(parts, api).await?;
        Ok(Self { tenant: Some(tenant), actor: String::new() })
    }
}
