//! The inbox: what was received, and what became of it.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::advice::{EffectCounts, next_action};
use wakepost_domain::event::{Event, Route, status};
use wakepost_domain::publication::about_job;
use wakepost_domain::receipt::{Class, Compared, OurFault, Verdict};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, ReceiptId, SourceId, TenantId, Timestamp, WorkId};
use wakepost_store::moves::{EventFilter, EventRow, OperationKind, Page, ReceiptRow, WorkRow};

use super::call::{At, Call};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::operations::{self, Begun};
use super::page::{Listed, PageQuery, listed};
use super::shapes::{Envelope, EventWork};
use super::work::{self, ReplayBody, Replayed, Scope, counts};
use crate::context::Context;
use crate::replays::{self, EventQuery, InboxReplay};
use crate::view::{Content, envelope};
use crate::{chains, schema};

/// Of how many of an event's jobs it is told what they published.
const PUBLISHERS_MAX: usize = 20;
/// And of how many events in all.
const PUBLISHED_MAX: u32 = 20;

/// An event.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventView {
    /// Its id.
    #[schema(value_type = schema::EventId)]
    id: EventId,
    /// Whose it is.
    #[schema(value_type = schema::Slug)]
    tenant: String,
    /// Where it came from.
    #[schema(value_type = schema::SourceId)]
    source: SourceId,
    /// That source's name, while it is there.
    source_name: Option<String>,
    /// Who sent it.
    provider: Option<&'static str>,
    /// What happened.
    #[serde(rename = "type")]
    event_type: String,
    /// Where it stands.
    #[schema(value_type = schema::EventStatus)]
    status: &'static str,
    /// Whether its signature was checked.
    verified: bool,
    /// Whether what was checked covers the body; some providers only send a token along.
    body_signed: Option<bool>,
    /// What it is about: `provider:kind:id`.
    subject: Option<String>,
    /// What makes a repeat a duplicate.
    dedup_key: String,
    /// When it happened, by the provider's word.
    #[schema(value_type = Option<schema::Timestamp>)]
    occurred_at: Option<Timestamp>,
    /// When it arrived.
    #[schema(value_type = schema::Timestamp)]
    received_at: Timestamp,
    /// How many repeats of it arrived.
    duplicates: i32,
}

/// An event and its whole story.
#[derive(Serialize, ToSchema)]
struct EventStory {
    #[serde(flatten)]
    event: EventView,
    /// The event in words that all providers share.
    #[schema(value_type = Envelope)]
    envelope: Value,
    /// All work about it; then the deliveries of what its jobs published, each about that event (`event_id`): of its latest
    /// 20 jobs, and of their latest 20 events.
    #[schema(value_type = Vec<EventWork>)]
    work: Vec<Value>,
    /// The requests that it came with, the first one first.
    receipts: Vec<ReceiptView>,
    /// What its latest work did outside.
    effects: EffectCountsView,
    /// The trace it belongs to, with all work about it.
    trace_id: String,
    /// What to do next.
    next_action: String,
}

/// How many side effects there were.
#[derive(Serialize, ToSchema)]
#[schema(as = EffectCounts)]
struct EffectCountsView {
    /// That happened.
    committed: u32,
    /// That nobody can vouch for.
    in_doubt: u32,
}

/// A request that was received.
#[derive(Serialize, ToSchema)]
#[schema(as = Receipt)]
pub struct ReceiptView {
    /// Its id; the request that made the event has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ReceiptId>)]
    id: Option<ReceiptId>,
    /// The event it became or repeated.
    #[schema(value_type = Option<schema::EventId>)]
    event_id: Option<EventId>,
    /// When it arrived.
    #[schema(value_type = schema::Timestamp)]
    received_at: Timestamp,
    /// What became of it.
    #[schema(value_type = schema::Verdict)]
    verdict: Verdict,
    /// Who sent it.
    address: Option<String>,
    /// How long it took, in microseconds.
    latency_us: i32,
    /// What an operator should know.
    detail: Option<String>,
    /// Why a duplicate came: `provider_retry`, `provider_replay`, `self_inflicted` or `suspicious`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    class: Option<Class>,
    /// What the class is concluded from.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceView>,
}

