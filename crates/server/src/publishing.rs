//! Publishing: from what a publisher says to a committed event and its deliveries, in one transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;
use wakepost_domain::event::{Event, Route};
use wakepost_domain::event_type::EventType;
use wakepost_domain::figures::Figure;
use wakepost_domain::lane::LaneId;
use wakepost_domain::publication::{self, Head, NO_SOURCE};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::source::DEDUP_WINDOW;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::webhook::{Retries, Webhook};
use wakepost_domain::{AuditId, EventId, ReceiptId, TenantId, Timestamp, event_type};
use wakepost_store::moves::{
    Accepted, AuditEntry, DedupKey, NewDelivery, NewEvent, NewReceipt, OrderKey, delivery_of,
};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::chains::Origin;
use crate::context::Context;
use crate::directory::Catalogue;
use crate::telemetry::story;
use crate::to_the_end::ToTheEnd;
use crate::view::Content;

/// How long a publisher waits for the commit. A repeat under the same key is safe.
const COMMIT_PATIENCE: Duration = Duration::from_secs(10);

/// What a publisher says.
#[derive(Debug)]
pub struct Publication {
    /// What happened.
    pub event_type: String,
    /// What it happened to.
    pub data: Box<RawValue>,
    /// By which version of the type; none: the newest that is known.
    pub api_version: Option<String>,
    /// The version it is made with, by [`check`].
    pub version: Option<String>,
    /// What it was like before.
    pub previous_attributes: Option<Box<RawValue>>,
    /// Whether it is about the real thing.
    pub livemode: bool,
    /// What makes a repeat return the first.
    pub dedup_key: Option<String>,
    /// What it goes in order with, to webhooks that want that.
    pub order_key: Option<String>,
    /// When it goes out, if not at once.
    pub deliver_at: Option<Timestamp>,
}

/// A published event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Its id, or that of the first with the same key.
    pub id: EventId,
    /// Whether it had been published before.
    pub repeated: bool,
    /// How many webhooks get it.
    pub deliveries: usize,
}

/// What a call publishes: all of it or nothing.
#[derive(Debug)]
pub struct Batch {
    /// The events.
    pub items: Vec<Publication>,
    /// The caller's key for the whole call.
    pub call_key: Option<String>,
    /// Where they come from.
    pub origin: Origin,
    /// The id of the only event, if it has one already.
    pub id: Option<EventId>,
    /// Whose key it is, if somebody does it by hand: that is for the audit trail.
    pub by_hand: Option<String>,
}

/// What is wrong with a publication: where, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The field, by its path.
    pub field: String,
    /// Why.
    pub message: String,
}

/// Checks a publication by its type: form, whose it is, whether it is known, and what its subject must look like.
/// Answers the version it is made with.
pub async fn check(
    context: &Context,
    tenant: &Tenant,
    item: &Publication,
) -> Result<std::result::Result<Option<String>, Unfit>> {
    let unfit = |field: &str, message: String| Ok(Err(Unfit { field: field.to_owned(), message }));
    if !event_type::is_name(&item.event_type) {
        let text = "must be lower-case words joined by dots, such as order.created";
        return unfit("type", text.to_owned());
    }
    if event_type::is_ours(&item.event_type) {
        return unfit("type", "is one that only Wakepost publishes".to_owned());
    }
    let (own, shared) = catalogues(context, tenant.id).await?;
    let name = item.event_type.as_str();
    let Some(known) = own.get(name).or_else(|| shared.as_ref().and_then(|all| all.get(name)))
    else {
        return match tenant.settings.strict_types.unwrap_or(false) {
            true => {
                unfit("type", "is not registered, and this tenant is strict about types".to_owned())
            }
            false => Ok(Ok(item.api_version.clone())),
        };
    };
    let spec = &known.event_type.spec;
    let version = match &item.api_version {
        Some(version) if !spec.versions.is_empty() && !spec.versions.contains_key(version) => {
            let known: Vec<&str> = spec.versions.keys().map(String::as_str).collect();
            return unfit("api_version", format!("is not one of {}", known.join(", ")));
        }
        Some(version) => Some(version.clone()),
        None => spec.newest().map(|(name, _)| name.to_owned()),
    };
    let object: Value = match serde_json::from_str(item.data.get()) {
        Ok(object) => object,
        Err(error) => return unfit("data", error.to_string()),
    };
    Ok(match known.problem(version.as_deref(), &object) {
        None => Ok(version),
        Some((path, message)) => {
            let field = if path.is_empty() { "data".to_owned() } else { format!("data.{path}") };
            Err(Unfit { field, message })
        }
    })
}

/// A type that a tenant has, or that applies to all.
pub async fn known_type(
    context: &Context,
    tenant: TenantId,
    name: &str,
) -> Result<Option<EventType>> {
    let (own, shared) = catalogues(context, tenant).await?;
    let known = own.get(name).or_else(|| shared.as_ref().and_then(|all| all.get(name)));
    Ok(known.map(|known| known.event_type.clone()))
}

