//! Cancelling what has become pointless: by an event, and all jobs about a subject.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{Ulid, WorkId};
use wakepost_store::Result as Stored;
use wakepost_store::moves::{AuditEntry, CancelOutcome};

use super::call::Call;
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::work::{check_key, check_name, check_note};
use crate::context::Context;
use crate::schema;
use crate::to_the_end::ToTheEnd;

/// How many live items are looked at in one step.
const LOOK: u32 = 5000;
/// How many jobs are given up in one transaction.
const STEP: usize = 100;
/// How far other nodes' clocks may be ahead: jobs made later than that are not meant.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// The event that cancels a job, if it has the job's subject.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelOn {
    /// Its type, or a pattern: `issues.closed`, `issues.*` or `*`.
    #[serde(rename = "type")]
    #[schema(value_type = schema::Name)]
    pub event_type: String,
}

/// A job that an event may cancel must say what it is about.
pub fn check_cancel_on(
    at: &impl Fn(&str) -> String,
    cancel_on: Option<&CancelOn>,
    subject: Option<&str>,
) -> Result<(), ApiError> {
    let Some(cancel_on) = cancel_on else { return Ok(()) };
    check_name(&at("cancel_on.type"), &cancel_on.event_type)?;
    match subject {
        Some(_) => Ok(()),
        None => Err(ApiError::field(at("subject"), "is required beside cancel_on")),
    }
}

/// Which jobs are given up.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SubjectBody {
    /// What they are about: `provider:kind:id`.
    #[schema(value_type = schema::Key)]
    subject: String,
    /// Who, and why.
    #[schema(value_type = Option<schema::Note>)]
    note: Option<String>,
}

/// What cancelling all jobs about a subject came to.
#[derive(Serialize, ToSchema)]
struct CancelledSubject {
    /// What they are about.
    subject: String,
    /// How many were cancelled.
    cancelled: usize,
    /// How many run, and were asked to stop.
    requested: usize,
}

/// Gives up all live jobs about a subject. Running ones learn of it on their next heartbeat.
#[utoipa::path(
    post, path = "/jobs/cancel", operation_id = "cancel_subject", tag = "jobs",
    params(describe::Tenant), request_body = SubjectBody,
    responses(
        (status = 200, description = "How many there were.", body = CancelledSubject),
        Keyed, Missing,
    )
)]
pub async fn cancel_subject(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let SubjectBody { subject, note } = call.body()?;
    check_key("subject", &subject)?;
    note.as_deref().map(check_note).transpose()?;
    let audit = call.audit(Some(tenant.id), "jobs.cancel", subject.clone(), note);
    // It may take long: a caller who has gone must not leave half of it undone.
    let all = ToTheEnd::of(cancel_all(call.context.clone(), tenant, subject, audit));
    Ok(once::json(StatusCode::OK, &all.await?))
}

/// Walks the tenant's live work from the oldest on. No index finds jobs by their subject: it would cost every event.
async fn cancel_all(
    context: Arc<Context>,
    tenant: Arc<Tenant>,
    subject: String,
    audit: AuditEntry,
) -> Stored<CancelledSubject> {
    let end = WorkId(Ulid::from_parts(context.now().after(CLOCKS_APART), 0));
    let mut done = CancelledSubject { subject, cancelled: 0, requested: 0 };
    let mut after = None;
    loop {
        let subject = done.subject.clone();
        let step = context.store.live_of_subject(tenant.id, subject, after, LOOK).await?;
        for ids in step.found.chunks(STEP) {
            let outcomes = context.store.cancel_many(tenant.id, ids.to_vec(), None).await?;
            let asked = outcomes.iter().filter(|one| **one == CancelOutcome::Requested).count();
            done.requested += asked;
            done.cancelled += outcomes.len() - asked;
            let next: HashSet<_> = outcomes.iter().filter_map(|one| one.next_in_order()).collect();
            context.queue.hint_all_nodes(&next.into_iter().collect::<Vec<_>>()).await?;
        }
        after = step.next;
        if after.is_none_or(|last| last > end) {
            break;
        }
    }
    let counted = format!("{} cancelled, {} asked to stop", done.cancelled, done.requested);
    let note = match &audit.note {
        Some(note) => format!("{note} ({counted})"),
        None => counted,
    };
    let audit = AuditEntry { note: Some(note), ..audit };
    context.store.cancel_many(tenant.id, Vec::new(), Some(audit)).await?;
    Ok(done)
}