/// A duplicate beside the first of its kind.
#[derive(Serialize, ToSchema)]
#[schema(as = DuplicateEvidence)]
struct EvidenceView {
    /// How long after the first it came.
    seconds_after: u64,
    /// Whether it has the first's id.
    same_id: bool,
    /// Whether it has the first's body.
    same_body: bool,
    /// Whether it has the first's signature; `null` where that says nothing, since no time is signed.
    same_signature: Option<bool>,
    /// Whether it came from where the first did.
    same_address: bool,
    /// What the provider's retry header said.
    retry_header: Option<String>,
    /// How our own earlier answer failed: `unavailable` or `slow`.
    #[schema(value_type = Option<String>)]
    our_fault: Option<OurFault>,
}

/// Lists events.
#[utoipa::path(
    get, path = "/inbox", operation_id = "list_inbox", tag = "inbox",
    params(EventQuery, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<EventView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (filter, page) = call.list::<EventQuery>()?;
    let wanted = event_filter(&call.context, &tenant, filter).await?;
    let rows = call.context.store.events(tenant.id, wanted, page).await?;
    let last = rows.last().map(|row| row.event.id.0);
    let mut shown = Vec::with_capacity(rows.len());
    for row in rows {
        shown.push(shown_row(&call.context, &tenant, row).await?);
    }
    Ok(once::json(StatusCode::OK, &listed(shown, last, page.limit)))
}

pub async fn event_filter(
    context: &Context,
    tenant: &Tenant,
    query: EventQuery,
) -> Result<EventFilter, ApiError> {
    check_query("status", &query)?;
    Ok(query.resolve(context, tenant.id).await?)
}

fn check_query(field: &str, query: &EventQuery) -> Result<(), ApiError> {
    match query.status.as_deref() {
        Some(word) if !schema::event_statuses().any(|known| known == word) => {
            Err(ApiError::field(field, "is not a status"))
        }
        _ => Ok(()),
    }
}

pub async fn shown_row(
    context: &Context,
    tenant: &Tenant,
    row: EventRow,
) -> Result<EventView, ApiError> {
    let EventRow { event, work } = row;
    let source = context.directory.source(event.source).await?;
    Ok(EventView {
        id: event.id,
        tenant: tenant.slug.clone(),
        source: event.source,
        source_name: source.as_ref().map(|live| live.source.config.name.clone()),
        provider: source.as_ref().map(|live| live.provider.name()),
        event_type: event.event_type,
        status: status(event.route, work),
        verified: event.verified,
        body_signed: source.as_ref().map(|live| event.verified && live.facts.signs_body),
        subject: event.subject,
        dedup_key: event.dedup_key,
        occurred_at: event.occurred_at,
        received_at: event.received_at,
        duplicates: event.duplicates,
    })
}

/// The event with this id; another tenant's is not found.
pub async fn find(call: &Call, tenant: &Tenant, id: &str) -> Result<Event, ApiError> {
    let id: EventId = id.parse().map_err(|_| ApiError::not_found())?;
    let found = call.context.store.event(tenant.id, id).await?;
    // What the tenant published itself has a list of its own.
    let found = found.filter(|event| event.route != Route::Published);
    found.ok_or_else(ApiError::not_found)
}

/// Shows one event and its whole story.
#[utoipa::path(
    get, path = "/inbox/{event_id}", operation_id = "get_event", tag = "inbox",
    params(("event_id" = schema::EventId, Path), describe::Tenant),
    responses((status = 200, description = "The event.", body = EventStory), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    call.no_query()?;
    let context = &call.context;
    let content = Content::of(&call.context, &event).await?;
    let source = context.directory.source(event.source).await?;
    let work = context.store.work_of_event(tenant.id, event.id).await?;
    let repeats = context.store.receipts(tenant.id, event.id).await?;
    let (effects, next_action) = advice(context, &tenant, &event, &work).await?;
    let told_on = told_on(context, tenant.id, &work).await?;
    let envelope = envelope(&event, &tenant.slug, source.as_deref(), content.as_ref());
    let mut receipts = vec![accepted_receipt(&event)];
    receipts.extend(repeats.into_iter().map(|row| shown_receipt(row, Some(&event))));
    let live = work.iter().filter(|row| row.replayed_as.is_none());
    let row = EventRow { event, work: live.map(|row| row.state).collect() };
    // One that joined another event's job is in that one's trace.
    let trace_id = match work.iter().find(|row| row.kind == WorkKind::Job) {
        Some(job) => chains::trace_id(job.meta.trace.as_deref(), job.event, job.id),
        None => {
            let Event { id, trace, .. } = &row.event;
            chains::trace_id(trace.as_deref(), Some(*id), WorkId::first_of(*id))
        }
    };
    let story = EventStory {
        event: shown_row(context, &tenant, row).await?,
        envelope,
        work: shown_work(context, &tenant, [work, told_on].concat()).await?,
        receipts,
        effects: EffectCountsView { committed: effects.committed, in_doubt: effects.in_doubt },
        trace_id,
        next_action,
    };
    Ok(once::json(StatusCode::OK, &story))
}