/// A tenant's own types, and those that apply to all.
pub async fn catalogues(
    context: &Context,
    tenant: TenantId,
) -> Result<(Arc<Catalogue>, Option<Arc<Catalogue>>)> {
    let own = context.directory.catalogue(tenant).await?;
    let shared = match tenant == TenantId::DEFAULT {
        true => None,
        false => Some(context.directory.catalogue(TenantId::DEFAULT).await?),
    };
    Ok((own, shared))
}

/// Stores what passed [`check`], and answers after the commit.
pub async fn publish(
    context: &Arc<Context>,
    tenant: &Tenant,
    batch: Batch,
) -> Result<Vec<Published>> {
    let webhooks = context.directory.webhooks(tenant.id).await?;
    let count = batch.items.len();
    let (mut events, mut said) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (index, item) in batch.items.iter().enumerate() {
        let id = batch.id.unwrap_or_else(|| EventId(context.new_id()));
        let (new, body) = new_event(context, tenant, &webhooks, &batch, index, item, id).await?;
        events.push(new);
        said.push(body);
    }
    let made: Vec<(EventId, usize)> =
        events.iter().map(|new| (new.event.id, new.deliveries.len())).collect();
    let audit = batch.by_hand.zip(made.first()).map(|(actor, (first, _))| AuditEntry {
        id: AuditId(context.new_id()),
        tenant: Some(tenant.id),
        actor,
        action: "event.publish".to_owned(),
        target: first.to_string(),
        note: None,
    });
    // A publisher that hangs up must not keep the queue from hearing of the commit.
    let commit = ToTheEnd::of(commit(context.clone(), events, said, audit));
    let accepted = match Box::pin(tokio::time::timeout(COMMIT_PATIENCE, commit)).await {
        Ok(accepted) => accepted?,
        Err(_) => return Err(StoreError::Unavailable("no commit in time".to_owned())),
    };
    let published = |((id, deliveries), accepted): ((EventId, usize), Accepted)| match accepted {
        Accepted::Duplicate { of, .. } => Published { id: of, repeated: true, deliveries: 0 },
        _ => Published { id, repeated: false, deliveries },
    };
    let published: Vec<Published> = made.into_iter().zip(accepted).map(published).collect();
    let new = published.iter().filter(|published| !published.repeated).count() as u64;
    context.metrics.published.inc_by(new);
    for Published { id, deliveries, .. } in published.iter().filter(|one| !one.repeated) {
        story::published(context, tenant, *id, *deliveries, &batch.origin);
    }
    context.tally.note(tenant.id, context.now(), |figures| figures.count(Figure::Published, new));
    Ok(published)
}

/// Commits, and tells the queue. `said`: the body of each.
async fn commit(
    context: Arc<Context>,
    events: Vec<NewEvent>,
    said: Vec<Bytes>,
    audit: Option<AuditEntry>,
) -> Result<Vec<Accepted>> {
    let ids: Vec<EventId> = events.iter().map(|new| new.event.id).collect();
    let lanes: Vec<Vec<LaneId>> = events
        .iter()
        .map(|new| new.deliveries.iter().map(|delivery| delivery.lane).collect())
        .collect();
    let due: Vec<usize> = events.iter().map(due_now).collect();
    let began = Instant::now();
    let accepted = context.ledger.publish(events, audit).await;
    context.metrics.stored("publish", began.elapsed());
    for (index, body) in said.into_iter().enumerate() {
        if accepted.as_ref().is_ok_and(|accepted| accepted[index].is_new()) {
            context.fresh.keep(ids[index], body, due[index]);
        }
    }
    let mut ready: HashMap<LaneId, usize> = HashMap::new();
    for (index, lanes) in lanes.into_iter().enumerate() {
        let stored = match &accepted {
            Ok(accepted) => accepted.get(index).is_some_and(|accepted| accepted.is_new()),
            Err(error) => error.is_unknown(),
        };
        for lane in lanes.into_iter().filter(|_| stored) {
            *ready.entry(lane).or_default() += 1;
        }
    }
    let ids: Vec<LaneId> = ready.keys().copied().collect();
    if let Ok(lanes) = context.directory.lanes(&ids).await {
        for lane in lanes {
            context.queue.hint(&lane, ready[&lane.id]).await;
        }
    }
    accepted
}

/// How many deliveries of an event leave as soon as there is room.
fn due_now(new: &NewEvent) -> usize {
    let due = |delivery: &&NewDelivery| delivery.run_at.is_none() && delivery.order.is_none();
    new.deliveries.iter().filter(due).count()
}

