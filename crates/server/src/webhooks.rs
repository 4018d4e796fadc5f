//! Webhooks as they live: changed on a version, counted by their circuit, given up, and told of to their owners.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use wakepost_domain::circuit::{CircuitState, Outcome};
use wakepost_domain::event_type;
use wakepost_domain::figures::Figure;
use wakepost_domain::lane::LaneId;
use wakepost_domain::publication::{self, Head};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::webhook::{Notice, NoticeKind, Webhook};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, Timestamp, WebhookId, WorkId};
use wakepost_store::moves::AuditEntry;
use wakepost_store::{Result, Store, StoreError, failpoint};

use crate::context::Context;
use crate::deliveries;
use crate::directory::sealed_webhook;
use crate::hub::Setting;
use crate::outbound::{Tried, deliver};
use crate::publishing;
use crate::telemetry::metrics::{Kind, Stands};

/// How often a change is tried that others keep getting ahead of.
const TRIES: usize = 20;
/// How many waiting deliveries are ended at a time, …
const END_STEP: u32 = 500;
/// … and how often in a row. What is left is given up as it is claimed.
const END_STEPS_MAX: usize = 400;

/// Successes that no circuit was told of yet, by webhook. They matter only to the share of failures.
#[derive(Debug, Default)]
pub struct Untold(Mutex<HashMap<WebhookId, u32>>);

impl Untold {
    fn add(&self, id: WebhookId) {
        let mut counts = self.0.lock();
        let count = counts.entry(id).or_default();
        *count = count.saturating_add(1);
    }

    fn take(&self, id: WebhookId) -> u32 {
        self.0.lock().remove(&id).unwrap_or(0)
    }
}