/// The deliveries of what an event's jobs published, oldest first.
async fn told_on(
    context: &Context,
    tenant: TenantId,
    work: &[WorkRow],
) -> Result<Vec<WorkRow>, ApiError> {
    let jobs = work.iter().rev().filter(|row| row.kind == WorkKind::Job).take(PUBLISHERS_MAX);
    let (mut found, mut left) = (Vec::new(), PUBLISHED_MAX);
    for job in jobs {
        if left == 0 {
            break;
        }
        let thread = Some(about_job(&job.id.text(job.kind)));
        let filter = EventFilter { published: true, thread, ..EventFilter::default() };
        let page = Page { before: None, limit: left };
        let published = context.store.events(tenant, filter, page).await?;
        left -= published.len() as u32;
        for row in published {
            found.extend(context.store.work_of_event(tenant, row.event.id).await?);
        }
    }
    found.sort_by_key(|row| row.id);
    Ok(found)
}

/// The advice on an event is that on its latest item.
async fn advice(
    context: &Context,
    tenant: &Tenant,
    event: &Event,
    work: &[WorkRow],
) -> Result<(EffectCounts, String), ApiError> {
    let Some(latest) = work.last() else {
        let text = match event.route {
            Route::Unmapped => {
                "none: it could not be understood; replay it to run a job all the same"
            }
            _ => "none: no job was made; replay it to run one",
        };
        return Ok((EffectCounts::default(), text.to_owned()));
    };
    let effects = counts(&context.store.effects(tenant.id, latest.scope).await?, latest.id);
    Ok((effects, next_action(latest.state, latest.held, effects)))
}

async fn shown_work(
    context: &Context,
    tenant: &Tenant,
    work: Vec<WorkRow>,
) -> Result<Vec<Value>, ApiError> {
    let kinds: Vec<WorkKind> = work.iter().map(|row| row.kind).collect();
    let views = work::views(context, tenant, work).await?;
    let rows = views.into_iter().zip(kinds).map(|(view, kind)| {
        let mut row = serde_json::to_value(view).expect("a view is plain data");
        row["name"] = row["kind"].take();
        row["kind"] = json!(kind);
        row
    });
    Ok(rows.collect())
}

/// The request that made the event is kept with it.
fn accepted_receipt(event: &Event) -> ReceiptView {
    ReceiptView {
        id: None,
        event_id: Some(event.id),
        received_at: event.received_at,
        verdict: match event.route {
            Route::Job | Route::Joined | Route::Published => Verdict::Accepted,
            Route::Ignored => Verdict::Ignored,
            Route::Unmapped => Verdict::Unmapped,
        },
        address: event.remote_addr.clone(),
        latency_us: event.latency_us,
        detail: None,
        class: None,
        evidence: None,
    }
}

/// A receipt as clients see it; `first` is the event it repeats.
pub fn shown_receipt(row: ReceiptRow, first: Option<&Event>) -> ReceiptView {
    let judged = first.zip(row.evidence).map(|(first, evidence)| {
        let at = row.id.0.time();
        let compared = Compared::new(first, at, row.remote_addr.as_deref(), &evidence);
        let class = compared.class(&evidence);
        let view = EvidenceView {
            seconds_after: compared.seconds_after,
            same_id: compared.same_id,
            same_body: compared.same_body,
            same_signature: compared.same_signature,
            same_address: compared.same_address,
            retry_header: evidence.retry,
            our_fault: evidence.our_fault,
        };
        (class, view)
    });
    let (class, evidence) = judged.unzip();
    ReceiptView {
        class,
        evidence,
        id: Some(row.id),
        event_id: row.event,
        received_at: row.id.0.time(),
        verdict: row.verdict,
        address: row.remote_addr,
        latency_us: row.latency_us,
        detail: row.detail,
    }
}

/// It is not kept any more.
pub fn pruned() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "body_pruned", "the event's body is no longer kept")
}

