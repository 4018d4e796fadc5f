//! A leased job as its worker gets it: one shape for the lease answer, the http body and exec's stdin.

use std::collections::HashMap;

use serde_json::{Value, json};
use wakepost_domain::event::Event;
use wakepost_domain::{EventId, SourceId, WorkId};
use wakepost_store::moves::{Claimed, JobState};
use wakepost_store::vault::{Sealed, Slot, TenantKey};
use wakepost_store::{Result, StoreError};

use super::{Content, envelope, open_json};
use crate::chains;
use crate::context::Context;
use crate::queue::Pushed;

/// Puts leased jobs together, each by itself: one that is damaged (`Corrupt`) keeps no other from its worker. Any other error
/// says nothing against the job. Rows are read in batches, whatever the number of jobs.
pub async fn leased(context: &Context, claimed: &[Pushed]) -> Vec<Result<Value>> {
    match read(context, claimed).await {
        Ok(mut rows) => {
            let mut jobs = Vec::with_capacity(claimed.len());
            for (item, ..) in claimed {
                jobs.push(one(context, item, &mut rows).await);
            }
            jobs
        }
        // A row that cannot be read spoils what it is read with: halves tell whose it is.
        Err(StoreError::Corrupt(_)) if claimed.len() > 1 => {
            let (first, second) = claimed.split_at(claimed.len() / 2);
            let mut jobs = Box::pin(leased(context, first)).await;
            jobs.extend(Box::pin(leased(context, second)).await);
            jobs
        }
        Err(error) => claimed.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// All that jobs are put together from.
async fn read(context: &Context, claimed: &[Pushed]) -> Result<Rows> {
    let claimed = || claimed.iter().map(|(item, ..)| item);
    let joined = joined(context, claimed()).await?;
    let of = |item: &Claimed| {
        let more = joined.get(&item.ticket.work).into_iter().flatten().copied();
        item.event.into_iter().chain(more).collect::<Vec<EventId>>()
    };
    let ids: Vec<_> = claimed()
        .flat_map(|item| of(item).into_iter().map(|event| (item.ticket.tenant, event)))
        .collect();
    let works = claimed().map(|item| item.ticket.work).collect();
    let lanes: Vec<_> = claimed().map(|item| item.lane).collect();
    let events = async {
        match ids.is_empty() {
            true => Ok((Vec::new(), Vec::new())),
            false => tokio::try_join!(
                context.store.events_by_id(ids.clone()),
                context.store.contents(ids.iter().map(|(_, event)| *event).collect()),
            ),
        }
    };
    let ((events, bodies), states, lanes) =
        tokio::try_join!(events, context.store.job_states(works), context.directory.lanes(&lanes))?;
    // Bodies that several events share have ids of their own.
    let shared: Vec<EventId> = events.iter().filter_map(|event| Some(event.part?.body)).collect();
    let shared = match shared.is_empty() {
        true => Vec::new(),
        false => context.store.contents(shared).await?,
    };
    Ok(Rows {
        events: events.into_iter().map(|event| (event.id, event)).collect(),
        bodies: bodies.into_iter().chain(shared).collect(),
        states: states.into_iter().collect(),
        names: lanes.iter().map(|lane| (lane.id, lane.key.name.clone())).collect(),
        joined,
    })
}

struct Rows {
    events: HashMap<EventId, Event>,
    bodies: HashMap<EventId, Sealed>,
    states: HashMap<WorkId, JobState>,
    names: HashMap<wakepost_domain::lane::LaneId, String>,
    /// The events that joined each item, in order.
    joined: HashMap<WorkId, Vec<EventId>>,
}

/// The events that joined items. Only what runs in order is ever joined, so the usual claim asks nothing.
async fn joined(
    context: &Context,
    claimed: impl Iterator<Item = &Claimed>,
) -> Result<HashMap<WorkId, Vec<EventId>>> {
    let orderly = claimed.filter(|item| item.ticket.ordered && item.event.is_some());
    let orderly: Vec<WorkId> = orderly.map(|item| item.ticket.work).collect();
    let mut joined: HashMap<WorkId, Vec<EventId>> = HashMap::new();
    if !orderly.is_empty() {
        for (work, event) in context.store.joined(orderly).await? {
            joined.entry(work).or_default().push(event);
        }
    }
    Ok(joined)
}

async fn one(context: &Context, item: &Claimed, rows: &mut Rows) -> Result<Value> {
    let ticket = &item.ticket;
    let work = ticket.work;
    let key = context.vault.key(ticket.tenant).await.map_err(|error| match error {
        // A key that this node cannot unwrap makes nothing damaged.
        StoreError::Corrupt(why) => StoreError::Unavailable(why),
        error => error,
    })?;
    let tenant = context.directory.tenant(ticket.tenant).await?;
    let slug = tenant.map(|tenant| tenant.slug.clone()).unwrap_or_default();
    let event = item.event.and_then(|id| rows.events.remove(&id));
    let envelope = match &event {
        None => Value::Null,
        Some(event) => envelope_of(context, &key, &slug, event, rows).await?,
    };
    let mut events = Vec::new();
    for id in rows.joined.get(&work).into_iter().flatten() {
        if let Some(event) = rows.events.get(id) {
            events.push(envelope_of(context, &key, &slug, event, rows).await?);
        }
    }
    if !events.is_empty() {
        events.insert(0, envelope.clone());
    }
    let state = rows.states.remove(&work).unwrap_or_default();
    let document = |slot, record: Option<Sealed>| {
        record.map(|record| open_json(&key, slot, &record)).transpose()
    };
    let name = match rows.names.get(&item.lane) {
        Some(name) if !name.is_empty() => name.clone(),
        _ => shared_name(item, event.as_ref()),
    };
    let mut job = json!({
        "id": work.text(item.kind),
        "run_id": ticket.run_id(),
        "tenant": slug,
        "lease_token": context.tokens.lease(ticket),
        "lease_expires_at": item.lease_expires_at,
        "attempt": ticket.attempt,
        "max_attempts": ticket.max_attempts,
        "fence": ticket.fence,
        "kind": name,
        "source": event.as_ref().map(|event: &Event| -> SourceId { event.source }),
        "envelope": envelope,
        "input": document(Slot::Input(work), state.input)?,
        "checkpoint": document(Slot::Checkpoint(work), state.checkpoint)?,
        "scope": item.scope.to_string(),
        "traceparent": chains::traceparent(item),
        "chain": chains::passed_on(context, item),
    });
    if !events.is_empty() {
        job["events"] = events.into();
    }
    if let Some(tick) = state.scheduled_for {
        job["scheduled_for"] = json!(tick);
    }
    Ok(job)
}

async fn envelope_of(
    context: &Context,
    key: &TenantKey,
    tenant: &str,
    event: &Event,
    rows: &Rows,
) -> Result<Value> {
    let source = context.directory.source(event.source).await?;
    let body = event.body();
    let content = match rows.bodies.get(&body) {
        Some(sealed) => Some(Content::decode(&key.open(Slot::Content(body), sealed)?)?),
        None => None,
    };
    Ok(envelope(event, tenant, source.as_deref(), content.as_ref()))
}

/// The name of a job whose lane is shared by many: its event's type, or what it was made with.
fn shared_name(item: &Claimed, event: Option<&Event>) -> String {
    match event {
        Some(event) => event.event_type.clone(),
        None => item.meta.name.clone().unwrap_or_default(),
    }
}
