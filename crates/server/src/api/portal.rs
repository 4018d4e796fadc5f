//! Portal links: signed and expiring, each opens one tenant's webhooks to whoever has it.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::{Timestamp, limits};

use super::auth::portal_name;
use super::call::Call;
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use crate::schema;

/// How long a link is good, unless said otherwise.
const GOOD_S: u64 = 3600;

/// A link to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPortalLink {
    /// Whose webhooks it opens; left out, those of the tenant that the call is about.
    #[schema(value_type = Option<schema::Slug>)]
    tenant: Option<String>,
    /// For how long; an hour if left out.
    #[schema(minimum = 60, maximum = 604800)]
    expires_s: Option<u64>,
}

/// A link. Whoever has it may use it, so it is as good as a key.
#[derive(Serialize, ToSchema)]
struct PortalLink {
    /// What the audit trail calls it, and what is done with it.
    id: String,
    /// Where it leads. What stands after `/p/` is also a key for the API, for just these calls.
    url: String,
    /// Until when it is good.
    #[schema(value_type = schema::Timestamp)]
    expires_at: Timestamp,
}

/// Makes a link that opens one tenant's webhooks, deliveries and catalogue to a subscriber, and nothing else.
///
/// It cannot be taken back before it ends: give it no more time than it needs.
#[utoipa::path(
    post, path = "/portal-links", operation_id = "create_portal_link", tag = "webhooks",
    params(describe::Tenant, Idempotent), request_body = NewPortalLink,
    responses(
        (status = 201, description = "The link.", body = PortalLink),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create_link(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let acting = call.tenant().await?;
    let NewPortalLink { tenant, expires_s } = call.body()?;
    let (low, high) = (limits::PORTAL_LINK_S_MIN, limits::PORTAL_LINK_S_MAX);
    let expires_s = expires_s.unwrap_or(GOOD_S);
    if !(low..=high).contains(&expires_s) {
        return Err(ApiError::field("expires_s", format!("must be from {low} to {high}")));
    }
    let tenant = match tenant {
        None => acting.clone(),
        Some(slug) => {
            let found = call.context.directory.tenant_by_slug(&slug).await?;
            let found = found.filter(|tenant| call.caller.reaches(tenant.id));
            found.ok_or_else(|| ApiError::field("tenant", "there is no such tenant"))?
        }
    };
    let context = &call.context;
    let expires_at = context.now().after(Duration::from_secs(expires_s));
    let token = context.tokens.portal(tenant.id, expires_at);
    let link = PortalLink {
        id: portal_name(&token),
        url: format!("{}/p/{token}", context.base_url),
        expires_at,
    };
    // Unlike other secrets it is also in the answer to a repeat: it is stored nowhere else, and ends soon.
    let once = call.once(acting.id, StatusCode::CREATED, &link).await?;
    let until = Some(format!("until {expires_at}"));
    let audit = call.audit(Some(tenant.id), "portal_link.create", link.id.clone(), until);
    let made = context.store.note(audit, once).await?;
    call.answer_once(acting.id, made, |()| once::json(StatusCode::CREATED, &link)).await
}
