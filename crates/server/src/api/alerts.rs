//! Alerts: what is wrong, and what was.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::Timestamp;
use wakepost_domain::access::Right;
use wakepost_domain::alert::{AlertKind, Severity};
use wakepost_store::moves::Alert;

use super::call::Call;
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, listed};
use crate::schema;

/// Where an alert stands.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum AlertStatus {
    /// It is wrong now, or was less than five minutes ago.
    Firing,
    /// It is over.
    Resolved,
}

/// Which alerts.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AlertQuery {
    /// Only those that stand so.
    status: Option<AlertStatus>,
}

/// An alert.
#[derive(Serialize, ToSchema)]
#[schema(as = Alert)]
struct AlertView {
    /// Its id.
    id: String,
    /// What is wrong.
    #[schema(value_type = String)]
    kind: AlertKind,
    /// How bad, at its worst.
    #[schema(value_type = String)]
    severity: Severity,
    /// In a few words.
    title: String,
    /// In a sentence or two.
    detail: String,
    /// The webhook or the source it is about; null: the tenant as a whole.
    subject: Option<String>,
    /// Where it stands.
    status: AlertStatus,
    /// When it fired.
    #[schema(value_type = schema::Timestamp)]
    fired_at: Timestamp,
    /// When it was over.
    #[schema(value_type = Option<schema::Timestamp>)]
    resolved_at: Option<Timestamp>,
    /// How it is, or was when last seen.
    value: f64,
    /// From what on it is wrong.
    threshold: f64,
}

impl From<Alert> for AlertView {
    fn from(alert: Alert) -> AlertView {
        AlertView {
            id: alert.id.to_string(),
            kind: alert.kind,
            severity: alert.severity,
            title: alert.title,
            detail: alert.detail,
            subject: Some(alert.subject).filter(|subject| !subject.is_empty()),
            status: match alert.resolved_at {
                None => AlertStatus::Firing,
                Some(_) => AlertStatus::Resolved,
            },
            fired_at: alert.id.0.time(),
            resolved_at: alert.resolved_at,
            value: alert.value,
            threshold: alert.threshold,
        }
    }
}

/// Lists alerts.
#[utoipa::path(
    get, path = "/alerts", operation_id = "list_alerts", tag = "operations",
    params(AlertQuery, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<AlertView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (query, page) = call.list::<AlertQuery>()?;
    let firing = query.status.map(|status| status == AlertStatus::Firing);
    let rows = call.context.store.alerts(tenant.id, firing, page).await?;
    let last = rows.last().map(|alert| alert.id.0);
    let rows = rows.into_iter().map(AlertView::from).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}