fn redacted() -> ApiError {
    let detail = "its source hides parts of it: the raw bytes need an operator's or admin's key";
    ApiError::new(StatusCode::FORBIDDEN, "redacted", detail)
}

/// Gives the body, byte for byte.
///
/// Always as a download: it is whatever the sender sent. 404 with the code `body_pruned` once it is no longer
/// kept. Nothing is hidden here: where the source has redaction rules only operators and admins get it, and others 403
/// with the code `redacted`.
#[utoipa::path(
    get, path = "/inbox/{event_id}/raw", operation_id = "get_event_body", tag = "inbox",
    params(("event_id" = schema::EventId, Path), describe::Tenant),
    responses(
        (status = 200, description = "The bytes.", body = Vec<u8>,
         content_type = "application/octet-stream"),
        Keyed, Missing,
    )
)]
pub async fn raw(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let source = call.context.directory.source(event.source).await?;
    let may_see_all = call.need(Right::Operate).is_ok();
    if !may_see_all && source.as_ref().is_some_and(|live| !live.redaction.is_empty()) {
        return Err(redacted());
    }
    let content = Content::of(&call.context, &event).await?.ok_or_else(pruned)?;
    if !may_see_all && source.is_none() && !content.redact.is_empty() {
        return Err(redacted());
    }
    call.no_query()?;
    let mut response = content.body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

/// The headers of a request.
#[derive(Serialize, ToSchema)]
struct Headers {
    /// Each line: a name may stand more than once.
    headers: Vec<HeaderLine>,
}

/// A header.
#[derive(Serialize, ToSchema)]
struct HeaderLine {
    /// Its name, in lower case.
    name: String,
    /// Its value.
    value: String,
}

/// Gives the headers it came with, less the sender's credentials.
#[utoipa::path(
    get, path = "/inbox/{event_id}/headers", operation_id = "get_event_headers", tag = "inbox",
    params(("event_id" = schema::EventId, Path), describe::Tenant),
    responses((status = 200, description = "The headers.", body = Headers), Keyed, Missing)
)]
pub async fn headers(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let content = Content::of(&call.context, &event).await?.ok_or_else(pruned)?;
    call.no_query()?;
    let lines = content.headers.iter().map(|(name, value)| HeaderLine {
        name: name.to_string(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    });
    Ok(once::json(StatusCode::OK, &Headers { headers: lines.collect() }))
}

/// Runs an event's job once more; an event that never had one gets its first.
#[utoipa::path(
    post, path = "/inbox/{event_id}/replay", operation_id = "replay_event", tag = "inbox",
    params(("event_id" = schema::EventId, Path), describe::Tenant, Idempotent),
    request_body = ReplayBody,
    responses(
        (status = 202, description = "The new job waits.", body = Replayed),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn replay(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let from = replays::of_event(&call.context, &event).await?;
    work::replay(&call, &tenant, from, event.id.to_string()).await
}

/// Which events are run again, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ManyBody {
    /// Which events: the same names as the list has. Empty: all that were received so far.
    filter: EventQuery,
    /// Who, and why.
    #[schema(value_type = schema::Note)]
    note: String,
    /// Whether committed effects are skipped (`same`, the default) or may happen again (`fresh`).
    scope: Option<Scope>,
    /// Only count them.
    dry_run: Option<bool>,
}

/// Runs the jobs of many events once more, each once however often this is interrupted.
///
/// Of those that were received so far. What runs, or was replayed already, counts as failed.
#[utoipa::path(
    post, path = "/inbox/replay", operation_id = "replay_inbox", tag = "inbox",
    params(describe::Tenant, Idempotent), request_body = ManyBody,
    responses((status = 202, description = "It is under way.", body = Begun), Keyed, Missing, Conflicting)
)]
pub async fn replay_many(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let ManyBody { filter, note, scope, dry_run } = call.body()?;
    work::check_note(&note)?;
    check_query("filter.status", &filter)?;
    let asked = InboxReplay {
        filter,
        note: note.clone(),
        fresh_scope: scope.unwrap_or_default() == Scope::Fresh,
        dry_run: dry_run.unwrap_or_default(),
        actor: call.caller.name.clone(),
    };
    let asked = serde_json::to_string(&asked).expect("what was asked is plain data");
    operations::begin(&call, &tenant, OperationKind::InboxReplay, asked, "inbox.replay", note).await
}