/// Changes a webhook on the version it was read at, again if somebody was faster. `change` sees it as it is now, and the
/// time by which leases go; its error ends the whole. Answers the webhook as it is then.
pub async fn change<E: From<StoreError>>(
    context: &Context,
    tenant: TenantId,
    id: WebhookId,
    audit: Option<AuditEntry>,
    mut change: impl FnMut(&mut Webhook, Timestamp) -> std::result::Result<(), E>,
) -> std::result::Result<Webhook, E> {
    for _ in 0..TRIES {
        let record = context.store.webhook(id).await?;
        let record = record.filter(|record| record.tenant == tenant);
        let before = context.directory.open_webhook(record.ok_or(StoreError::NotFound)?).await?;
        let mut after = before.clone();
        change(&mut after, context.store.now().await?)?;
        if after == before {
            return Ok(after);
        }
        let key = context.vault.key(tenant).await?;
        failpoint::pass_async("webhook.before_write").await?;
        let (record, audit) = (sealed_webhook(&after, &key), audit.clone());
        let update =
            |store: Arc<dyn Store>| async move { store.update_webhook(record, audit).await };
        match context.change(Setting::Webhooks(tenant), update).await {
            Ok(()) => {
                after.version += 1;
                return Ok(after);
            }
            Err(StoreError::InvalidState(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Busy.into())
}

/// A lane may hand out again.
pub async fn wake(context: &Context, lane: LaneId) {
    // What gets lost here is found again by the resync.
    let _ = context.queue.hint_all_nodes(&[lane]).await;
}

/// What a circuit made of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Whether the run was only to see whether the receiver is back.
    pub was_probe: bool,
}

/// Tells a webhook's circuit of a run that was taken, or failed in a way that another try may mend. Most of the time
/// there is nothing to write: a success with nothing amiss before it.
pub async fn note(
    context: &Arc<Context>,
    seen: &Webhook,
    started_at: Timestamp,
    ok: bool,
) -> Result<Noted> {
    if ok && seen.circuit.is_quiet() {
        context.untold.add(seen.id);
        return Ok(Noted { was_probe: false });
    }
    let (id, ok_before) = (seen.id, context.untold.take(seen.id));
    let _turn = context.circuits.lock(id).await;
    let (mut was_probe, mut before) = (false, CircuitState::Closed);
    let noted = change::<StoreError>(context, seen.tenant, id, None, |webhook, now| {
        was_probe = webhook.circuit.is_probe(started_at);
        before = webhook.circuit.state;
        let outcome = Outcome { started_at, ok, ok_before };
        webhook.circuit.note(&webhook.config.circuit, outcome, now);
        if before == CircuitState::Closed && webhook.circuit.state == CircuitState::Open {
            let reason = webhook.circuit.history.last().map(|change| change.reason.clone());
            webhook.notify(NoticeKind::CircuitOpened, now, &reason.unwrap_or_default());
        }
        Ok(())
    });
    match noted.await {
        Ok(webhook) => {
            if webhook.circuit.state != before {
                let state = webhook.circuit.state.as_str();
                context.metrics.circuit_changes.get_or_create(&Stands { state }).inc();
            }
            if webhook.is_probed() && webhook.shut_until().is_none() {
                wake(context, webhook.lane).await;
            }
            Ok(Noted { was_probe })
        }
        // It was deleted meanwhile.
        Err(StoreError::NotFound) => Ok(Noted { was_probe: false }),
        Err(error) => Err(error),
    }
}

/// Gives a webhook up, and what waits for it.
pub async fn disable(
    context: &Context,
    tenant: TenantId,
    id: WebhookId,
    reason: &str,
    audit: Option<AuditEntry>,
) -> Result<Webhook> {
    let webhook = change::<StoreError>(context, tenant, id, audit, |webhook, now| {
        webhook.disable(now, reason);
        Ok(())
    })
    .await?;
    end_waiting(context, webhook.lane, State::DeadLetter, "the webhook is disabled").await?;
    Ok(webhook)
}

/// Takes a webhook up again.
pub async fn enable(
    context: &Context,
    tenant: TenantId,
    id: WebhookId,
    audit: Option<AuditEntry>,
) -> Result<Webhook> {
    let webhook = change::<StoreError>(context, tenant, id, audit, |webhook, now| {
        webhook.enable(now);
        Ok(())
    })
    .await?;
    wake(context, webhook.lane).await;
    Ok(webhook)
}

/// How long a receiver has for what it is only asked.
const ASKED_TIMEOUT: Duration = Duration::from_secs(5);

/// Something that is sent once, now, and stored nowhere.
pub struct Asked {
    id: EventId,
    body: String,
    timeout: Duration,
}

impl Asked {
    /// A ping.
    pub fn ping(context: &Context, webhook: &Webhook) -> Asked {
        let object = json!({"webhook_id": webhook.id, "events": webhook.config.events});
        Asked::of(context, PING, None, &object, ASKED_TIMEOUT)
    }

    /// A sample of a type: its newest example, if there is one.
    pub async fn sample(
        context: &Context,
        tenant: &Tenant,
        webhook: &Webhook,
        name: &str,
    ) -> Result<Asked> {
        if name == PING {
            return Ok(Asked::ping(context, webhook));
        }
        let known = publishing::known_type(context, tenant.id, name).await?;
        let newest = known.as_ref().and_then(|known| known.spec.newest());
        let example = newest.and_then(|(_, version)| version.example.clone());
        let object = example.unwrap_or_else(|| json!({"sample": true}));
        let version = newest.map(|(version, _)| version.to_owned());
        Ok(Asked::of(context, name, version.as_deref(), &object, webhook.timeout()))
    }

    fn of(
        context: &Context,
        event_type: &str,
        api_version: Option<&str>,
        object: &Value,
        timeout: Duration,
    ) -> Asked {
        let id = EventId(context.new_id());
        let head = Head { id, event_type, api_version, created_at: id.0.time(), livemode: false };
        let object = serde_json::value::to_raw_value(object).expect("a sample is plain data");
        Asked { id, body: publication::envelope(head, &object, None), timeout }
    }
}

/// The type of a ping.
const PING: &str = "webhook.ping";

/// Sends something to a webhook once. What comes of it changes nothing.
pub async fn ask(context: &Context, webhook: &Webhook, asked: Asked) -> Result<Tried> {
    let trace = hex::encode(asked.id.to_bytes());
    let traceparent = format!("00-{trace}-{}-01", &trace[16..]);
    let body = asked.body.into();
    let delivery = deliveries::to(webhook, asked.id.to_string(), traceparent, body, context.now());
    let mut delivery = delivery.map_err(StoreError::Corrupt)?;
    delivery.timeout = delivery.timeout.min(asked.timeout);
    let (client, rules) = (context.client.as_ref(), &context.config.addresses);
    Ok(deliver(client, rules, context.now(), &delivery).await)
}

/// Ends what waits in a lane. What is added meanwhile by somebody who does not know yet is given up when it is claimed.
pub async fn end_waiting(
    context: &Context,
    lane: LaneId,
    state: State,
    reason: &str,
) -> Result<u64> {
    let mut ended = 0;
    for _ in 0..END_STEPS_MAX {
        let step = context.store.end_waiting(lane, state, reason.to_owned(), END_STEP).await?;
        ended += step;
        if step < u64::from(END_STEP) {
            break;
        }
    }
    wake(context, lane).await;
    if state == State::DeadLetter
        && let Some(lane) = context.directory.lanes(&[lane]).await?.pop()
    {
        let tenant = lane.key.tenant;
        context.tally.note(tenant, context.now(), |figures| {
            figures.count(Figure::DeliveriesDead, ended);
        });
        let kind = Kind { kind: lane.key.kind.as_str() };
        context.metrics.dead_letters.get_or_create(&kind).inc_by(ended);
    }
    Ok(ended)
}

/// What a webhook's owner reads of it in a notice.
pub fn told(webhook: &Webhook, notice: &Notice) -> Value {
    json!({
        "id": webhook.id,
        "url": webhook.config.url,
        "description": webhook.config.description,
        "status": webhook.status(),
        "reason": notice.reason,
        "at": notice.at,
    })
}

/// Tells the owner of a delivery that it was given up. What tells of another is not told of in turn.
pub async fn tell_of_dead_letter(context: &Arc<Context>, tenant: TenantId, work: WorkId) {
    if let Err(error) = try_tell(context, tenant, work).await {
        tracing::warn!(%error, delivery_id = %work.text(WorkKind::Delivery), "a dead letter was not told of");
    }
}

async fn try_tell(context: &Arc<Context>, tenant: TenantId, work: WorkId) -> Result<()> {
    let Some(of) = context.directory.tenant(tenant).await? else { return Ok(()) };
    let Some(row) = context.store.work(tenant, work).await? else { return Ok(()) };
    let Some(event) = row.event else { return Ok(()) };
    let events = context.store.events_by_id(vec![(tenant, event)]).await?;
    let Some(event) = events.first().filter(|event| !event_type::is_ours(&event.event_type)) else {
        return Ok(());
    };
    let lane = context.directory.lanes(&[row.lane]).await?.pop();
    let webhook = lane.and_then(|lane| lane.key.origin).map(WebhookId);
    let id = work.text(WorkKind::Delivery);
    let data = json!({
        "id": id,
        "event_id": event.id,
        "event_type": event.event_type,
        "webhook_id": webhook,
        "attempts": row.attempts,
        "error": row.last_error,
    });
    publishing::tell(context, &of, "delivery.dead_lettered", format!("dead_lettered:{id}"), &data)
        .await
}

/// One webhook's circuit is counted by one run of this node at a time: many that fail together would else get in each
/// other's way.
#[derive(Debug, Default)]
pub struct Circuits(Mutex<HashMap<WebhookId, Arc<tokio::sync::Mutex<()>>>>);

/// How many are remembered; beyond it those that nobody holds are forgotten.
const CIRCUITS_MAX: usize = 10_000;

impl Circuits {
    async fn lock(&self, id: WebhookId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            if turns.len() >= CIRCUITS_MAX {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            turns.entry(id).or_default().clone()
        };
        turn.lock_owned().await
    }
}
