//! The audit trail: who did what, to what, and why. Nothing here or anywhere changes it.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::{AuditId, Timestamp};
use wakepost_store::moves::{AuditFilter, AuditRow};

use super::call::Call;
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, listed};
use crate::schema;

/// Which entries.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// By this key.
    actor: Option<String>,
    /// Whose action begins like this (`webhook.`).
    action: Option<String>,
    /// Done to this.
    target: Option<String>,
    /// From then on.
    #[param(value_type = Option<schema::Timestamp>)]
    since: Option<Timestamp>,
    /// Before then.
    #[param(value_type = Option<schema::Timestamp>)]
    until: Option<Timestamp>,
}

/// Who did what.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
struct AuditView {
    /// Its id.
    #[schema(value_type = schema::AuditId)]
    id: AuditId,
    /// When.
    #[schema(value_type = schema::Timestamp)]
    at: Timestamp,
    /// Which key, or which job's key.
    actor: String,
    /// What was done.
    action: String,
    /// To what.
    target: String,
    /// Why.
    note: Option<String>,
}

fn shown(row: AuditRow) -> AuditView {
    AuditView {
        id: row.id,
        at: row.id.0.time(),
        actor: row.actor,
        action: row.action,
        target: row.target,
        note: row.note,
    }
}

/// Lists who did what. A key of all tenants sees all of it, unless it names one.
#[utoipa::path(
    get, path = "/audit", operation_id = "list_audit", tag = "tenants",
    params(AuditQuery, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<AuditView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let tenant = match call.caller.reach == Reach::All && !call.names_tenant() {
        true => None,
        false => Some(call.tenant().await?.id),
    };
    let (query, page) = call.list::<AuditQuery>()?;
    let AuditQuery { actor, action, target, since, until } = query;
    let filter = AuditFilter { tenant, actor, action, target, since, until };
    let rows = call.context.store.audit(filter, page).await?;
    let last = rows.last().map(|row| row.id.0);
    let shown: Vec<_> = rows.into_iter().map(shown).collect();
    Ok(once::json(StatusCode::OK, &listed(shown, last, page.limit)))
}
