//! Callbacks: a job's outcome, told to whoever asked for it. The store makes the item with the job's end, whatever
//! that was; here is where it goes and what it says. `executors/callback.rs` sends it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wakepost_domain::callback::{OwnCallback, outcome_type};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::source::Source;
use wakepost_domain::work::{Priority, State, WorkKind};
use wakepost_domain::{EventId, SourceId, TenantId, Timestamp, WorkId};
use wakepost_store::moves::WorkRow;
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::outbound::Target;
use crate::view::{Waits, open_json, work_view};

/// How many callbacks of one lane are under way at once: a receiver that hangs must not take the places of others.
pub const AT_ONCE: u32 = 16;

/// What a callback says, kept from its first try on, so that every later one and every replay says the same.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    /// What the receiver tells a repeat by.
    pub webhook_id: String,
    /// Where it goes, if the job named that for itself; else the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<OwnCallback>,
    /// The body, byte for byte.
    pub payload: Box<RawValue>,
}

/// Where a callback goes.
pub struct Destination {
    /// The address.
    pub url: String,
    /// Whether the operator chose it.
    pub trusted: bool,
    /// What it is signed with.
    pub secret: Option<String>,
}

#[derive(Serialize)]
struct Outcome {
    #[serde(rename = "type")]
    outcome: &'static str,
    timestamp: Timestamp,
    data: OutcomeOf,
}

#[derive(Serialize)]
struct OutcomeOf {
    id: String,
    event_id: Option<EventId>,
    tenant: String,
    kind: String,
    subject: Option<String>,
    status: State,
    attempts: i32,
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    trace_id: String,
}

/// Where the callbacks of a source's jobs wait, if it wants any.
pub async fn lane_of_source(context: &Context, source: &Source) -> Result<Option<LaneId>> {
    if source.config.callback_url.is_none() {
        return Ok(None);
    }
    let origin = Some(source.id.0);
    lane(context, source.tenant, origin, "callback".to_owned()).await.map(Some)
}

/// Where the callback of a job waits that names its own address: with those for the same receiver. Not by the whole
/// address, since that may differ from job to job, and lanes are for ever.
pub async fn lane_of_job(context: &Context, tenant: TenantId, target: &Target) -> Result<LaneId> {
    let uri = target.uri();
    let scheme = uri.scheme_str().unwrap_or_default();
    let receiver = uri.authority().map(ToString::to_string).unwrap_or_default();
    lane(context, tenant, None, format!("{scheme}://{receiver}")).await
}

async fn lane(
    context: &Context,
    tenant: TenantId,
    origin: Option<wakepost_domain::Ulid>,
    name: String,
) -> Result<LaneId> {
    let key = LaneKey {
        tenant,
        kind: WorkKind::Callback,
        priority: Priority::Webhook,
        origin,
        name,
        executor: None,
    };
    Ok(context.directory.lane(key).await?.id)
}

/// What requests to a job's own callback address are signed with: the same for the same address, always.
pub fn own_secret(context: &Context, tenant: TenantId, url: &str) -> String {
    context.tokens.callback_secret(&format!("{}\n{url}", tenant.0))
}

/// Where a callback goes now; none if its source wants none any more.
pub async fn destination(
    context: &Context,
    lane: &Lane,
    kept: &Kept,
) -> Result<Option<Destination>> {
    if let Some(OwnCallback { url, trusted }) = kept.to.clone() {
        let secret = Some(own_secret(context, lane.key.tenant, &url));
        return Ok(Some(Destination { url, trusted, secret }));
    }
    let source = match lane.key.origin {
        Some(origin) => context.directory.source(SourceId(origin)).await?,
        None => None,
    };
    Ok(source.and_then(|live| {
        let (config, secrets) = (&live.source.config, &live.source.secrets);
        Some(Destination {
            url: config.callback_url.clone()?,
            trusted: config.callback_trusted,
            secret: secrets.callback.clone(),
        })
    }))
}

/// What a callback said at its first try, or was made to say again; none before that.
pub async fn kept(context: &Context, row: &WorkRow) -> Result<Option<Kept>> {
    let Some((_, state)) = context.store.job_states(vec![row.id]).await?.pop() else {
        return Ok(None);
    };
    let (slot, record) = match (state.input, state.checkpoint) {
        (Some(input), _) => (Slot::Input(row.id), input),
        (None, Some(checkpoint)) => (Slot::Checkpoint(row.id), checkpoint),
        (None, None) => return Ok(None),
    };
    let plain = context.vault.key(row.tenant).await?.open(slot, &record)?;
    let damaged = |_| StoreError::Corrupt("a callback cannot be read".to_owned());
    serde_json::from_slice(&plain).map(Some).map_err(damaged)
}

/// What a callback has to say; none if its job is not kept any more.
pub async fn compose(context: &Context, row: &WorkRow) -> Result<Option<Kept>> {
    let parent = row.meta.parent_id.as_deref();
    let job = parent.and_then(|text| WorkId::parse(text, WorkKind::Job).ok());
    let job = match job {
        Some(id) => context.store.work(row.tenant, id).await?,
        None => None,
    };
    let Some(job) = job else {
        return Ok(None);
    };
    let to = job.meta.callback.clone();
    let Some(payload) = payload(context, job).await? else {
        return Ok(None);
    };
    Ok(Some(Kept { webhook_id: row.id.text(row.kind), to, payload }))
}

async fn payload(context: &Context, job: WorkRow) -> Result<Option<Box<RawValue>>> {
    let (Some(outcome), Some(timestamp)) = (outcome_type(job.state), job.finished_at) else {
        return Ok(None);
    };
    let (id, tenant) = (job.id, context.directory.tenant(job.tenant).await?);
    let key = context.vault.key(job.tenant).await?;
    let lane = context.directory.lanes(&[job.lane]).await?.pop();
    let state = context.store.job_states(vec![id]).await?.pop();
    let state = state.map(|(_, state)| state).unwrap_or_default();
    let result = state.result.map(|record| open_json(&key, Slot::JobResult(id), &record));
    let reply = state.reply.map(|record| key.open(Slot::Reply(id), &record)).transpose()?;
    let slug = tenant.map(|tenant| tenant.slug.clone()).unwrap_or_default();
    let view = work_view(job, Vec::new(), lane.as_deref(), &slug, &Waits::default());
    let data = OutcomeOf {
        id: view.id,
        event_id: view.event_id,
        tenant: view.tenant,
        kind: view.kind,
        subject: view.subject,
        status: view.status,
        attempts: view.attempts,
        result: result.transpose()?,
        reply: reply.map(|text| String::from_utf8_lossy(&text).into_owned()),
        cost: state.cost,
        error: view.last_error.filter(|_| view.status != State::Succeeded),
        trace_id: view.trace_id,
    };
    let outcome = Outcome { outcome, timestamp, data };
    Ok(Some(serde_json::value::to_raw_value(&outcome).expect("an outcome is plain data")))
}
