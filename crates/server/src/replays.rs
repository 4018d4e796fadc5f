//! Replays: what ran is run again, and what never had work gets its first. One at a time, or many by a filter.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wakepost_domain::event::Event;
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{SourceId, TenantId, Timestamp, WorkId, thread};
use wakepost_store::moves::{
    AuditEntry, EventFilter, Idempotency, Once, Replay, ReplayFrom, SourceRecord, WorkRow,
};
use wakepost_store::vault::{Sealed, Slot};
use wakepost_store::{Result, StoreError};

use crate::callbacks;
use crate::context::Context;
use crate::schema;
use crate::to_the_end::ToTheEnd;
use crate::view::Content;

/// Which events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = EventFilter)]
pub struct EventQuery {
    /// Of this source.
    #[param(value_type = Option<schema::SourceId>)]
    #[schema(value_type = Option<schema::SourceId>)]
    pub source: Option<SourceId>,
    /// Of this provider.
    pub provider: Option<String>,
    /// Of this type, or with this prefix if it ends with `*`.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// With this status.
    #[param(value_type = Option<schema::EventStatus>)]
    #[schema(value_type = Option<schema::EventStatus>)]
    pub status: Option<String>,
    /// Of this conversation: the `thread_id` of its messages.
    pub thread: Option<String>,
    /// About this: `provider:kind:id`.
    pub subject: Option<String>,
    /// With this dedup key.
    pub dedup_key: Option<String>,
    /// Not received before.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Received before.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
    /// Whose id, type, subject or dedup key begins with this.
    pub q: Option<String>,
}

impl EventQuery {
    /// The same, as the store is asked.
    pub async fn resolve(self, context: &Context, tenant: TenantId) -> Result<EventFilter> {
        let sources = match (&self.provider, self.source) {
            (None, None) => None,
            (None, Some(source)) => Some(vec![source]),
            (Some(provider), source) => {
                let fits = |record: &SourceRecord| {
                    record.provider == *provider && source.is_none_or(|wanted| wanted == record.id)
                };
                let found = context.directory.sources_where(tenant, fits).await?;
                Some(found.iter().map(|record| record.id).collect())
            }
        };
        Ok(EventFilter {
            published: false,
            sources,
            event_type: self.event_type,
            status: self.status,
            subject: self.subject,
            thread: self.thread.as_deref().map(thread::searched),
            dedup_key: self.dedup_key,
            since: self.since,
            until: self.until,
            prefix: self.q.filter(|text| !text.is_empty()),
        })
    }
}

/// What was asked for, for many events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InboxReplay {
    /// Which.
    pub filter: EventQuery,
    /// Who, and why.
    pub note: String,
    /// Whether committed effects may happen again.
    pub fresh_scope: bool,
    /// Whether they are only counted.
    pub dry_run: bool,
    /// Which key asked.
    pub actor: String,
}

/// One replay.
pub struct Wish {
    /// Whose it is.
    pub tenant: TenantId,
    /// What it starts from.
    pub from: ReplayFrom,
    /// The new item's id.
    pub id: WorkId,
    /// Whether committed effects may happen again.
    pub fresh_scope: bool,
    /// Who replays, and why.
    pub audit: AuditEntry,
}

/// What a replay of an event starts from: its latest job, or itself if it never had one.
pub async fn of_event(context: &Context, event: &Event) -> Result<ReplayFrom> {
    let work = context.store.work_of_event(event.tenant, event.id).await?;
    let jobs = work.iter().filter(|row| row.kind == WorkKind::Job);
    // By its id alone the latest is not found: what bulk work makes has an id as old as that work.
    if let Some(latest) = jobs.max_by_key(|row| (row.replayed_as.is_none(), row.id)) {
        return Ok(ReplayFrom::Work(latest.id));
    }
    let source = context.directory.source(event.source).await?;
    let key = LaneKey {
        tenant: event.tenant,
        kind: WorkKind::Job,
        priority: source.map_or(Priority::Webhook, |live| live.priority()),
        origin: Some(event.source.0),
        name: event.event_type.clone(),
        executor: None,
    };
    let key = match announces(context, event).await? {
        true => key.before_expansion(),
        false => key,
    };
    Ok(ReplayFrom::Event(event.id, context.directory.lane(key).await?.id))
}