/// An event as it is stored, and what its receivers are sent.
async fn new_event(
    context: &Context,
    tenant: &Tenant,
    webhooks: &[Arc<Webhook>],
    batch: &Batch,
    index: usize,
    item: &Publication,
    id: EventId,
) -> Result<(NewEvent, Bytes)> {
    let now = id.0.time();
    let head = Head {
        id,
        event_type: &item.event_type,
        api_version: item.version.as_deref(),
        created_at: now,
        livemode: item.livemode,
    };
    let body = publication::envelope(head, &item.data, item.previous_attributes.as_deref());
    let content = Content::encode(&HeaderMap::new(), &[], &[], body.as_bytes(), None);
    let key = context.vault.key(tenant.id).await?;
    let mut dedup = Vec::new();
    if let Some(key) = &item.dedup_key {
        dedup.push(DedupKey::of_publication(tenant.id, b"key", key.as_bytes()));
    }
    if let Some(key) = &batch.call_key {
        let key = format!("{index}\n{key}");
        dedup.push(DedupKey::of_publication(tenant.id, b"call", key.as_bytes()));
    }
    let by_job = batch.origin.job.as_deref().map(publication::about_job);
    let event = Event {
        id,
        tenant: tenant.id,
        source: NO_SOURCE,
        event_type: item.event_type.clone(),
        dedup_key: item.dedup_key.clone().unwrap_or_else(|| id.to_string()),
        route: Route::Published,
        verified: true,
        subject: by_job.clone(),
        // Indexed as conversations are, so that nobody has to look for the events of a job.
        thread: by_job,
        occurred_at: item.deliver_at,
        received_at: now,
        payload_hash: hash(batch, item),
        duplicates: 0,
        remote_addr: None,
        latency_us: 0,
        signature: None,
        part: None,
        trace: batch.origin.trace.clone(),
    };
    let receipt = NewReceipt {
        id: ReceiptId(context.new_id()),
        tenant: tenant.id,
        source: NO_SOURCE,
        remote_addr: None,
        verdict: Verdict::Accepted,
        latency_us: 0,
        detail: None,
    };
    let wanted = webhooks.iter().filter(|webhook| webhook.wants(&item.event_type));
    let new = NewEvent {
        deliveries: wanted.map(|webhook| delivery(tenant, webhook, batch, item, id)).collect(),
        event,
        dedup,
        dedup_until: now.after(context.config.retention.blocks_for(DEDUP_WINDOW)),
        content: Some(key.seal(Slot::Content(id), &content)),
        job: None,
        receipt,
        retry: None,
        our_fault: None,
    };
    Ok((new, body.into()))
}

fn delivery(
    tenant: &Tenant,
    webhook: &Webhook,
    batch: &Batch,
    item: &Publication,
    event: EventId,
) -> NewDelivery {
    let mut made = first_delivery(tenant, webhook, event, item.order_key.as_deref());
    made.parent_id = batch.origin.job.clone();
    made.run_at = made.run_at.max(item.deliver_at);
    made
}

/// An event on its way to a webhook for the first time.
pub fn first_delivery(
    tenant: &Tenant,
    webhook: &Webhook,
    event: EventId,
    order_key: Option<&str>,
) -> NewDelivery {
    let retries =
        Retries::of(webhook.config.retry_s.as_deref(), tenant.settings.retry_s.as_deref());
    let order = order_key.filter(|_| webhook.config.order);
    NewDelivery {
        id: delivery_of(event, webhook.id),
        lane: webhook.lane,
        run_at: (!retries.first.is_zero()).then(|| event.0.time().after(retries.first)),
        max_attempts: retries.attempts,
        order: order.map(|key| {
            (OrderKey::of_webhook(tenant.id, webhook.id, key.as_bytes()), key.to_owned())
        }),
        parent_id: None,
    }
}

/// What tells a repeat from another event under the same key: everything the publisher said of it, and how much else the
/// call said, if only the call has a key. An event with a key of its own is the same event in any call.
fn hash(batch: &Batch, item: &Publication) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut part = |text: Option<&str>| {
        let text = text.unwrap_or("\u{0}");
        hash.update(&(text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    part(Some(&item.event_type));
    part(Some(item.data.get()));
    part(item.api_version.as_deref());
    part(item.previous_attributes.as_deref().map(RawValue::get));
    part(item.order_key.as_deref());
    part(Some(if item.livemode { "live" } else { "test" }));
    part(item.deliver_at.map(|at| at.to_string()).as_deref());
    let keyed_by_call = batch.call_key.is_some() && item.dedup_key.is_none();
    part(keyed_by_call.then(|| batch.items.len().to_string()).as_deref());
    hash.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Publishes one of our own types: what owners have to hear of. Nobody is kept waiting for it, and a repeat with the same
/// key says nothing.
pub async fn tell(
    context: &Arc<Context>,
    tenant: &Tenant,
    event_type: &str,
    key: String,
    data: &Value,
) -> Result<()> {
    let webhooks = context.directory.webhooks(tenant.id).await?;
    if !webhooks.iter().any(|webhook| webhook.wants(event_type)) {
        return Ok(());
    }
    let data = serde_json::value::to_raw_value(data).expect("a notice is plain data");
    let item = Publication {
        event_type: event_type.to_owned(),
        data,
        api_version: None,
        version: None,
        previous_attributes: None,
        livemode: true,
        dedup_key: Some(key),
        order_key: None,
        deliver_at: None,
    };
    let batch = Batch {
        items: vec![item],
        call_key: None,
        origin: Origin::default(),
        id: None,
        by_hand: None,
    };
    match publish(context, tenant, batch).await {
        Ok(_) | Err(StoreError::Mismatch(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
