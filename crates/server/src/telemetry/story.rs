//! The story of each thing, from its receipt to its end, as lines of the log and as spans: always with its ids, never
//! with what it says.
//!
//! The lines are at level debug. Where nobody reads them, and no spans are wanted, a moment costs two comparisons.

use std::time::Instant;

use tracing::{Level, Span, enabled};
use wakepost_domain::lease::Ticket;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, WorkId};
use wakepost_store::moves::Claimed;

use super::traces::{Moment, Received};
use crate::chains::Origin;
use crate::context::Context;
use crate::directory::LiveSource;
use crate::queue::Pushed;

/// A request became an event, or was one already.
pub async fn received(
    context: &Context,
    live: &LiveSource,
    parent: Option<([u8; 16], [u8; 8])>,
    arrived: Instant,
    (event, job, verdict): (EventId, Option<WorkId>, &'static str),
) {
    let tenant = live.source.tenant;
    if enabled!(Level::DEBUG) {
        let tenant = slug(context, tenant).await;
        tracing::debug!(
            tenant,
            source_id = %live.source.id,
            event_id = %event,
            job_id = job.map(|job| job.text(WorkKind::Job)),
            verdict,
            "a request was taken in"
        );
    }
    if context.traces.are_wanted() {
        let ended = context.now();
        let (source, provider) = (live.source.id, live.provider.name());
        let began = ended.before(arrived.elapsed());
        context.traces.note(Moment::Received(Box::new(Received {
            tenant,
            source,
            provider,
            event,
            job,
            verdict,
            parent,
            began,
            ended,
        })));
    }
}

/// An event was published.
pub fn published(
    context: &Context,
    tenant: &Tenant,
    event: EventId,
    deliveries: usize,
    origin: &Origin,
) {
    tracing::debug!(tenant = tenant.slug, event_id = %event, deliveries, "an event was published");
    if context.traces.are_wanted() {
        let (tenant, at) = (tenant.id, context.now());
        let origin = Box::new(origin.clone());
        context.traces.note(Moment::Published { tenant, event, deliveries, origin, at });
    }
}

/// Items were given out.
pub async fn leased(context: &Context, items: impl Iterator<Item = &Claimed>) {
    if !enabled!(Level::DEBUG) {
        return;
    }
    for item in items {
        let tenant = slug(context, item.ticket.tenant).await;
        tracing::debug!(
            tenant,
            id = item.ticket.work.text(item.kind),
            event_id = item.event.map(|event| event.to_string()),
            run_id = %item.ticket.run_id(),
            attempt = item.ticket.attempt,
            "a run began"
        );
    }
}

/// A run ended.
pub async fn ended(context: &Context, ticket: &Ticket, kind: WorkKind, state: State) {
    if enabled!(Level::DEBUG) {
        let tenant = slug(context, ticket.tenant).await;
        tracing::debug!(
            tenant,
            id = ticket.work.text(kind),
            run_id = %ticket.run_id(),
            attempt = ticket.attempt,
            state = state.as_str(),
            "a run ended"
        );
    }
    if context.traces.are_wanted() {
        let at = context.now();
        context.traces.note(Moment::Ended { ticket: *ticket, kind, state, at });
    }
}

/// It was decided on an effect.
pub async fn effect(context: &Context, ticket: &Ticket, decision: &'static str) {
    if enabled!(Level::DEBUG) {
        let tenant = slug(context, ticket.tenant).await;
        tracing::debug!(
            tenant,
            job_id = ticket.work.text(WorkKind::Job),
            run_id = %ticket.run_id(),
            decision,
            "it was decided on an effect"
        );
    }
    if context.traces.are_wanted() {
        let at = context.now();
        context.traces.note(Moment::Effect { ticket: *ticket, decision, at });
    }
}

/// What every line about a pushed run carries.
pub async fn of_run(context: &Context, (claimed, lane, _): &Pushed) -> Span {
    if !enabled!(Level::INFO) {
        return Span::none();
    }
    let id = claimed.ticket.work.text(claimed.kind);
    let webhook = (claimed.kind == WorkKind::Delivery).then_some(lane.key.origin).flatten();
    let tenant = slug(context, claimed.ticket.tenant).await;
    tracing::info_span!(
        "run",
        tenant,
        id,
        event_id = claimed.event.map(|event| event.to_string()),
        run_id = %claimed.ticket.run_id(),
        webhook_id = webhook.map(|id| wakepost_domain::WebhookId(id).to_string()),
    )
}

async fn slug(context: &Context, tenant: TenantId) -> String {
    match context.directory.tenant(tenant).await {
        Ok(Some(tenant)) => tenant.slug.clone(),
        _ => tenant.0.to_string(),
    }
}