/// Whether an event without a job has still to be fetched.
async fn announces(context: &Context, event: &Event) -> Result<bool> {
    let source = context.directory.source(event.source).await?;
    let (Some(live), Some(content)) = (source, Content::of(context, event).await?) else {
        return Ok(false);
    };
    let events = live.provider.map(&content.as_request(), &live.settings).unwrap_or_default();
    let part = event.part.map_or(0, |part| usize::from(part.index));
    let announces = |mapped| live.provider.announces(mapped).is_some();
    Ok(content.fetched.is_none() && events.get(part).is_some_and(announces))
}

/// Makes a new item in the place of a finished one, or an event's first, and tells the queue.
pub async fn make(
    context: &Arc<Context>,
    wish: Wish,
    once: Option<Idempotency>,
) -> Result<Once<WorkId>> {
    let Wish { tenant, from, id, fresh_scope, audit } = wish;
    let (lane, input, attempts) = match from {
        ReplayFrom::Event(_, lane) => (lane, None, None),
        ReplayFrom::Work(old) => {
            let row = context.store.work(tenant, old).await?.ok_or(StoreError::NotFound)?;
            (
                row.lane,
                resealed_input(context, &row, id).await?,
                u32::try_from(row.max_attempts).ok(),
            )
        }
    };
    let lane = context.directory.lanes(&[lane]).await?.pop().ok_or(StoreError::NotFound)?;
    // A source says anew how often its jobs are tried; a job of nobody else's brought its own number.
    let own = attempts.filter(|_| lane.key.kind == WorkKind::Job && lane.key.origin.is_none());
    let max_attempts = context.directory.max_attempts(&lane, own).await?;
    let source = match (from, lane.key.origin) {
        (ReplayFrom::Event(..), Some(origin)) => context.directory.source(SourceId(origin)).await?,
        _ => None,
    };
    let callback_lane = match source {
        Some(live) => callbacks::lane_of_source(context, &live.source).await?,
        None => None,
    };
    let request =
        Replay { tenant, from, id, fresh_scope, input, max_attempts, callback_lane, audit };
    // A caller that hangs up must not keep the queue from hearing of the commit.
    let made = ToTheEnd::of(commit(context.clone(), request, lane, once)).await?;
    Ok(match made {
        Once::Now((work, _)) => Once::Now(work),
        Once::Before(before) => Once::Before(before),
    })
}

/// Stores a replay, and tells the queue.
async fn commit(
    context: Arc<Context>,
    request: Replay,
    lane: Arc<Lane>,
    once: Option<Idempotency>,
) -> Result<Once<(WorkId, LaneId)>> {
    let made = context.store.replay(request, once).await;
    let stored = match &made {
        Ok(made) => matches!(made, Once::Now(_)),
        Err(error) => error.is_unknown(),
    };
    if stored {
        context.queue.hint(&lane, 1).await;
    }
    made
}

/// A record is bound to its row, so a new item needs its own. A callback says what the old one said.
async fn resealed_input(context: &Context, old: &WorkRow, new: WorkId) -> Result<Option<Sealed>> {
    let key = context.vault.key(old.tenant).await?;
    if old.kind == WorkKind::Callback {
        let said = match callbacks::kept(context, old).await? {
            Some(kept) => Some(kept),
            None => callbacks::compose(context, old).await?,
        };
        let plain = said.map(|said| serde_json::to_vec(&said).expect("plain data"));
        return Ok(plain.map(|plain| key.seal(Slot::Input(new), &plain)));
    }
    let states = context.store.job_states(vec![old.id]).await?;
    let Some(record) = states.into_iter().next().and_then(|(_, state)| state.input) else {
        return Ok(None);
    };
    let plain = key.open(Slot::Input(old.id), &record)?;
    Ok(Some(key.seal(Slot::Input(new), &plain)))
}
